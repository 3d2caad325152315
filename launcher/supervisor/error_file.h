// torchrun's contract for a process that wants to say why it failed: it writes JSON to
// TORCHELASTIC_ERROR_FILE.
#pragma once

#include <string>

namespace pawl::launcher {

// The message in it, one bounded line; "" when the file is not there or holds none.
std::string read_error_file(const std::string& path);

}  // namespace pawl::launcher
