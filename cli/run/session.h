// Follows the one job of `pawl run` from its creation to its exit code: shows it, strikes chaos,
// answers Ctrl-C, says how it ended. One thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "cli/run/display.h"
#include "cli/run/local_cluster.h"
#include "cli/run/observer.h"
#include "cli/run/options.h"
#include "cli/run/signals.h"

namespace pawl::cli {

class Session {
 public:
  Session(LocalCluster& cluster, const Clock& clock, const Signals& signals, Display& display);

  // Returns the exit code.
  int follow(std::optional<Chaos> chaos);

 private:
  void wait();
  void show();
  void delete_job();
  bool has_running_pods() const;
  int finish();
  int finish_interrupted();
  void say_failure(const api::Failure& failure);
  std::string validation_line() const;

  LocalCluster& cluster_;
  const Clock& clock_;
  const Signals& signals_;
  Display& display_;
  Observer observer_;
  std::string last_checkpoint_;
  std::string first_worker_;                              // pod of rank 0 in the newest attempt
  std::pair<std::int64_t, int> first_worker_age_{-1, 0};  // attempt, incarnation
};

}  // namespace pawl::cli
