// The files and ports that the process node gives a pod. Blocking, short; the node's thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "common/base/result.h"

namespace pawl::local {

// Creates the folder and its parents; only the owner may enter it.
Status create_private_folder(const std::string& path);
// By rename, so that a reader never sees a part; only the owner may read it.
Status write_private_file(const std::string& path, const std::string& text);
// At most `bytes_max` of its end; "" when it cannot be read.
std::string read_tail(const std::string& path, std::size_t bytes_max);
// A TCP port of 127.0.0.1 that is free, that no outgoing connection will be given, and that is not
// in `taken`, to which it is added.
Result<std::uint16_t> find_free_port(std::set<std::uint16_t>& taken);

}  // namespace pawl::local
