#include "cli/status/status_text.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <tuple>
#include <utility>

#include "cli/text.h"
#include "operator/core/failures.h"
#include "operator/core/plan.h"

namespace pawl::cli {
namespace {

using Row = std::vector<std::string>;

constexpr std::size_t kWorkersMax = 64;  // of a page; the rest is a number

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string step_text(const api::Progress& progress) {
  std::string text = std::to_string(progress.step);
  if (progress.total_steps > 0) text += "/" + std::to_string(progress.total_steps);
  return text;
}

std::string phase_of_pod(const api::PodView& pod) {
  if (pod.meta.deletion_time && pod.phase == api::PodPhase::kRunning) return "Terminating";
  if (!pod.waiting_reason.empty()) return pod.waiting_reason;
  switch (pod.phase) {
    case api::PodPhase::kPending:
      if (pod.is_gated) return "SchedulingGated";
      return pod.node.empty() && !pod.unschedulable_message.empty() ? "Unschedulable" : "Pending";
    case api::PodPhase::kRunning:
      return "Running";
    case api::PodPhase::kSucceeded:
      return "Succeeded";
    case api::PodPhase::kFailed:
      return pod.terminated_reason.empty() ? "Failed" : pod.terminated_reason;
    case api::PodPhase::kUnknown:
      return "Unknown";
  }
  return "Unknown";
}

std::string percent_text(const api::Goodput& goodput) {
  return goodput.percent ? std::to_string(*goodput.percent) + "%" : "-";
}

Row job_row(const api::TrainingJob& job, const TableOptions& options, TimePoint now) {
  const api::TrainingJobStatus& status = job.status;
  Row row;
  if (options.has_namespace) row.push_back(job.meta.ns);
  row.insert(row.end(), {job.meta.name, phase_text(job), or_dash(status.ready)});
  const auto& progress = status.progress;
  row.push_back(progress ? step_text(*progress) : "-");
  row.push_back(progress ? loss_text(progress->loss) : "-");
  row.push_back(progress && progress->eta_seconds ? format_seconds(*progress->eta_seconds) : "-");
  row.push_back(std::to_string(status.restarts.counted + status.restarts.free));
  row.push_back(age_text(job.meta.creation_time, now));
  if (options.is_wide) {
    row.push_back(or_dash(status.reason));
    row.push_back(status.checkpoint ? std::to_string(status.checkpoint->step) : "-");
    row.push_back(std::to_string(status.recoveries.in_place));
    row.push_back(percent_text(status.goodput));
    row.push_back(std::to_string(status.attempt));
    row.push_back(or_dash(status.message));
  }
  return row;
}

std::string ago(const std::optional<TimePoint>& time, TimePoint now) {
  return time ? age_text(time, now) + " ago" : "";
}

std::string attempt_text(const JobSnapshot& snapshot) {
  const api::TrainingJobStatus& status = snapshot.job.status;
  if (status.attempt == 0) return "none yet";
  std::string text = std::to_string(status.attempt);
  if (status.start_time) text += ", started " + ago(status.start_time, snapshot.now);
  if (status.completion_time) text += ", ended " + ago(status.completion_time, snapshot.now);
  return text;
}

std::string checkpoint_text(const api::CheckpointStatus& checkpoint, TimePoint now) {
  std::string text = "step " + std::to_string(checkpoint.step);
  if (checkpoint.time) text += ", " + ago(checkpoint.time, now);
  if (checkpoint.size_bytes > 0) text += ", " + format_bytes(checkpoint.size_bytes);
  text += ", " + std::to_string(checkpoint.count) + " published so far";
  return text + "\n" + checkpoint.uri;
}

std::string restarts_text(const api::TrainingJob& job) {
  const api::Restarts& restarts = job.status.restarts;
  std::string text = std::to_string(restarts.counted) + " of " +
                     std::to_string(job.spec.max_restarts) + " counted, " +
                     std::to_string(restarts.free) + " free";
  std::string causes;
  for (const auto& [cause, count] : restarts.by_cause) {
    causes += (causes.empty() ? "" : ", ") + cause + " " + std::to_string(count);
  }
  return causes.empty() ? text : text + " (" + causes + ")";
}

std::string recoveries_text(const api::Recoveries& recoveries) {
  if (recoveries == api::Recoveries{}) return "";
  std::string causes;
  for (const auto& [cause, count] : recoveries.by_cause)
    causes += (causes.empty() ? "" : ", ") + cause + " " + std::to_string(count);
  std::string text = std::to_string(recoveries.in_place) + " in place";
  if (!causes.empty()) text += " (" + causes + ")";
  return text + ", " + std::to_string(recoveries.resizes) + " for another size";
}

std::string goodput_text(const api::Goodput& goodput) {
  if (goodput.productive_seconds + goodput.lost_seconds == 0) return "";
  std::vector<std::pair<std::string, int>> causes{goodput.lost_by_cause.begin(),
                                                  goodput.lost_by_cause.end()};
  std::ranges::stable_sort(causes, std::greater{}, &std::pair<std::string, int>::second);
  std::string lost;
  for (const auto& [cause, seconds] : causes)
    lost += (lost.empty() ? ": " : ", ") + cause + " " + format_seconds(seconds);
  return percent_text(goodput) + ", " + format_seconds(goodput.productive_seconds) +
         " of new steps, " + format_seconds(goodput.lost_seconds) + " lost" + lost;
}

std::string capacity_text(const api::TrainingJob& job, TimePoint now) {
  const api::CapacityStatus& capacity = job.status.capacity;
  const bool is_over =
      job.status.phase == api::phase::kComplete || job.status.phase == api::phase::kFailed;
  if (is_over || capacity == api::CapacityStatus{}) return "";
  if (capacity.is_spot_avoided && capacity.until && now < *capacity.until) {
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(*capacity.until - now);
    return "avoided for another " + format_seconds(left.count()) + ", time " +
           std::to_string(capacity.times) + " in a row";
  }
  std::string text;
  if (capacity.lost_since && now < *capacity.lost_since + core::Policy{}.spot_window) {
    const std::size_t lost = capacity.lost_pods.size();
    text = std::to_string(lost) + (lost == 1 ? " worker" : " workers") + " taken in the last " +
           age_text(capacity.lost_since, now);
  }
  if (!capacity.until) return text;
  const std::string until = "was avoided until " + age_text(capacity.until, now) + " ago";
  return text.empty() ? until : text + "; " + until;
}

// What holds, and what should hold and does not.
std::string conditions_text(const JobSnapshot& snapshot) {
  std::string text;
  for (const api::Condition& condition : snapshot.job.status.conditions) {
    const bool matters =
        condition.status == "True" ||
        (condition.type == api::condition::kCheckpointHealthy && condition.status == "False");
    if (!matters) continue;
    text += (text.empty() ? "" : "\n") + condition.type + "=" + condition.status;
    if (!condition.reason.empty()) text += " " + condition.reason;
    if (condition.last_transition_time) {
      text += ", for " + age_text(condition.last_transition_time, snapshot.now);
    }
    // The sentence of the phase's own condition stands above.
    const bool is_new =
        !condition.message.empty() && condition.message != snapshot.job.status.message;
    if (is_new) text += ": " + condition.message;
  }
  return text;
}

std::string failure_text(const api::Failure& failure, TimePoint now) {
  std::string text = core::sentence(failure) + " in attempt " + std::to_string(failure.attempt);
  if (!failure.cause.empty()) text += ", cause " + failure.cause;
  if (failure.time) text += ", " + ago(failure.time, now);
  std::istringstream lines{failure.log_tail};
  for (std::string line; std::getline(lines, line);) text += "\n| " + line;
  return text;
}

// "label   first line", further lines below the first.
void add(std::string& page, const std::string& label, const std::string& text) {
  constexpr std::size_t kLabelWidth = 14;
  if (text.empty()) return;
  std::istringstream lines{text};
  std::string head = label;
  for (std::string line; std::getline(lines, line); head.clear()) {
    head.resize(std::max(kLabelWidth, head.size() + 1), ' ');
    page += "  " + head + line + "\n";
  }
}

std::string workers_text(const JobSnapshot& snapshot) {
  std::vector<Row> rows;
  std::size_t left_out = 0;
  for (const SeenWorker& worker : snapshot.workers) {
    const api::PodView& pod = worker.pod;
    if (rows.size() >= kWorkersMax) {
      ++left_out;
      continue;
    }
    rows.push_back({ranks_text(snapshot, pod), std::to_string(worker.attempt), pod.meta.name,
                    phase_of_pod(pod), pod.is_ready ? "yes" : "no", or_dash(pod.node),
                    age_text(pod.meta.creation_time, snapshot.now)});
  }
  if (rows.empty()) return "";
  rows.insert(rows.begin(), {"RANK", "ATTEMPT", "POD", "PHASE", "READY", "NODE", "AGE"});
  std::string text = format_table(rows, "  ");
  if (left_out > 0) text += "  and " + std::to_string(left_out) + " more\n";
  return "\n" + text;
}

std::string validation_text(const api::Validation& validation) {
  std::string text = "loss " + or_dash(validation.loss);
  if (!validation.accuracy.empty()) text += ", accuracy " + validation.accuracy;
  text += " after step " + std::to_string(validation.step);
  if (validation.best_step == validation.step) return text + ", the best of the run";
  return text + "; the best of the run: loss " + or_dash(validation.best_loss) + " after step " +
         std::to_string(validation.best_step);
}

}  // namespace

std::string phase_text(const api::TrainingJob& job) {
  return job.status.phase.empty() ? "Pending" : job.status.phase;
}

std::string progress_text(const api::Progress& progress) {
  std::string text = "step " + step_text(progress);
  if (progress.total_steps > 0) text += " (" + std::to_string(progress.percent) + "%)";
  if (!progress.loss.empty()) text += ", loss " + loss_text(progress.loss);
  if (!progress.samples_per_second.empty()) {
    text += ", " + short_number(progress.samples_per_second) + " samples/s";
  }
  if (!progress.tokens_per_second.empty()) {
    text += ", " + short_number(progress.tokens_per_second) + " tokens/s";
  }
  if (progress.eta_seconds) text += ", ETA " + format_seconds(*progress.eta_seconds);
  return text;
}

std::string status_table(const std::vector<api::TrainingJob>& jobs, const TableOptions& options,
                         TimePoint now) {
  std::vector<const api::TrainingJob*> sorted;
  for (const api::TrainingJob& job : jobs) sorted.push_back(&job);
  std::ranges::sort(sorted, {}, [](const api::TrainingJob* job) {
    return std::tie(job->meta.ns, job->meta.name);
  });
  Row header;
  if (options.has_namespace) header.emplace_back("NAMESPACE");
  for (const char* name : {"NAME", "PHASE", "READY", "STEP", "LOSS", "ETA", "RESTARTS", "AGE"}) {
    header.emplace_back(name);
  }
  if (options.is_wide) {
    for (const char* name : {"REASON", "CKPT", "RECOVERIES", "GOODPUT", "ATTEMPT", "MESSAGE"})
      header.emplace_back(name);
  }
  std::vector<Row> rows = {header};
  for (const api::TrainingJob* job : sorted) rows.push_back(job_row(*job, options, now));
  return format_table(rows);
}

std::string status_page(const JobSnapshot& snapshot) {
  const api::TrainingJob& job = snapshot.job;
  const api::TrainingJobStatus& status = job.status;
  std::string page = job.meta.name + " in namespace " + job.meta.ns + ": " + phase_text(job) + "\n";
  const std::string why =
      status.message.empty() ? "no operator has looked at it yet" : status.message;
  add(page, "why", status.reason.empty() ? why : status.reason + ": " + why);
  add(page, "ready", or_dash(status.ready) + " workers");
  add(page, "attempt", attempt_text(snapshot));
  if (status.progress) {
    std::string text = progress_text(*status.progress);
    if (status.progress->time) text += ", " + ago(status.progress->time, snapshot.now);
    add(page, "progress", text);
    if (status.progress->validation)
      add(page, "validation", validation_text(*status.progress->validation));
    if (status.progress->straggler) add(page, "slow", core::sentence(*status.progress->straggler));
  }
  if (status.checkpoint) add(page, "checkpoint", checkpoint_text(*status.checkpoint, snapshot.now));
  add(page, "restarts", restarts_text(job));
  add(page, "recoveries", recoveries_text(status.recoveries));
  add(page, "spot", capacity_text(snapshot.job, snapshot.now));
  add(page, "goodput", goodput_text(status.goodput));
  add(page, "conditions", conditions_text(snapshot));
  if (status.last_failure)
    add(page, "last failure", failure_text(*status.last_failure, snapshot.now));
  for (const std::string& part : snapshot.unread) add(page, "not shown", part);
  return page + workers_text(snapshot);
}

}  // namespace pawl::cli
