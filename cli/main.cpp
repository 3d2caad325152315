// `pawl`, also installed as `kubectl-pawl`: the command line of Pawl.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/convert/convert.h"
#include "cli/help.h"
#include "cli/run/job_file.h"
#include "cli/run/options.h"
#include "cli/run/run_command.h"
#include "common/os/process.h"

namespace {

using Arguments = std::vector<std::string>;

int run(const Arguments& arguments) {
  const auto options = pawl::cli::parse_run_options(arguments);
  if (options) return pawl::cli::run_command(*options);
  std::cerr << "pawl: " << options.error().message << "; see pawl run --help\n";
  return pawl::cli::kExitUsage;
}

int validate(const Arguments& arguments) {
  if (arguments.size() != 1) {
    std::cerr << "pawl: validate: which file?\n";
    return pawl::cli::kExitUsage;
  }
  const std::vector<std::string> problems = pawl::cli::problems_of_file(arguments.front());
  for (const std::string& problem : problems) std::cerr << problem << "\n";
  if (!problems.empty()) return pawl::cli::kExitUsage;
  std::cout << "valid\n";
  return 0;
}

int dispatch(const std::string& verb, const Arguments& arguments) {
  if (verb == "run") return run(arguments);
  if (verb == "validate") return validate(arguments);
  if (verb == "status") return pawl::cli::status_command(arguments);
  if (verb == "why") return pawl::cli::why_command(arguments);
  if (verb == "logs") return pawl::cli::logs_command(arguments);
  if (verb == "convert") return pawl::cli::convert_command(arguments);
  if (verb == "version" || verb == "--version") {
    std::cout << "pawl " << PAWL_VERSION << "\n";
    return 0;
  }
  std::cerr << "pawl: unknown command \"" << verb << "\"; see pawl --help\n";
  return pawl::cli::kExitUsage;
}

bool is_help(const std::string& word) { return word == "--help" || word == "-h"; }

}  // namespace

int main(int count, char** values) {
  pawl::os::ignore_sigpipe();
  const std::string program = pawl::cli::program_name(count > 0 ? values[0] : "");
  Arguments arguments(values + std::min(count, 1), values + count);
  if (arguments.empty()) {
    std::cerr << pawl::cli::usage_text(program);
    return pawl::cli::kExitUsage;
  }
  const std::string verb = arguments.front();
  arguments.erase(arguments.begin());
  if (verb == "help" || is_help(verb)) {
    std::cout << pawl::cli::help_text(program, arguments.empty() ? "" : arguments.front());
    return 0;
  }
  if (!arguments.empty() && is_help(arguments.front())) {
    std::cout << pawl::cli::help_text(program, verb);
    return 0;
  }
  return dispatch(verb, arguments);
}
