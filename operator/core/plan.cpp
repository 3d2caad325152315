// The protocol, in the order in which it is tried. Each pass looks only at what is stored in the
// cluster, so that any prefix of any plan, followed by a crash, is a state that the next pass
// handles.
//
//  1. A job that is being deleted is left to the garbage collector.
//  2. Terminal is final: late pods are deleted, the TTL runs, nothing else changes.
//  3. An end that was decided (SuccessCriteriaMet, FailureTarget) is carried through: running pods
//     are deleted, and Complete or Failed is written when every pod is terminal.
//  4. All members of the attempt have succeeded, or its gang says so: the end is decided.
//  5. Suspension, once asked for or begun, is carried through: the gang saves and leaves, then pods
//     are deleted.
//  6. A new attempt begins (first start, resume) by raising status.attempt, and with nothing else.
//  7. Something of a higher attempt than the status knows, or pods without their WorkerGroup: the
//     record was lost; a free restart puts the attempt above everything that was seen.
//  8. Its nodes are for another job: once begun it is carried through. The gang saves and leaves,
//     then its pods are deleted; it waits in line as if it had never begun, but goes on from its
//     newest checkpoint. Where only some are needed, of an elastic gang, those workers leave it
//     when nothing else is amiss (11), and come back as it grows.
//  9. Another size: the record says so, and the gang changes while it runs; a free restart where it
//     cannot.
// 10. A deadline that has passed decides the end. Spot machines that were avoided are used again.
// 11. Workers on machines that are about to go are told to leave them, and a slow one, if a rule
//     says so.
// 12. A lost member, or a gang that hangs: the culprit is named. Where the others can go on from
//     memory its slot gets another pod in the same attempt; else the rules say whether it counts,
//     and the attempt is raised, or the end decided.
// 13. The gang of the attempt is made: pods of lower attempts are deleted; where nodes are decided
//     on in advance, they are written; children and the WorkerGroup with the names of the pods are
//     written; when no pod of a lower attempt can still run and the back-off is over, pods are
//     created; when all are there, their UIDs are recorded and make them eligible. One that does
//     not begin gives its nodes back, if it is to.
#include "operator/core/plan.h"

#include "common/api/contract.h"
#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"
#include "operator/core/stop_steps.h"

namespace pawl::core {
namespace {

using namespace api;

bool is_record_lost(const Pass& pass) {
  const std::int64_t attempt = pass.job.status.attempt;
  if (pass.pods.attempt_max > attempt || pass.pods.is_ahead) return true;
  if (pass.group != nullptr) return pass.group->spec.attempt > attempt;
  // Its pods may be gone with it: the status still tells of them. The same attempt must not begin
  // again, because a new record counts its generations from 1.
  const TrainingJobStatus& status = pass.job.status;
  const bool has_failed = status.last_failure && status.last_failure->attempt == attempt;
  const bool has_run = !pass.pods.current.empty() || status.replicas > 0 ||
                       is_true(status, condition::kRunning) || has_failed;
  return pass.seen.group == nullptr && has_run;
}

void recover_record(Pass& pass) {
  if (pass.seen.group == nullptr) {
    pass.confirms.push_back(ConfirmGone{ObjectKind::kWorkerGroup, pass.job.meta.name, ""});
  } else if (pass.pods.is_ahead) {  // the view of it may be behind that of the pods
    pass.confirms.push_back(ConfirmRecord{pass.seen.group->meta.resource_version});
  }
  restart(pass, {cause::kRecordLost,
                 "the WorkerGroup or the job's status was deleted or overwritten by somebody"});
}

// Of a pod that is waited for in vain nobody sends an event.
void wake_for_giving_up(Pass& pass) {
  for (const PodView* pod : pass.seen.pods) {
    const auto time = give_up_time(pass.job, *pod);
    if (time && pass.now_exact < *time) pass.wake(*time);
  }
}

void decide(Pass& pass) {
  const TrainingJobStatus& status = pass.job.status;
  if (is_true(status, condition::kComplete) || is_true(status, condition::kFailed)) {
    return after_end(pass);
  }
  if (is_true(status, condition::kSuccessCriteriaMet) ||
      is_true(status, condition::kFailureTarget)) {
    return finish(pass);
  }
  pass.next.placed_by = placed_by(pass);
  if (has_succeeded(pass)) return begin_success(pass);
  if (is_suspending(pass)) return suspend(pass);
  if (is_true(status, condition::kSuspended)) return resume(pass);
  if (status.attempt == 0) return start_first(pass);
  if (is_record_lost(pass)) return recover_record(pass);
  if (is_preempted(pass)) return make_room(pass);
  if (is_resized(pass)) return resize(pass);
  if (has_missed_deadline(pass)) return;
  quarantine_late(pass);
  return_to_spot(pass);
  const auto loss = find_loss(pass);
  // Who is told to leave a gang that ends by itself would be taken for the reason.
  const auto gone = loss && loss->is_leaving ? find_loss(pass, true) : loss;
  const bool is_ending = gone && gone->has_fault;
  if (!is_ending && (leaves_nodes(pass) || deletes_given_up(pass))) return;
  const bool is_well = !loss || (loss->is_leaving && !is_ending);
  if (is_well && gives_room(pass)) return;
  if (!loss && moves_straggler(pass)) return;
  if (loss) return handle_loss(pass, *loss);
  if (const auto hang = find_hang(pass)) return handle_loss(pass, *hang);
  if (is_leaderless(pass)) return restart(pass, {cause::kNodeLost, kLeaderless});
  if (leaves_seats(pass) || gives_up_start(pass) || reunites(pass) || restarts_changed(pass))
    return;
  run_gang(pass);
}

}  // namespace

Plan plan(const Observed& seen, const Policy& policy, TimePoint now) {
  if (seen.job->meta.deletion_time && !is_mutant(Mutant::kB09ParentDeleted)) {
    return {{}, std::nullopt, "the job is being deleted"};
  }
  const std::string& managed_by = seen.job->spec.managed_by;
  if (!managed_by.empty() && managed_by != kManagedByUs) {
    return {{}, std::nullopt, "the job is managed by " + managed_by};
  }
  Pass pass(seen, policy, now);
  if (is_mutant(Mutant::kB25ForeignChildStalls) && !pass.pods.foreign.empty()) return {};
  wake_for_giving_up(pass);
  copy_report(pass);
  decide(pass);
  drop_node_requests(pass);
  return seal(pass);
}

}  // namespace pawl::core
