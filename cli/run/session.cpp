#include "cli/run/session.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "cli/run/chaos.h"
#include "cli/run/run_command.h"
#include "common/base/json.h"
#include "common/kube/requests.h"

namespace pawl::cli {
namespace {

constexpr int kRefreshMs = 1000;  // age and ETA on a terminal
// After the verdict, for the last pods to go; then they are killed with the rest.
constexpr std::chrono::seconds kLastPodsTimeout{60};

bool is_condition_true(const api::TrainingJob& job, const char* type) {
  return std::any_of(job.status.conditions.begin(), job.status.conditions.end(),
                     [&](const api::Condition& condition) {
                       return condition.type == type && condition.status == "True";
                     });
}

// Stalled: the spec cannot work as it stands, and here nobody edits it.
bool is_finished(const api::TrainingJob& job) {
  return is_condition_true(job, api::condition::kStalled) ||
         is_condition_true(job, api::condition::kComplete) ||
         is_condition_true(job, api::condition::kFailed);
}

std::string indent(const std::string& text) {
  std::istringstream lines{text};
  std::string line, indented;
  while (std::getline(lines, line)) indented += "    " + line + "\n";
  if (!indented.empty()) indented.pop_back();
  return indented;
}

}  // namespace

Session::Session(LocalCluster& cluster, const Clock& clock, const Signals& signals,
                 Display& display)
    : cluster_(cluster),
      clock_(clock),
      signals_(signals),
      display_(display),
      observer_(cluster.transport()) {}

void Session::wait() {
  std::array<pollfd, 2> waiting{{{observer_.fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}}};
  ::poll(waiting.data(), waiting.size(), kRefreshMs);
  for (const std::string& line : observer_.take()) display_.tell(line);
  for (const auto& [uid, pod] : observer_.pods()) {
    const std::pair<std::int64_t, int> age{pod.attempt, pod.n};
    if (pod.slot != 0 || age <= first_worker_age_) continue;
    first_worker_ = pod.name;
    first_worker_age_ = age;
  }
}

void Session::show() {
  if (!observer_.job()) return;
  std::optional<api::Progress> progress;
  if (observer_.group()) progress = observer_.group()->status.progress;
  const auto& checkpoint = observer_.job()->status.checkpoint;
  if (checkpoint && checkpoint->uri != last_checkpoint_) {
    last_checkpoint_ = checkpoint->uri;
    display_.tell("· Checkpoint: step " + std::to_string(checkpoint->step) + " is on storage");
  }
  display_.show(view_of(*observer_.job(), progress));
}

int Session::follow(std::optional<Chaos> chaos) {
  while (true) {
    wait();
    show();
    if (signals_.take() > 0) return finish_interrupted();
    if (!cluster_.node().is_able()) {
      display_.say("Failed: the process that keeps the workers was killed");
      return kExitFailed;
    }
    if (observer_.is_job_gone() || (observer_.job() && is_finished(*observer_.job()))) {
      const int code = finish();
      if (!chaos) return code;
      // A drill that struck nobody has shown nothing.
      display_.say("! chaos: rank " + std::to_string(chaos->rank) + " was not seen at step " +
                   std::to_string(chaos->step) + ", so nothing was killed");
      return kExitFailed;
    }
    if (!chaos) continue;
    if (const auto line = strike(*chaos, observer_, cluster_.node())) {
      display_.tell(*line);
      chaos.reset();
    }
  }
}

bool Session::has_running_pods() const {
  return std::any_of(observer_.pods().begin(), observer_.pods().end(),
                     [](const auto& entry) { return !entry.second.is_finished; });
}

void Session::delete_job() {
  const api::ObjectMeta& meta = observer_.job()->meta;
  kube::DeleteOptions options;
  options.uid = meta.uid;
  const auto request =
      kube::delete_request(kube::resources::kTrainingJobs, meta.ns, meta.name, options);
  // Gone already is as good.
  static_cast<void>(kube::send_and_wait(cluster_.transport(), request));
}

int Session::finish_interrupted() {
  display_.say("Interrupted: deleting the job; once more to kill its processes now");
  if (observer_.job()) delete_job();
  while (has_running_pods() && signals_.take() == 0) wait();
  display_.say("Deleted");
  return kExitInterrupted;
}

int Session::finish() {
  if (!observer_.job()) return kExitFailed;
  const SteadyPoint deadline = clock_.steady_now() + kLastPodsTimeout;
  while (has_running_pods() && signals_.take() == 0 && clock_.steady_now() < deadline) wait();
  show();
  const api::TrainingJob& job = *observer_.job();
  const bool is_complete = is_condition_true(job, api::condition::kComplete);
  if (const std::string line = validation_line(); !line.empty()) display_.say(line);
  if (job.status.checkpoint) display_.say("last checkpoint: " + job.status.checkpoint->uri);
  if (!is_complete && job.status.last_failure) say_failure(*job.status.last_failure);
  const std::string why = job.status.message.empty() ? "" : ": " + job.status.message;
  display_.say(is_complete ? "Complete" : (observer_.is_job_gone() ? "Deleted" : "Failed") + why);
  return is_complete ? kExitComplete : kExitFailed;
}

void Session::say_failure(const api::Failure& failure) {
  std::string line = "last failure: ";
  if (failure.rank >= 0) line += "rank " + std::to_string(failure.rank) + ", ";
  line += "pod " + failure.pod;
  if (failure.exit_code) line += ", exit code " + std::to_string(*failure.exit_code);
  if (failure.signal) line += ", signal " + std::to_string(*failure.signal);
  if (!failure.cause.empty()) line += ", cause " + failure.cause;
  if (!failure.message.empty()) line += ": " + failure.message;
  display_.say(line);
  if (!failure.log_tail.empty()) display_.say(indent(failure.log_tail));
}

// The trainer's own judgement, from the log of rank 0.
std::string Session::validation_line() const {
  constexpr std::string_view kMark = "validation: ";
  if (first_worker_.empty()) return {};
  std::ifstream log{cluster_.node().log_file(first_worker_)};
  std::string line, last;
  while (std::getline(log, line)) {
    const auto place = line.find(kMark);
    // The launcher's own log lines, JSON, quote it too.
    if (place != std::string::npos && !line.starts_with('{')) last = line.substr(place);
  }
  return last;
}

}  // namespace pawl::cli
