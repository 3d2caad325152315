#include "launcher/mpi/remote_command.h"

#include <string_view>

namespace pawl::launcher::mpi {
namespace {

// ssh(1): the options that have a value, in the same word or the next.
constexpr std::string_view kOptionsWithValue = "BbcDEeFIiJLlmOopQRSWw";

// How many words from here on are one option (or several in a word: "-nxl root").
std::size_t option_words(const std::string& word) {
  for (std::size_t i = 1; i < word.size(); ++i) {
    if (kOptionsWithValue.find(word[i]) == std::string_view::npos) continue;
    return i + 1 == word.size() ? 2 : 1;
  }
  return 1;
}

}  // namespace

Result<RemoteCommand> parse_remote_command(const std::vector<std::string>& words) {
  RemoteCommand remote;
  std::size_t at = 0;
  // ssh takes options on both sides of the host.
  while (at < words.size()) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      if (!remote.host.empty() || at == words.size()) break;
      remote.host = words[at++];
      break;
    }
    if (word.size() > 1 && word.front() == '-') {
      at += option_words(word);
    } else if (remote.host.empty()) {
      remote.host = words[at++];
    } else {
      break;
    }
  }
  remote.host = remote.host.substr(remote.host.rfind('@') + 1);  // whoever asks, we are one user
  for (; at < words.size(); ++at) remote.command += (remote.command.empty() ? "" : " ") + words[at];
  if (remote.host.empty() || remote.command.empty()) {
    return fail(Code::kInvalid,
                "wants a host and a command, as ssh does: this is called by mpirun, not by hand");
  }
  return remote;
}

}  // namespace pawl::launcher::mpi
