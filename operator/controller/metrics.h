// Numbers about the controller, as Prometheus text. Owner thread only; the text is published
// through the Bulletin.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "operator/controller/cache.h"
#include "operator/core/actions.h"

namespace pawl::controller {

class Metrics {
 public:
  void count_plan() { ++plans_; }
  void count_action(const core::Action& action);
  void count_request(std::chrono::microseconds latency);
  void count_error(Code code);
  // A status that was written: restarts and ends.
  void count_status(const api::TrainingJobStatus& before, const api::TrainingJobStatus& after);
  std::string text(const Cache& cache, std::size_t queue_depth, std::size_t runs) const;

 private:
  std::uint64_t plans_ = 0, requests_ = 0;
  std::chrono::microseconds latency_{0};
  std::map<std::string, std::uint64_t> actions_, errors_;
  std::uint64_t restarts_counted_ = 0, restarts_free_ = 0;
  std::map<std::string, std::uint64_t> finished_;  // by result
};

}  // namespace pawl::controller
