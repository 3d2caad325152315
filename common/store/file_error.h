// Turns a failed call of FileSystem into an Error that names what was done to which path. Pure.
#pragma once

#include <string>

#include "common/base/result.h"

namespace pawl::store {

// `result` is -errno. Absent is NotFound, taken is AlreadyExists, no permission is Forbidden, a
// name that is too long is Invalid, the rest is Io; a full disk says so in plain words.
tl::unexpected<Error> file_error(int result, const char* doing, const std::string& path);

}  // namespace pawl::store
