#include "cli/run/options.h"

#include <charconv>

namespace pawl::cli {
namespace {

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc{} && stop == text.data() + text.size() && number >= 0;
}

Result<Chaos> parse_chaos(const std::string& text) {
  constexpr std::string_view kKillRank = "kill-rank=";
  Chaos chaos;
  const auto at = text.find('@');
  const bool is_right =
      text.rfind(kKillRank, 0) == 0 && at != std::string::npos &&
      parse_number(std::string_view{text}.substr(kKillRank.size(), at - kKillRank.size()),
                   chaos.rank) &&
      parse_number(std::string_view{text}.substr(at + 1), chaos.step);
  if (!is_right)
    return fail(Code::kInvalid,
                "--chaos " + text + ": write kill-rank=RANK@STEP, as in kill-rank=1@40");
  return chaos;
}

}  // namespace

Result<RunOptions> parse_run_options(const std::vector<std::string>& arguments) {
  RunOptions options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    if (name == "--quiet" || name == "-q") {
      options.is_quiet = true;
      continue;
    }
    if (name.rfind("--", 0) != 0) {
      if (!options.job_file.empty()) {
        return fail(Code::kInvalid,
                    "one job file at a time; got " + options.job_file + " and " + name);
      }
      options.job_file = name;
      continue;
    }
    // --name value, or --name=value.
    std::string value;
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    }
    const bool is_known =
        name == "--run-dir" || name == "--set" || name == "--text" || name == "--chaos";
    if (!is_known) return fail(Code::kInvalid, "unknown option " + name);
    if (value.empty()) return fail(Code::kInvalid, name + " needs a value");
    if (name == "--run-dir") options.run_folder = value;
    if (name == "--set") options.settings.push_back(value);
    if (name == "--text") options.texts.push_back(value);
    if (name == "--chaos") {
      PAWL_TRY(chaos, parse_chaos(value));
      options.chaos = chaos;
    }
  }
  if (options.job_file.empty())
    return fail(Code::kInvalid, "which job? Give a file with a TrainingJob");
  return options;
}

}  // namespace pawl::cli
