#include "cli/convert/torchrun.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace pawl::cli::convert {
namespace {

// With dashes; underscores mean the same.
constexpr std::array kWithValue = {"--nnodes",
                                   "--nproc-per-node",
                                   "--rdzv-backend",
                                   "--rdzv-endpoint",
                                   "--rdzv-id",
                                   "--rdzv-conf",
                                   "--max-restarts",
                                   "--monitor-interval",
                                   "--start-method",
                                   "--role",
                                   "--log-dir",
                                   "--redirects",
                                   "-r",
                                   "--tee",
                                   "-t",
                                   "--node-rank",
                                   "--master-addr",
                                   "--master-port",
                                   "--local-addr",
                                   "--logs-specs",
                                   "--event-log-handler",
                                   "--local-ranks-filter",
                                   "--numa-binding",
                                   "--signals-to-handle"};
constexpr std::array kWithoutValue = {"--standalone", "--use-env", "--run-path"};

std::string file_name(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

template <typename List>
bool is_one_of(const std::string& word, const List& list) {
  return std::ranges::any_of(list, [&](const char* item) { return word == item; });
}

// The number of words that start torchrun, 0 if they do not; `python` gets the interpreter and its
// options.
std::size_t head_of(const std::vector<std::string>& words, std::vector<std::string>& python,
                    bool& is_launch) {
  if (words.empty()) return 0;
  if (file_name(words[0]) == "torchrun") {
    python = {"python3", "-u"};
    return 1;
  }
  if (!file_name(words[0]).starts_with("python")) return 0;
  std::size_t i = 1;
  while (i < words.size() && words[i].starts_with("-") && words[i] != "-m") ++i;
  if (i + 1 >= words.size() || words[i] != "-m") return 0;
  const std::string& module = words[i + 1];
  is_launch = module == "torch.distributed.launch";
  if (module != "torch.distributed.run" && !is_launch) return 0;
  python.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
  if (std::ranges::find(python, "-u") == python.end()) python.emplace_back("-u");
  return i + 2;
}

// Copies a quoted part to `word`; returns the place of its closing quote.
std::size_t take_quoted(const std::string& script, std::size_t i, std::string& word) {
  const char quote = script[i++];
  for (; i < script.size() && script[i] != quote; ++i) {
    if (quote == '"' && script[i] == '\\' && i + 1 < script.size()) ++i;
    word += script[i];
  }
  return i;
}

// Copies $(…) or `…` as it stands; returns the place of its last character.
std::size_t take_substitution(const std::string& script, std::size_t i, std::string& word) {
  const bool has_parentheses = script[i] == '$';
  int depth = 0;
  for (const std::size_t first = i; i < script.size(); ++i) {
    word += script[i];
    if (script[i] == '(') ++depth;
    const bool is_last =
        has_parentheses ? script[i] == ')' && --depth == 0 : script[i] == '`' && i > first;
    if (is_last) break;
  }
  return i;
}

// The commands of a script as words, near enough to the shell for what starts a program: quotes are
// taken off, comments and escaped line ends left out, nothing is filled in.
std::vector<std::vector<std::string>> commands_of(const std::string& script) {
  constexpr std::string_view kBlanks = " \t\r", kSeparators = "\n;&|()";
  std::vector<std::vector<std::string>> commands(1);
  std::string word;
  bool has_word = false;
  const auto end_word = [&] {
    if (std::exchange(has_word, false)) commands.back().push_back(std::exchange(word, {}));
  };
  for (std::size_t i = 0; i < script.size(); ++i) {
    const char c = script[i];
    if (kBlanks.find(c) != kBlanks.npos) {
      end_word();
    } else if (kSeparators.find(c) != kSeparators.npos) {
      end_word();
      commands.emplace_back();
    } else if (c == '#' && !has_word) {
      i = std::min(script.find('\n', i), script.size()) - 1;
    } else if (c == '\\' && script.compare(i, 2, "\\\n") == 0) {
      ++i;
    } else {
      has_word = true;
      if (c == '\'' || c == '"') {
        i = take_quoted(script, i, word);
      } else if (c == '`' || script.compare(i, 2, "$(") == 0) {
        i = take_substitution(script, i, word);
      } else {
        if (c == '\\' && i + 1 < script.size()) ++i;
        word += script[i];
      }
    }
  }
  end_word();
  return commands;
}

}  // namespace

std::optional<Torchrun> take_apart(const std::vector<std::string>& words) {
  Torchrun out;
  std::vector<std::string> python;
  bool is_launch = false, is_module = false, has_python = true;
  std::size_t i = head_of(words, python, is_launch);
  if (i == 0) return std::nullopt;
  out.gives_local_rank = is_launch;
  for (; i < words.size() && words[i].starts_with("-"); ++i) {
    const auto equals = words[i].find('=');
    std::string name = words[i].substr(0, equals);
    if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
    if (name == "-m" || name == "--module") {
      is_module = true;
    } else if (name == "--no-python") {
      has_python = false;
    } else if (is_one_of(name, kWithoutValue)) {
      out.options.push_back(words[i]);
      if (name == "--use-env") out.gives_local_rank = false;
    } else if (is_one_of(name, kWithValue)) {
      const bool is_next = equals == std::string::npos;
      if (is_next && i + 1 >= words.size()) return Torchrun{.unknown = words[i]};
      const std::string value = is_next ? words[i + 1] : words[i].substr(equals + 1);
      if (name == "--nproc-per-node") out.processes = value;
      out.options.push_back(name + "=" + value);
      if (is_next) ++i;
    } else {
      return Torchrun{.unknown = words[i]};
    }
  }
  if (has_python) out.command = python;
  if (is_module) out.command.emplace_back("-m");
  out.command.insert(out.command.end(), words.begin() + static_cast<std::ptrdiff_t>(i),
                     words.end());
  return out;
}

std::vector<Torchrun> torchruns_in(const std::string& script) {
  std::vector<Torchrun> found;
  for (const auto& command : commands_of(script)) {
    // Behind `exec`, `then`, `NAME=value` and the like.
    for (auto word = command.begin(); word != command.end(); ++word) {
      auto torchrun = take_apart(std::vector<std::string>(word, command.end()));
      if (!torchrun) continue;
      found.push_back(std::move(*torchrun));
      break;
    }
  }
  return found;
}

bool mentions_torchrun(const std::string& text) {
  return std::ranges::any_of(
      std::array{"torchrun", "torch.distributed.run", "torch.distributed.launch"},
      [&](const char* word) { return text.find(word) != std::string::npos; });
}

}  // namespace pawl::cli::convert
