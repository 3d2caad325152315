// Oracles over spot machines (I41): where pods may run, and what the status says of spot.
#include <algorithm>

#include "common/api/pod_scheduling.h"
#include "operator/core/failures.h"
#include "operator/core/plan.h"
#include "tests/sim/nodes.h"
#include "tests/sim/oracles.h"

namespace pawl::sim {

using namespace api;  // NOLINT: this file reads its types and nothing else.
using nlohmann::json;

namespace {

// A view may be behind the user's edit, as in oracles_child.cpp; what was decided may be on its
// way.
constexpr seconds kEditSeenAfter{150};
constexpr seconds kOnItsWay{30}, kOnItsWayOfOne{5};

bool is_taken(const api::Failure& failure) {
  const bool is_by_kubelet = failure.message == kLowOnMemory;
  return failure.cause == core::cause::kInterrupted || failure.cause == core::cause::kNodeLost ||
         (failure.cause == core::cause::kEvicted && !is_by_kubelet);
}

bool counts_loss(const CapacityStatus& status, const std::string& pod) {
  return status.is_spot_avoided ||
         std::ranges::find(status.lost_pods, pod) != status.lost_pods.end();
}

bool may_have_been_on_spot(const TrainingJob& job, const std::string& pod) {
  const auto identity = core::parse_pod_name(job.meta.name, pod);
  return identity && may_be_on_spot(job, identity->slot);
}

}  // namespace

bool Oracles::is_capacity_seen(const std::string& uid) const {
  const auto truth = truth_.jobs.find(uid);
  if (truth == truth_.jobs.end() || !truth->second.capacity_edited) return true;
  return is_seen(*truth->second.capacity_edited);
}

bool Oracles::is_seen(milliseconds edited) const {
  return engine_.elapsed() > edited + kEditSeenAfter + truth_.blind;
}

void Oracles::i41_pod_is_where_it_may(const json& pod, const PodFacts& facts) {
  const auto job = job_of(facts.job_uid);
  if (!job || !is_capacity_seen(facts.job_uid)) return;
  const std::string which = "pod " + text_at_pointer(pod, "/metadata/name");
  const int preference = liking(pod, true) - liking(pod, false);
  const bool is_spot_possible = may_run(pod, true) && tolerates_spot(pod);
  if (!job->spec.capacity) {
    if (!may_run(pod, true) || tolerates_spot(pod) || preference != 0)
      fail("I41", which + " has marks of spot that nobody asked for");
    return;
  }
  if (!may_be_on_spot(*job, facts.slot)) {
    if (may_run(pod, true)) fail("I41", which + " may be on spot, and must not");
    return;
  }
  if (!is_spot_possible) return fail("I41", which + " cannot be on spot");
  i41_fallback_is_kept(*job, which, preference);
}

void Oracles::i41_fallback_is_kept(const TrainingJob& job, const std::string& which,
                                   int preference) {
  if (knobs_.clock_step > 0 || knobs_.prunes || truth_.jobs[job.meta.uid].was_status_cut) return;
  const CapacityStatus& status = job.status.capacity;
  const bool may_be_late = knobs_.operators > 1 || knobs_.pause_operator > 0;
  const seconds late = may_be_late ? kOnItsWay : kOnItsWayOfOne;
  const TimePoint now = engine_.clock().now();
  if (!status.since || !status.until) {
    const bool prefers = job.spec.capacity->spot == SpotUse::kPrefer;
    if (preference < 0 || (prefers && preference == 0))
      fail("I41", which + " keeps away from spot without a reason");
    return;
  }
  if (status.is_spot_avoided && now > *status.since + late && now < *status.until &&
      preference >= 0)
    fail("I41", which + " goes to spot, which is avoided");
  if (now > *status.until + late && preference < 0)
    fail("I41", which + " keeps away from spot though that is over");
}

void Oracles::i41_spot_is_avoided_for_a_while(const JobWrite& write) {
  if (knobs_.prunes || write.truth.was_status_cut) return;
  const CapacityStatus &before = write.before.status.capacity, &after = write.after.status.capacity;
  if (after.is_spot_avoided && (!before.is_spot_avoided || before.since != after.since)) {
    const core::Policy policy;
    if (!after.since || !after.until) return fail("I41", "spot is avoided without an end");
    const bool is_next = before.until && *after.since < *before.until + policy.spot_avoided_max;
    const int times = is_next ? before.times + 1 : 1;
    seconds time = knobs_.spot_avoided;
    for (int i = 1; i < times && time < policy.spot_avoided_max; ++i) time *= 2;
    if (after.times != times ||
        *after.until - *after.since != std::min(time, policy.spot_avoided_max))
      fail("I41", "spot is avoided for another time than it should be");
    const bool has_cause = std::ranges::any_of(
        write.truth.attempts, [](const auto& attempt) { return attempt.second.is_any(); });
    if (!has_cause) fail("I41", "spot is avoided, and nothing happened");
  }
  const auto& capacity = write.after.spec.capacity;
  const bool is_early = before.is_spot_avoided && !after.is_spot_avoided && before.until &&
                        engine_.clock().now() < *before.until && after != CapacityStatus{};
  if (is_early && knobs_.clock_step == 0) fail("I41", "spot is used again before its time");
  const bool asks = capacity && capacity->spot != SpotUse::kNever;
  if (after.is_spot_avoided && !before.is_spot_avoided && !asks)
    fail("I41", "spot is avoided of a job that does not ask for it");
  const auto& failure = write.after.status.last_failure;
  const bool is_new = failure && failure != write.before.status.last_failure &&
                      write.after.status.attempt > write.before.status.attempt;
  if (is_new && is_taken(*failure) && may_have_been_on_spot(write.after, failure->pod) &&
      !counts_loss(after, failure->pod))
    fail("I41", failure->pod + " was taken, and nobody counts it");
}

// `pod` has lost its place.
void Oracles::i41_loss_is_counted(const std::string& uid, const std::string& pod) {
  constexpr seconds kSoon{120};
  const auto job = job_of(uid);
  if (!job || knobs_.prunes || knobs_.clock_step > 0 || !is_capacity_seen(uid)) return;
  if (truth_.jobs[uid].was_status_cut) return;
  const auto& failure = job->status.last_failure;
  const bool is_told = failure && failure->pod == pod && is_taken(*failure);
  if (!is_told || !may_have_been_on_spot(*job, pod)) return;
  const CapacityStatus& status = job->status.capacity;
  const bool was_avoided = status.until && engine_.clock().now() < *status.until + kSoon;
  if (!counts_loss(status, pod) && !was_avoided)
    fail("I41", pod + " was taken, and nobody counts it");
}

}  // namespace pawl::sim
