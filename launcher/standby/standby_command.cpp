#include "launcher/standby/standby_command.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace pawl::launcher {
namespace {

// "python", "python3", "python3.11", with or without a folder.
bool is_python(const std::string& command) {
  const std::string name = command.substr(command.rfind('/') + 1);
  constexpr char kPrefix[] = "python";
  return name.starts_with(kPrefix) &&
         std::all_of(name.begin() + sizeof kPrefix - 1, name.end(), [](unsigned char letter) {
           return std::isdigit(letter) != 0 || letter == '.';
         });
}

// Flags that change nothing in what is run ("Miscellaneous options" of python(1)); -X and -W have
// a value, in the same word or in the next one.
bool is_plain_flag(const std::string& word) {
  return word.size() >= 2 && word[0] == '-' &&
         (word[1] == 'X' || word[1] == 'W' ||
          word.find_first_not_of("bBdEIOPqRsSuv", 1) == std::string::npos);
}

}  // namespace

std::optional<std::vector<std::string>> standby_command(const std::vector<std::string>& command,
                                                        const std::string& script, int fd) {
  if (command.empty() || !is_python(command[0])) return std::nullopt;
  std::size_t at = 1;
  while (at < command.size() && command[at] != "-m" && command[at].starts_with("-")) {
    if (!is_plain_flag(command[at])) return std::nullopt;
    at += command[at] == "-X" || command[at] == "-W" ? 2 : 1;
  }
  const std::size_t words = at < command.size() && command[at] == "-m" ? 2 : 1;
  if (at + words > command.size()) return std::nullopt;
  std::vector<std::string> result = command;
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), {script, std::to_string(fd)});
  return result;
}

}  // namespace pawl::launcher
