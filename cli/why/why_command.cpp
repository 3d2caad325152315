#include <iostream>

#include "cli/commands.h"
#include "cli/run/run_command.h"
#include "cli/why/why.h"
#include "common/os/real_clock.h"

namespace pawl::cli {

int why_command(const std::vector<std::string>& given) {
  const auto arguments = Arguments::parse(given, cluster_flags());
  const bool is_usable = arguments && arguments->words().size() == 1;
  if (!is_usable) {
    std::cerr << "pawl: " << (arguments ? "why: which job? Give one" : arguments.error().message)
              << "\n";
    return kExitUsage;
  }
  const RealClock clock;
  auto connection = Connection::open(*arguments, clock);
  const auto snapshot = connection
                            ? take_snapshot(*connection, job_name_of(arguments->words().front()),
                                            {.events = true, .nodes = true}, clock.now())
                            : Result<JobSnapshot>{tl::make_unexpected(connection.error())};
  if (!snapshot) {
    std::cerr << "pawl: " << snapshot.error().message << "\n";
    return kExitNotFound;
  }
  std::cout << why_paragraph(*snapshot);
  return kExitFound;
}

}  // namespace pawl::cli
