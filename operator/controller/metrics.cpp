#include "operator/controller/metrics.h"

#include <algorithm>

#include "common/base/check.h"

namespace pawl::controller {
namespace {

struct ActionName {
  std::string operator()(const core::ConfirmGone&) const { return "confirm_gone"; }
  std::string operator()(const core::ConfirmRecord&) const { return "confirm_record"; }
  std::string operator()(const core::PatchStatus&) const { return "patch_status"; }
  std::string operator()(const core::CreateChild&) const { return "create_child"; }
  std::string operator()(const core::DeleteChild&) const { return "delete_child"; }
  std::string operator()(const core::CreateGroup&) const { return "create_group"; }
  std::string operator()(const core::PatchGroup&) const { return "patch_group"; }
  std::string operator()(const core::CreatePod&) const { return "create_pod"; }
  std::string operator()(const core::DeletePod&) const { return "delete_pod"; }
  std::string operator()(const core::DeleteOrphan&) const { return "delete_orphan"; }
  std::string operator()(const core::DeleteJob&) const { return "delete_job"; }
  std::string operator()(const core::EmitEvent&) const { return "emit_event"; }
};

void head(std::string& out, const char* name, const char* type, const char* help) {
  out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

template <typename Number>
void line(std::string& out, const std::string& name, Number value) {
  out += name + " " + std::to_string(value) + "\n";
}

template <typename Map>
void lines(std::string& out, const std::string& name, const char* label, const Map& values) {
  for (const auto& [key, value] : values)
    line(out, name + "{" + label + "=\"" + key + "\"}", value);
}

// Microseconds as decimal seconds, without floating point.
std::string seconds(std::chrono::microseconds time) {
  std::string digits = std::to_string(time.count());
  if (digits.size() < 7) digits.insert(0, 7 - digits.size(), '0');
  return digits.insert(digits.size() - 6, ".");
}

}  // namespace

void Metrics::count_action(const core::Action& action) {
  ++actions_[std::visit(ActionName{}, action)];
}

void Metrics::count_request(std::chrono::microseconds latency) {
  ++requests_;
  latency_ += latency;
}

void Metrics::count_error(Code code) { ++errors_[code_name(code)]; }

void Metrics::count_status(const api::TrainingJobStatus& before,
                           const api::TrainingJobStatus& after) {
  const api::Restarts &old = before.restarts, &now = after.restarts;
  restarts_counted_ += static_cast<std::uint64_t>(std::max(0, now.counted - old.counted));
  restarts_free_ += static_cast<std::uint64_t>(std::max(0, now.free - old.free));
  const bool is_end = after.phase == api::phase::kComplete || after.phase == api::phase::kFailed;
  if (is_end && before.phase != after.phase) ++finished_[after.phase];
}

std::string Metrics::text(const Cache& cache, std::size_t queue_depth, std::size_t runs) const {
  std::string out;
  head(out, "pawl_jobs", "gauge", "TrainingJobs by phase.");
  lines(out, "pawl_jobs", "phase", cache.jobs_by_phase());
  head(out, "pawl_plans_total", "counter", "Plans that had something to do.");
  line(out, "pawl_plans_total", plans_);
  head(out, "pawl_actions_total", "counter", "Actions of plans that were begun.");
  lines(out, "pawl_actions_total", "action", actions_);
  head(out, "pawl_errors_total", "counter", "Plans that were stopped by an error, by its code.");
  lines(out, "pawl_errors_total", "code", errors_);
  head(out, "pawl_api_request_seconds", "summary", "Time until the API server answered.");
  out += "pawl_api_request_seconds_sum " + seconds(latency_) + "\n";
  line(out, "pawl_api_request_seconds_count", requests_);
  head(out, "pawl_queue_depth", "gauge", "Jobs that wait to be looked at.");
  line(out, "pawl_queue_depth", queue_depth);
  head(out, "pawl_plans_in_flight", "gauge", "Plans under way.");
  line(out, "pawl_plans_in_flight", runs);
  head(out, "pawl_restarts_total", "counter", "Restarts of gangs since this process started.");
  line(out, "pawl_restarts_total{budget=\"counted\"}", restarts_counted_);
  line(out, "pawl_restarts_total{budget=\"free\"}", restarts_free_);
  head(out, "pawl_jobs_finished_total", "counter",
       "TrainingJobs that ended since this process started.");
  lines(out, "pawl_jobs_finished_total", "result", finished_);
  head(out, "pawl_bugs_total", "counter", "Survivable surprises; each is a defect of Pawl.");
  line(out, "pawl_bugs_total", bug_count());
  return out;
}

}  // namespace pawl::controller
