#include "trainer-runtime/trainer/options.h"

#include <charconv>
#include <limits>

namespace pawl::trainer {
namespace {

template <typename T>
Status read_number(const std::string& name, const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value > 0) return {};
  return fail(Code::kInvalid, name + " needs a whole number above 0, not \"" + text + "\"");
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--help" || name == "-h") {
      options.is_help = true;
      continue;
    }
    const bool is_known = name == "--config" || name == "--steps" || name == "--checkpoint-uri" ||
                          name == "--run-id" || name == "--checkpoint-seconds" || name == "--keep";
    if (!is_known)
      return fail(Code::kInvalid, "unknown argument \"" + name + "\"; --help lists all");
    if (i + 1 == arguments.size()) return fail(Code::kInvalid, name + " needs a value");
    const std::string& value = arguments[++i];
    if (name == "--config") options.config_path = value;
    if (name == "--checkpoint-uri") options.checkpoint_uri = value;
    if (name == "--run-id") options.run_id = value;
    if (name == "--steps") PAWL_TRY_VOID(read_number(name, value, options.steps));
    if (name == "--checkpoint-seconds")
      PAWL_TRY_VOID(read_number(name, value, options.checkpoint_seconds));
    if (name == "--keep") PAWL_TRY_VOID(read_number(name, value, options.keep));
  }
  return options;
}

}  // namespace pawl::trainer
