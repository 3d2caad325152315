// Runs another program to its end and takes what it prints.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::os {

// What `arguments[0]` (looked for in PATH) writes to standard output, at most 1 MiB. Its standard
// input and error are ours, its environment is environment() with `extra` added. NotFound: there is
// no such program; Invalid: it did not exit with 0.
Result<std::string> output_of(const std::vector<std::string>& arguments,
                              const std::map<std::string, std::string>& extra);

}  // namespace pawl::os
