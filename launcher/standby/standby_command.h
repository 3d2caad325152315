// Which programs another process may stand by for, and how that is started. Asked by StandbySet.
// Pure: what the program itself makes impossible (it patches before it imports) is found by
// standby.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pawl::launcher {

// The same interpreter with the same flags, which runs `script` (standby.py) with `fd`, then the
// program and its arguments: "python3 -u train.py --lr 1" → "python3 -u SCRIPT FD train.py --lr 1".
// Nothing unless `command` is plainly Python with a script or a module (-m): what a shell, torchrun
// or -c would do first is not ours to guess, and a command that is not understood could run twice.
std::optional<std::vector<std::string>> standby_command(const std::vector<std::string>& command,
                                                        const std::string& script, int fd);

}  // namespace pawl::launcher
