// `pawl`, also installed as `kubectl-pawl`: the command line of Pawl.
#include <iostream>
#include <string>
#include <vector>

#include "cli/run/job_file.h"
#include "cli/run/options.h"
#include "cli/run/run_command.h"
#include "common/os/process.h"

namespace {

constexpr char kUsage[] = R"(pawl: training jobs that survive their machines

  pawl run JOB.yaml [options]   run a TrainingJob on this machine: no cluster, root or container runtime
      --run-dir DIR             logs, and checkpoints that have no other place (default: pawl-runs/<job>-<time>)
      --set spec.FIELD=VALUE    change a field of the job; VALUE is YAML; may be repeated
      --text PATH               train on this text: replaces spec.runtime.config.data.paths; may be repeated
      --chaos kill-rank=R@S     kill -9 the training process of rank R when the job has come to step S
      --quiet                   only the end of the story
      Exit code: 0 Complete, 1 Failed, 2 wrong file or arguments, 130 interrupted (the job is deleted).
  pawl validate JOB.yaml        what the API server would say about the file; "-" is standard input
  pawl version
)";

int usage_error(const std::string& message) {
  std::cerr << "pawl: " << message << "\n\n" << kUsage;
  return pawl::cli::kExitUsage;
}

int run(const std::vector<std::string>& arguments) {
  const auto options = pawl::cli::parse_run_options(arguments);
  if (!options) return usage_error(options.error().message);
  return pawl::cli::run_command(*options);
}

int validate(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) return usage_error("validate: which file?");
  const std::vector<std::string> problems = pawl::cli::problems_of_file(arguments.front());
  for (const std::string& problem : problems) std::cerr << problem << "\n";
  if (!problems.empty()) return pawl::cli::kExitUsage;
  std::cout << "valid\n";
  return 0;
}

}  // namespace

int main(int count, char** values) {
  pawl::os::ignore_sigpipe();
  std::vector<std::string> arguments(values + 1, values + count);
  if (arguments.empty()) return usage_error("which command?");
  const std::string command = arguments.front();
  arguments.erase(arguments.begin());
  const bool wants_help =
      command == "help" || command == "--help" || command == "-h" ||
      (!arguments.empty() && (arguments.front() == "--help" || arguments.front() == "-h"));
  if (wants_help) {
    std::cout << kUsage;
    return 0;
  }
  if (command == "run") return run(arguments);
  if (command == "validate") return validate(arguments);
  if (command == "version" || command == "--version") {
    std::cout << "pawl " << PAWL_VERSION << "\n";
    return 0;
  }
  return usage_error("unknown command \"" + command + "\"");
}
