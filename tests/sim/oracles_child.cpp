// Oracles over pods and the WorkerGroup: what the operator makes and deletes, what launchers write.
#include <algorithm>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "operator/core/failures.h"
#include "operator/core/plan.h"
#include "tests/sim/oracles.h"

namespace pawl::sim {

using kube::resources::kPods;
using kube::resources::kTrainingJobs;
using nlohmann::json;

namespace {

// A view may be behind; what is made this long after the owner's deletion was seen is wrong.
// A stream that had fallen silent before is noticed after 90 s.
constexpr seconds kViewBehindMax{150};

bool is_stopping(const api::TrainingJob& job) {
  const bool is_suspending =
      std::ranges::any_of(job.status.conditions, [](const api::Condition& condition) {
        return condition.type == api::condition::kSuspended && condition.reason == "Suspending";
      });
  return job.spec.is_suspended || is_suspending || is_true(job, api::condition::kSuspended) ||
         is_true(job, api::condition::kPreempted) ||
         is_true(job, api::condition::kSuccessCriteriaMet) ||
         is_true(job, api::condition::kFailureTarget) || is_true(job, api::condition::kComplete) ||
         is_true(job, api::condition::kFailed);
}

}  // namespace

void Oracles::on_pod_created(const json& pod) {
  const auto facts = facts_of(pod);
  if (!facts) return fail("O13", "the operator made a pod that is none of ours");
  i00_no_children_of_the_dead(pod, *facts);
  i03_pod_is_on_record(pod, *facts);
  i04_attempts_do_not_overlap(pod, *facts);
  i05_backs_off(pod, *facts);
  i40_pod_avoids_quarantine(pod, *facts);
  i41_pod_is_where_it_may(pod, *facts);
  i43_pod_is_placed(pod, *facts);
  i44_quotas_are_kept(pod, *facts);
}

void Oracles::i00_no_children_of_the_dead(const json& pod, const PodFacts& facts) {
  if (!is_owned_by(pod, facts.job_uid)) {
    return fail(
        "O2", "pod " + text_at_pointer(pod, "/metadata/name") + " has another owner than its job");
  }
  const auto gone = gone_.find(facts.job_uid);
  if (gone == gone_.end()) return;
  const milliseconds excused = truth_.blind - gone->second.blind;
  if (engine_.elapsed() - gone->second.since - excused > kViewBehindMax) {
    fail("I0",
         "pod " + text_at_pointer(pod, "/metadata/name") + " is made for a job that is deleted");
  }
}

void Oracles::i03_pod_is_on_record(const json& pod, const PodFacts& facts) {
  const auto job = job_of(facts.job_uid);
  const std::string name = text_at_pointer(pod, "/metadata/name");
  if (!job) return;
  const bool is_status_known = !truth_.jobs[facts.job_uid].was_status_cut;
  if (is_status_known && facts.attempt > job->status.attempt) {
    fail("I1", "pod " + name + " is made before status.attempt says so");
  }
  const local::Object group = group_of(facts.job_uid);
  const auto decoded = group ? api::decode_worker_group(*group) : fail_with({}, "no group");
  if (!decoded || decoded->spec.attempt != facts.attempt) return;
  const auto slot = std::ranges::find(decoded->spec.pods, name, &api::EligiblePod::name);
  if (slot == decoded->spec.pods.end()) return fail("I3", "pod " + name + " is not on record");
  // Lists that are older than each other (no API server gives such without being asked for them).
  if (knobs_.may_list_stale) return;
  if (!slot->uid.empty()) fail("O2", "pod " + name + " is made again after its UID was recorded");
}

void Oracles::i04_attempts_do_not_overlap(const json& pod, const PodFacts& facts) {
  if (!job_of(facts.job_uid)) return;  // a view that is behind, which I0 limits
  for (const local::Object& other : api_.all(kPods)) {
    const auto theirs = facts_of(*other);
    if (!theirs || !is_owned_by(*other, facts.job_uid) || is_terminal_pod(*other)) continue;
    if (theirs->attempt >= facts.attempt || is_given_up(*other, facts.job_uid)) continue;
    fail("I4", "pod " + text_at_pointer(pod, "/metadata/name") + " is made beside " +
                   text_at_pointer(*other, "/metadata/name"));
  }
}

void Oracles::i05_backs_off(const json& pod, const PodFacts& facts) {
  const auto job = job_of(facts.job_uid);
  if (!job || truth_.jobs[facts.job_uid].was_status_cut || knobs_.clock_step > 0) return;
  const auto& failure = job->status.last_failure;
  if (!failure || !failure->time || failure->attempt + 1 != facts.attempt) return;
  const bool is_own = failure->cause == "Error" || failure->cause == "Signal";
  if (!is_own || !is_true(*job, api::condition::kRestarting)) return;
  seconds wait{1};
  for (int i = 1; i < job->status.restarts.without_progress && wait < seconds{60}; ++i) wait *= 2;
  if (engine_.clock().now() < *failure->time + std::min(wait, seconds{60})) {
    fail("I5", "pod " + text_at_pointer(pod, "/metadata/name") + " is made without back-off");
  }
}

// As long as the quarantine lasts, and no longer. What was decided may be on its way for a while.
void Oracles::i40_pod_avoids_quarantine(const json& pod, const PodFacts& facts) {
  // An operator may stand still for half a minute between its word and the pod that it made before.
  const bool may_stand_still = knobs_.operators > 1 || knobs_.pause_operator > 0;
  const seconds on_its_way{may_stand_still ? 60 : 30};
  const auto job = job_of(facts.job_uid);
  if (!job || truth_.jobs[facts.job_uid].was_status_cut || knobs_.clock_step > 0) return;
  const TimePoint now = engine_.clock().now();
  for (const api::ExcludedNode& node : job->status.excluded_nodes) {
    if (!core::cause::is_for_a_while(node.cause) || !node.until || !node.time) continue;
    const std::string which = "pod " + text_at_pointer(pod, "/metadata/name") + " and node " +
                              node.name + " in quarantine";
    if (now > *node.time + on_its_way && now < *node.until && dislike(pod, node.name) == 0)
      fail("I40", which + ": it is not avoided");
    if (now > *node.until + on_its_way && dislike(pod, node.name) > 0)
      fail("I40", which + ": it is avoided though that is over");
  }
}

void Oracles::on_pod_deleted(const json& pod) {
  const auto facts = facts_of(pod);
  const auto job = facts ? job_of(facts->job_uid) : std::nullopt;
  if (job && has_found_no_node(pod, *facts))
    nodeless_.insert({facts->job_uid, text_at_pointer(pod, "/metadata/name")});
  i13_deletes_its_own(pod, job ? &*job : nullptr);
  if (job && !failure_) i19_leaves_time_to_save(pod, *job);
}

namespace {

// What holds up its gang leaves its node (I42), and what the scheduler refuses there does not wait
// for it (I43), once the status says so.
bool is_to_move(const api::TrainingJob& job, const std::string& pod) {
  return std::ranges::any_of(job.status.excluded_nodes, [&](const api::ExcludedNode& node) {
    const bool is_moved =
        node.cause == core::cause::kStraggler || node.cause == core::cause::kUnschedulable;
    return is_moved && std::ranges::find(node.pods, pod) != node.pods.end();
  });
}

}  // namespace

// The operator ends pods of lower attempts, of jobs that are to stop, of jobs that are gone, on
// machines that go, those that a rule moves, and those without which their gang is to go on.
void Oracles::i13_deletes_its_own(const json& pod, const api::TrainingJob* job) {
  const std::string name = text_at_pointer(pod, "/metadata/name");
  const auto facts = facts_of(pod);
  if (!facts) return fail("I13", "the operator deletes a stranger's pod " + name);
  if (job == nullptr) return;  // orphan or leftover of a job that is gone
  if (!is_owned_by(pod, facts->job_uid)) {
    return fail("I13", "the operator deletes pod " + name + ", which its job does not own");
  }
  if (truth_.jobs[facts->job_uid].was_status_cut || job->meta.deletion_time) return;
  if (facts->attempt < job->status.attempt || is_stopping(*job)) return;
  if (replaced_.contains({facts->job_uid, name})) return;  // another has its place
  if (nodeless_.contains({facts->job_uid, name})) return;
  if (is_announced && is_announced(text_at_pointer(pod, "/spec/nodeName"))) return;
  if (is_to_move(*job, name)) return;
  const api::PlacementStatus& placement = job->status.placement;
  if (api::is_given_up(placement, facts->attempt, facts->slot, facts->n)) return;
  fail("O4", "the operator deletes the live pod " + name + " of attempt " +
                 std::to_string(job->status.attempt));
}

void Oracles::i19_leaves_time_to_save(const json& pod, const api::TrainingJob& job) {
  const auto facts = facts_of(pod);
  if (facts->attempt != job.status.attempt || job.meta.deletion_time || knobs_.clock_step > 0)
    return;
  const auto running =
      std::ranges::find(job.status.conditions, api::condition::kRunning, &api::Condition::type);
  const bool is_saving = running != job.status.conditions.end() && running->status == "False" &&
                         (running->reason == "Suspending" || running->reason == "Preempting") &&
                         running->last_transition_time && group_of(facts->job_uid) != nullptr;
  if (!is_saving || is_true(job, api::condition::kSuspended) ||
      is_true(job, api::condition::kSuccessCriteriaMet) ||
      is_true(job, api::condition::kFailureTarget)) {
    return;
  }
  const auto group = api::decode_worker_group(*group_of(facts->job_uid));
  if (!group || group->spec.attempt != job.status.attempt) return;
  const std::string name = text_at_pointer(pod, "/metadata/name");
  if (replaced_.contains({facts->job_uid, name})) return;  // its gang goes on without it
  const core::Policy policy;
  if (engine_.clock().now() < *running->last_transition_time + policy.suspend_grace) {
    fail("I19", "pod " + name + " is deleted while its gang saves");
  }
}

// ---- the WorkerGroup

void Oracles::i01_group_follows_status(const local::Change& change) {
  const auto group = api::decode_worker_group(*change.after);
  if (!group || group->meta.owners.empty()) return;
  const std::string& uid = group->meta.owners.front().uid;
  const auto job = job_of(uid);
  if (!job || truth_.jobs[uid].was_status_cut) return;
  if (group->spec.attempt > job->status.attempt) {
    fail("I1", "the WorkerGroup has attempt " + std::to_string(group->spec.attempt) +
                   " before status.attempt");
  }
}

// What a pod has said of its own end, if the operator knew of it: they stand in the record that it
// decided by, or have stood there for longer than a view may be behind. No write can be guarded by
// the version of a pod, so words may come between the decision and the write.
std::optional<api::Failure> Oracles::last_words(const api::EligiblePod& place,
                                                const std::string& job_uid) const {
  const local::Object pod = api_.find(kPods, place.name);
  const auto ended = ended_.find(place.uid);
  if (pod == nullptr || ended == ended_.end()) return std::nullopt;
  const auto words = api::decode_termination(text_at_pointer(*pod, kTerminationMessage));
  if (!words) return std::nullopt;
  const auto job = job_of(job_uid);
  const bool is_blamed = job && job->status.last_failure &&
                         job->status.last_failure->pod_uid == place.uid &&
                         job->status.last_failure->cause == words->cause;
  const milliseconds excused = truth_.blind - ended->second.blind;
  const bool is_old = engine_.elapsed() - ended->second.since - excused > kViewBehindMax;
  // Its gang goes on, unless the exit code says that it ends.
  const json::json_pointer code("/status/containerStatuses/0/state/terminated/exitCode");
  const bool is_ending = pod->contains(code) && pod->at(code) == api::kExitRetry;
  const bool is_of_machine = words->cause == "Interrupted" || words->cause == "GpuFault";
  if (is_of_machine && !is_ending) return std::nullopt;
  return is_blamed || is_old ? std::optional<api::Failure>(*words) : std::nullopt;
}

// A place is given away only after something has happened to the gang, and goes to the next in
// line.
void Oracles::i33_places_have_losses(const local::Change& change) {
  if (change.before == nullptr || change.is_deletion) return;
  const auto before = api::decode_worker_group(*change.before);
  const auto after = api::decode_worker_group(*change.after);
  if (!before || !after || after->meta.owners.empty()) return;
  if (before->spec.attempt != after->spec.attempt) return;
  for (const api::EligiblePod& pod : after->spec.pods) {
    const auto old = std::ranges::find(before->spec.pods, pod.slot, &api::EligiblePod::slot);
    if (old == before->spec.pods.end() || old->n == pod.n) continue;
    const std::string what = pod.name + " has the place of " + old->name;
    replaced_.insert({after->meta.owners.front().uid, old->name});
    if (pod.n != old->n + 1) fail("I33", what);
    if (!pod.uid.empty()) fail("I33", what + ", and was made before the record said so");
    if (pod.slot >= before->spec.target_members) {  // of a gang that has been made smaller
      i34_members_stay(*before, *old);
      continue;
    }
    const bool was_member = std::ranges::any_of(
        before->status.members, [&](const api::Member& one) { return one.ref.uid == old->uid; });
    const auto words = last_words(*old, after->meta.owners.front().uid);
    // One that was to come in has no gang that could end, whatever made it leave.
    const bool is_of_gang = words && words->cause != "Victim" && words->cause != "Interrupted";
    if (words && (was_member || is_of_gang)) fail("I33", what + ", which says why it has ended");
    const std::string& uid = after->meta.owners.front().uid;
    i41_loss_is_counted(uid, old->name);
    const auto job = job_of(uid);
    const bool has_cause =
        truth_.of(uid, after->spec.attempt).is_any() ||
        truth_.is_resized(uid, after->spec.attempt) || nodeless_.contains({uid, old->name}) ||
        (job && api::gave_room(job->status.placement, after->spec.attempt, old->slot, old->n));
    if (!has_cause) fail("I33", what + ", but nothing happened");
  }
}

// What the loss of a rank did to its peers stands in no record. Where the network fails the loss
// itself may not have been told.
void Oracles::i37_no_victim_is_named(const local::Change& change) {
  if (change.is_deletion) return;
  const auto group = api::decode_worker_group(*change.after);
  if (!group) return;
  const std::string job = text_at_pointer(*change.after, "/metadata/ownerReferences/0/uid");
  for (const api::Failure& failure : group->status.failures) {
    const bool is_own =
        failure.cause == core::cause::kError && truth_.of(job, failure.attempt).noise == 0;
    if (is_own && truth_.jobs[job].victims.contains({failure.pod_uid, failure.generation}))
      fail("I37", failure.pod + " is blamed for what the loss of a peer did to it");
  }
}

// What a member holds may be the newest state of the run: it is its gang that lets it go.
void Oracles::i34_members_stay(const api::WorkerGroup& group, const api::EligiblePod& pod) {
  const bool is_member = std::ranges::any_of(
      group.status.members, [&](const api::Member& member) { return member.ref.uid == pod.uid; });
  const local::Object found = api_.find(kPods, pod.name);
  if (!is_member || found == nullptr || group.status.attempt != group.spec.attempt) return;
  if (found->at("metadata").contains("deletionTimestamp")) return;  // its node has had its time
  const std::string phase = text_at_pointer(*found, "/status/phase");
  const json::json_pointer end{"/status/containerStatuses/0/state/terminated"};
  if (phase == "Running" && !found->contains(end))
    fail("I34", pod.name + " loses its place while it is a member");
}

void Oracles::i02_children_before_group(const local::Change& change) {
  if (change.before != nullptr || !is_calm()) return;
  const std::string owner = text_at_pointer(*change.after, "/metadata/ownerReferences/0/uid");
  // Deleted meanwhile: the collector was there first, and comes again.
  const auto job = job_of(owner);
  if (!job || job->meta.deletion_time) return;
  const auto& resources = kube::resources::kServiceAccounts;
  const std::string name = text_at_pointer(*change.after, "/metadata/name") + "-pawl-worker";
  if (api_.find(resources, name) == nullptr ||
      api_.find(kube::resources::kRoleBindings, name) == nullptr) {
    fail("I2", "the WorkerGroup is made before the children that it stands for");
  }
}

void Oracles::i11_ttl_is_over(const json& object) {
  const auto job = api::decode_training_job(object);
  if (!job || knobs_.clock_step > 0) return;
  const auto& ttl = job->spec.ttl_seconds_after_finished;
  if (!ttl || !job->status.completion_time) return fail("I11", "a job without TTL was deleted");
  if (engine_.clock().now() < *job->status.completion_time + seconds{*ttl}) {
    fail("I11", "the job was deleted before its TTL was over");
  }
}

// Attempt, term and generation only grow; a generation never starts behind a known checkpoint.
void Oracles::o09_record_moves_forward(const local::Change& change) {
  if (change.before == nullptr || change.is_deletion) return;
  const auto before = api::decode_worker_group(*change.before);
  const auto after = api::decode_worker_group(*change.after);
  if (!before || !after) return fail("O13", "a launcher wrote a record that cannot be read");
  const auto& old_status = before->status;
  const auto& status = after->status;
  if (status.attempt < old_status.attempt || status.term < old_status.term ||
      status.generation < old_status.generation) {
    fail("O9", "the record went back");
  }
  if (status.generation > old_status.generation + 1) fail("O9", "a generation was left out");
  if (status.attempt > after->spec.attempt) fail("O9", "the record is ahead of the operator");
  const bool is_new = status.generation > old_status.generation;
  if (is_new && old_status.checkpoint && status.start_step < old_status.checkpoint->step) {
    fail("O12", "generation " + std::to_string(status.generation) + " starts at step " +
                    std::to_string(status.start_step) + ", behind the checkpoint of step " +
                    std::to_string(old_status.checkpoint->step));
  }
}

// A launcher that knows of a newer attempt is gone within a minute.
void Oracles::o09_old_attempts_leave() {
  if (truth_.overstayed.empty()) return;
  fail("O9", truth_.overstayed + " knows of a newer attempt and goes on");
}

// Each write carries the version that it was decided on: whoever writes has seen what stands there.
void Oracles::o09_old_attempts_are_silent(const local::Change& change) {
  if (change.before == nullptr || change.is_deletion) return;
  const json::json_pointer wanted{"/spec/attempt"}, own{"/status/attempt"};
  const json &before = *change.before, &after = *change.after;
  if (!before.contains(wanted) || !after.contains(own)) return;
  if (after.at(own).get<std::int64_t>() < before.at(wanted).get<std::int64_t>()) {
    fail("O9", "a launcher of attempt " + after.at(own).dump() + " writes though attempt " +
                   before.at(wanted).dump() + " stands on record");
  }
}

}  // namespace pawl::sim
