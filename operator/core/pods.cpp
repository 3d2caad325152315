#include "operator/core/pods.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "common/api/contract.h"
#include "common/base/mutant.h"

namespace pawl::core {
namespace {

// Reads "-<digits>" off the front; the number must be written as std::to_string would.
template <typename Number>
bool take_number(std::string_view& text, Number& out) {
  if (text.size() < 2 || text.front() != '-') return false;
  text.remove_prefix(1);
  if (text.front() == '0' && text.size() > 1 && text[1] != '-') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end == text.data() || out < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<PodIdentity> parse_pod_name(const std::string& job_name,
                                          const std::string& pod_name) {
  std::string_view rest = pod_name;
  if (!rest.starts_with(job_name)) return std::nullopt;
  rest.remove_prefix(job_name.size());
  PodIdentity identity;
  const bool is_ours = take_number(rest, identity.attempt) && take_number(rest, identity.slot) &&
                       take_number(rest, identity.n) && rest.empty();
  return is_ours ? std::optional{identity} : std::nullopt;
}

std::optional<std::string> job_of_pod_name(const std::string& pod_name) {
  std::size_t end = pod_name.size();
  if (is_mutant(Mutant::kB24LongNames) && end > 40) return std::nullopt;
  for (int i = 0; i < 3; ++i) {
    if (end == 0) return std::nullopt;
    end = pod_name.rfind('-', end - 1);
    if (end == std::string::npos || end == 0) return std::nullopt;
  }
  const std::string job_name = pod_name.substr(0, end);
  return parse_pod_name(job_name, pod_name) ? std::optional{job_name} : std::nullopt;
}

bool is_terminal(const api::PodView& pod) {
  return pod.phase == api::PodPhase::kSucceeded || pod.phase == api::PodPhase::kFailed;
}

Outcome outcome_of(const api::PodView& pod) {
  if (pod.exit_code) return *pod.exit_code == 0 ? Outcome::kSucceeded : Outcome::kFailed;
  if (pod.phase == api::PodPhase::kSucceeded) return Outcome::kSucceeded;
  return pod.phase == api::PodPhase::kFailed ? Outcome::kFailed : Outcome::kNone;
}

bool is_terminating(const api::PodView& pod) { return pod.meta.deletion_time.has_value(); }

bool is_staying(const api::PodView& pod) {
  return !is_terminal(pod) && !is_terminating(pod) && outcome_of(pod) == Outcome::kNone;
}

bool is_owned_by(const api::ObjectMeta& meta, const std::string& uid) {
  if (is_mutant(Mutant::kB01OwnerByName)) return true;
  return std::ranges::any_of(meta.owners, [&](const auto& owner) { return owner.uid == uid; });
}

namespace {

bool is_owned_by_job(const std::string& job_name, const api::ObjectMeta& meta) {
  return std::ranges::any_of(meta.owners, [&](const api::OwnerReference& owner) {
    return owner.kind == "TrainingJob" && owner.name == job_name;
  });
}

}  // namespace

bool is_leftover(const api::TrainingJob& job, const api::ObjectMeta& meta) {
  const auto label = meta.labels.find(api::kLabelJobUid);
  if (label != meta.labels.end() && label->second != job.meta.uid) return true;
  return is_owned_by_job(job.meta.name, meta);
}

bool is_left_of(const std::string& job_name, const api::ObjectMeta& meta) {
  return meta.labels.contains(api::kLabelJobUid) || is_owned_by_job(job_name, meta);
}

const api::PodView* PodBuckets::at(int slot) const {
  const auto found = std::ranges::lower_bound(
      current, slot, {}, [](const Worker& worker) { return worker.identity.slot; });
  return found != current.end() && found->identity.slot == slot ? found->pod : nullptr;
}

std::optional<TimePoint> give_up_time(const api::TrainingJob& job, const api::PodView& pod) {
  if (is_terminal(pod) || !is_terminating(pod)) return std::nullopt;
  // The API server sets the deletion time to the end of the grace period.
  return *pod.meta.deletion_time + std::chrono::seconds{job.spec.pod_termination_timeout_seconds};
}

bool is_given_up(const api::TrainingJob& job, const api::PodView& pod, TimePoint now) {
  const auto time = give_up_time(job, pod);
  return time && now >= *time && !is_mutant(Mutant::kB28WaitsForEver);
}

namespace {

enum class Place { kCurrent, kReplaced, kLeaving, kAhead };

// What the record says of a pod of this attempt; while it says nothing of the attempt, all are as
// they were made.
Place place_of(const api::TrainingJob& job, const api::WorkerGroup* group,
               const PodIdentity& identity) {
  if (group == nullptr || group->spec.attempt != job.status.attempt) return Place::kCurrent;
  const auto slot = std::ranges::find(group->spec.pods, identity.slot, &api::EligiblePod::slot);
  if (slot == group->spec.pods.end() || identity.n > slot->n) return Place::kAhead;
  if (identity.n < slot->n) return Place::kReplaced;
  return identity.slot < group->spec.target_members ? Place::kCurrent : Place::kLeaving;
}

}  // namespace

PodBuckets sort_pods(const api::TrainingJob& job, const api::WorkerGroup* group,
                     const std::vector<const api::PodView*>& pods, TimePoint now) {
  PodBuckets buckets;
  std::vector<const api::PodView*> sorted = pods;
  std::ranges::sort(sorted, {}, [](const auto* pod) -> const auto& { return pod->meta.name; });
  if (is_mutant(Mutant::kB08ListOrder)) sorted = pods;
  for (const api::PodView* pod : sorted) {
    const auto identity = parse_pod_name(job.meta.name, pod->meta.name);
    if (!identity || !is_owned_by(pod->meta, job.meta.uid)) {
      buckets.foreign.push_back(pod);
      if (!identity || !is_leftover(job, pod->meta)) continue;
      buckets.leftover_attempt_max = std::max(buckets.leftover_attempt_max, identity->attempt);
      if (!is_terminal(*pod) && !is_given_up(job, *pod, now)) ++buckets.leftover_active;
      continue;
    }
    buckets.attempt_max = std::max(buckets.attempt_max, identity->attempt);
    const bool counts = !is_terminal(*pod) && !is_given_up(job, *pod, now);
    if (!is_terminal(*pod) && !counts) buckets.given_up.push_back(pod);
    const bool is_of_now = identity->attempt == job.status.attempt;
    const Place place = is_of_now ? place_of(job, group, *identity) : Place::kCurrent;
    if (is_of_now && place != Place::kCurrent) {
      buckets.is_ahead = buckets.is_ahead || place == Place::kAhead;
      if (place == Place::kReplaced) buckets.replaced.push_back({pod, *identity});
      if (place == Place::kLeaving) buckets.leaving.push_back({pod, *identity});
      if (counts) ++buckets.replaced_active;
    } else if (is_of_now) {
      buckets.current.push_back({pod, *identity});
      const Outcome outcome = outcome_of(*pod);
      if (outcome == Outcome::kSucceeded) ++buckets.succeeded;
      if (counts) ++buckets.active;
      if (outcome == Outcome::kNone && pod->is_ready && !is_terminating(*pod)) ++buckets.ready;
    } else {
      buckets.previous.push_back({pod, *identity});
      const bool is_overlooked = is_mutant(Mutant::kB29BesideTerminating) && is_terminating(*pod);
      if (counts && !is_overlooked) ++buckets.previous_active;
    }
  }
  if (is_mutant(Mutant::kB08ListOrder)) return buckets;
  std::ranges::stable_sort(buckets.current, {},
                           [](const Worker& worker) { return worker.identity.slot; });
  return buckets;
}

}  // namespace pawl::core
