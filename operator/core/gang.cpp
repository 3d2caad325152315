#include <algorithm>

#include "common/api/contract.h"
#include "common/base/json.h"
#include "common/base/mutant.h"
#include "operator/core/node_steps.h"
#include "operator/core/shortage.h"
#include "operator/core/steps.h"

namespace pawl::core {
namespace {

using namespace api;

constexpr char kImagePull[] = "ImagePullBackOff";
constexpr char kWaitingForNodes[] = "WaitingForNodes";  // that an autoscaler adds
constexpr char kGated[] = "SchedulingGated";            // the cluster's word; a queue is no fault

}  // namespace

void stall(Pass& pass, const std::string& reason, const std::string& message) {
  if (!is_true(pass.next, condition::kStalled)) pass.emit(true, reason, message);
  set_condition(pass, condition::kStalled, "True", reason, message);
  pass.say(reason, message);
}

// Slot 0 stands for all: they differ in numbers only.
bool has_buildable_template(Pass& pass) {
  const auto pod = worker_pod_of(pass.job, pass.job.status.attempt, 0, 0, pass.policy.children);
  if (pod) return true;
  stall(pass, "InvalidTemplate", pod.error().message);
  return false;
}

namespace {

void say_conflict(Pass& pass, const std::string& what, const ObjectMeta& meta) {
  if (is_leftover(pass.job, meta)) {
    pass.say("WaitingForCleanup", what + " is left of a deleted job; waiting until it is gone");
  } else {
    stall(pass, "NameConflict", what + " exists and belongs to somebody else: delete it");
  }
}

// Is somebody else's object where one of ours has to be?
bool has_name_conflict(Pass& pass) {
  const WorkerGroup* found = pass.seen.group;
  if (found != nullptr && pass.group == nullptr) {
    say_conflict(pass, "WorkerGroup " + found->meta.name, found->meta);
    return true;
  }
  for (const PodView* pod : pass.pods.foreign) {
    const auto identity = parse_pod_name(pass.job.meta.name, pod->meta.name);
    const bool is_in_the_way =
        identity && identity->attempt == pass.job.status.attempt && identity->slot < pass.size();
    if (!is_in_the_way) continue;
    say_conflict(pass, "pod " + pod->meta.name, pod->meta);
    return true;
  }
  return false;
}

// Of this attempt, for the job as it is, or as it was when its first pod was made.
bool has_record(const Pass& pass) {
  if (pass.current_group == nullptr || has_begun(pass)) return pass.current_group != nullptr;
  const WorkerGroupSpec& spec = pass.current_group->spec;
  return most_members(spec) == pass.job.spec.replicas && spec.spares == spares_of(pass) &&
         spec.pod_hash == pod_hash(pass) && is_in_pod_group(pass) == joins_pod_group(pass);
}

// What the workers need first, the WorkerGroup last: where it exists, the others do. The
// RoleBinding after the Role, which the API server looks up. True if the record of this attempt
// stands, or is being written by this plan.
bool ensure_record(Pass& pass) {
  if (pass.group == nullptr) {
    if (!has_buildable_template(pass)) return false;
    if (is_mutant(Mutant::kB06GroupFirst)) pass.acts.push_back(CreateGroup{group_spec(pass)});
    if (pass.job.spec.has_hostnames) pass.acts.emplace_back(CreateChild{ObjectKind::kService});
    for (const ObjectKind kind :
         {ObjectKind::kServiceAccount, ObjectKind::kRole, ObjectKind::kRoleBinding}) {
      pass.acts.emplace_back(CreateChild{kind});
    }
    if (!is_mutant(Mutant::kB06GroupFirst)) pass.acts.push_back(CreateGroup{group_spec(pass)});
    return true;
  }
  if (pass.group->meta.deletion_time) {
    pass.say("WaitingForCleanup", "the WorkerGroup is being deleted; waiting until it is gone");
    return false;
  }
  const WorkerGroupSpec& spec = pass.group->spec;
  const bool is_wanted =
      has_record(pass) && !(is_mutant(Mutant::kB16PermanentDiff) && spec != group_spec(pass));
  if (!is_wanted) {
    if (!has_buildable_template(pass)) return false;
    const ObjectMeta& meta = pass.group->meta;
    drop_pod_group(pass);
    pass.acts.push_back(PatchGroup{meta.uid, meta.resource_version, spec, group_spec(pass)});
  }
  return true;
}

// The record that the pods are created from: the one that stands, or the one this plan writes.
WorkerGroupSpec record(const Pass& pass) {
  return has_record(pass) ? pass.group->spec : group_spec(pass);
}

// What a gang can begin without must not keep it from beginning.
bool is_early_spare(const Pass& pass, const EligiblePod& place) {
  return pass.report == nullptr && place.slot >= pass.gang_size();
}

// UIDs go into the record when the whole wave is there: one write, and no gang starts in part; one
// that runs is told of whoever is there. The status tells of the pods before that: of a gang that
// may run, something is left to see when somebody has deleted its record and its pods. How often it
// reports may change later, and what the failure policy allows.
void fill_uids(Pass& pass, const WorkerGroupSpec& spec, bool is_refused) {
  WorkerGroupSpec filled = spec;
  filled.report_seconds = pass.policy.report_seconds;
  filled.is_in_place = is_in_place(pass);
  filled.has_successors = has_successors(pass);
  set_range(pass, filled);
  bool has_new = false;
  for (EligiblePod& slot : filled.pods) {
    if (slot.slot >= spec.target_members) continue;
    const PodView* pod = pass.pods.at(slot.slot);
    // A gang that runs lets in those that are there, and one that may begin smaller does not wait
    // for a pod that has no node, nor for long for one that was refused. Spares come later.
    const auto is_short = [&] {
      if (is_early_spare(pass, slot)) return true;
      return filled.shortage_seconds > 0 &&
             (lacks_seat(pass, slot) || (is_refused && has_settled(pass)));
    };
    if (pod == nullptr && pass.report == nullptr && !is_short()) return;
    if (pod == nullptr) continue;
    if (!slot.uid.empty()) continue;
    slot.uid = pod->meta.uid;
    has_new = true;
  }
  const bool lies_anew = pass.report == nullptr && is_anywhere(pass.job.status.placement);
  if (has_new || lies_anew) deal_ranks(pass, filled);
  if (filled == spec || pass.group == nullptr) return;
  pass.is_status_due = has_new;
  change_group(pass, std::move(filled));
}

std::string ready_text(const Pass& pass) {
  return std::to_string(pass.ready()) + "/" + std::to_string(pass.gang_size());
}

// Those that have started beside as many as train.
std::string spares_text(const Pass& pass) {
  const int spares = pass.size() - pass.gang_size();
  if (spares == 0) return "";
  const auto started = std::ranges::count_if(pass.pods.current, [](const Worker& worker) {
    return is_staying(*worker.pod) && worker.pod->phase == PodPhase::kRunning;
  });
  const int waiting = std::max(static_cast<int>(started) - pass.gang_size(), 0);
  return "; " + std::to_string(waiting) + " of " + std::to_string(spares) + " spares wait";
}

// The obstacle stands in status.message, in the condition and in one event; the condition is left
// alone as long as there was none.
void say_waiting(Pass& pass) {
  const Waiting waiting = waiting_for(pass);
  if (!waiting.is_blocked && has_replaced(pass) && is_true(pass.next, condition::kRestarting))
    return pass.say(kMemberLost, find_condition(pass.next, condition::kRestarting)->message);
  pass.say(waiting.reason, waiting.message);
  const Condition* running = find_condition(pass.next, condition::kRunning);
  const bool is_told = running != nullptr && running->reason == waiting.reason;
  const bool was_blocked =
      running != nullptr && running->reason != "Starting" && running->reason != "Restarting";
  if (waiting.is_blocked && !is_told) {
    const bool is_usual = waiting.reason == kGated || waiting.reason == kWaitingForNodes;
    pass.emit(!is_usual, waiting.reason, waiting.message);
  }
  if (!waiting.is_blocked && !was_blocked) return;
  set_condition(pass, condition::kRunning, "False", waiting.reason, waiting.message);
}

// All of the gang that is committed; of one that is to grow, those who are in.
bool is_gang_ready(const Pass& pass) {
  if (pass.report == nullptr || pass.report->members.empty())
    return pass.ready() == pass.gang_size();
  return std::ranges::all_of(pass.report->members, [&](const Member& member) {
    if (member.slot >= pass.size()) return true;  // it leaves
    const PodView* pod = pass.pods.at(member.slot);
    return pod != nullptr && pod->meta.uid == member.ref.uid && pod->is_ready &&
           !is_terminating(*pod) && outcome_of(*pod) == Outcome::kNone;
  });
}

void note_running(Pass& pass) {
  if (!is_gang_ready(pass)) return;
  const bool are_all = pass.ready() == pass.gang_size();
  const char* reason = are_all ? "AllReady" : "EnoughReady";
  const std::string message =
      (are_all ? "all " + std::to_string(pass.gang_size()) : ready_text(pass)) +
      " workers are ready";
  if (is_true(pass.next, condition::kRunning)) {
    const bool has_grown =
        are_all && find_condition(pass.next, condition::kRunning)->reason != reason;
    if (has_grown) set_condition(pass, condition::kRunning, "True", reason, message);
    return;
  }
  if (!has_replaced(pass)) add_disruption_budget(pass);
  set_condition(pass, condition::kRunning, "True", reason, message);
  clear_condition(pass, condition::kRestarting, "Running", message);
  if (!has_replaced(pass)) {
    pass.emit(false, "Running", message);
  } else if (pass.report != nullptr) {
    pass.emit(false, "RecoveredInPlace", message + " again; " + start_text(pass),
              std::to_string(pass.report->generation));
  }
}

void describe(Pass& pass) {
  note_running(pass);
  if (static_cast<int>(pass.pods.current.size()) + pass.seats_lacking == pass.size()) {
    clear_condition(pass, condition::kStalled, "Created", "every pod could be created");
  }
  if (is_true(pass.next, condition::kStalled)) return;
  if (is_true(pass.next, condition::kRunning)) {
    const std::string which = " workers ready in attempt " + std::to_string(pass.next.attempt);
    const Waiting waiting = waiting_for(pass);
    pass.say("Running", ready_text(pass) + which + spares_text(pass) + waiting.obstacle);
  } else {
    say_waiting(pass);
  }
}

void say_refusal(Pass& pass, const Refusal& refusal) {
  const std::string message = refusal.action + " was refused: " + refusal.message;
  if (pass.report != nullptr) note_running(pass);
  const bool runs = is_true(pass.next, condition::kRunning) && is_gang_ready(pass);
  if (refusal.is_leftover) {
    pass.say("WaitingForCleanup", message);
  } else if (pass.report != nullptr && runs) {  // without it, for now
    clear_condition(pass, condition::kStalled, "Running", "the gang runs without it");
    const std::string all = ready_text(pass) + " workers ready in attempt " +
                            std::to_string(pass.next.attempt) + "; " + message;
    if (pass.job.status.message != all) pass.emit(true, refusal.reason, message);
    pass.say("Running", all);
  } else {
    stall(pass, refusal.reason, message);
  }
}

bool needs_creation(const Pass& pass) {
  return pass.group == nullptr || static_cast<int>(pass.pods.current.size()) < pass.size();
}

void create_missing(Pass& pass, const WorkerGroupSpec& spec) {
  const bool would_others_differ = would_differ(pass);
  for (const EligiblePod& slot : spec.pods) {
    if (slot.slot >= spec.target_members || !slot.uid.empty()) continue;
    if (pass.pods.at(slot.slot) != nullptr) continue;
    if (is_early_spare(pass, slot)) {
      ++pass.seats_lacking;
    } else if (would_others_differ) {
      leave_seat(pass, slot);
    } else if (!waits_for_seat(pass, slot)) {
      create_pod(pass, spec, slot);
    }
  }
}

// Said where it matters: when pods are made beside one that may still be running somewhere.
void tell_given_up(Pass& pass) {
  const bool is_creating = std::ranges::any_of(
      pass.acts, [](const Action& action) { return std::get_if<CreatePod>(&action) != nullptr; });
  if (pass.pods.given_up.empty() || !is_creating) return;
  const PodView& pod = *pass.pods.given_up.front();
  const std::string others = pass.pods.given_up.size() > 1
                                 ? " and " + std::to_string(pass.pods.given_up.size() - 1) + " more"
                                 : "";
  pass.acts.push_back(EmitEvent{
      true, "PodGivenUp",
      "pod " + pod.meta.name + (pod.node.empty() ? "" : " on node " + pod.node) + others +
          " did not end within " + std::to_string(pass.job.spec.pod_termination_timeout_seconds) +
          " s after its grace period and is no longer waited for; delete it when its node is gone",
      pass.next.attempt, pass.job.meta.uid});
}

// Why a pod without a node has none.
std::string unscheduled_text(const Pass& pass, const PodView& pod) {
  const auto queue = pass.job.meta.labels.find(std::string(kKueuePrefix) + "queue-name");
  if (!pod.is_gated || queue == pass.job.meta.labels.end()) return pod.unschedulable_message;
  return "Kueue has not admitted it through queue " + queue->second;
}

}  // namespace

// What keeps the first pod that waits; a sentence of the cluster's own where there is one.
Waiting waiting_for(const Pass& pass) {
  Waiting out{"Starting", ready_text(pass) + " workers ready"};
  std::string obstacle;
  int waiting = 0;
  for (const Worker& worker : pass.pods.current) {
    const PodView& pod = *worker.pod;
    const bool is_unschedulable = pod.node.empty() && !pod.unschedulable_message.empty();
    if (pod.waiting_reason.empty() && !is_unschedulable) continue;
    if (++waiting > 1) continue;
    out.is_blocked = true;
    const auto& [attempt, slot, n] = worker.identity;
    const bool is_anywhere = node_of(pass.job.status.placement, attempt, slot, n) == kAnyNode;
    out.reason = !pod.waiting_reason.empty() ? pod.waiting_reason
                 : pod.is_gated              ? kGated
                 : is_anywhere               ? kWaitingForNodes
                                             : "Unschedulable";
    // The kubelet says them in turn, as long as an image cannot be pulled.
    if (out.reason == "ErrImagePull") out.reason = kImagePull;
    const std::string& text =
        pod.waiting_reason.empty() ? unscheduled_text(pass, pod) : pod.waiting_message;
    obstacle = out.reason + " (pod " + pod.meta.name + ")" + (text.empty() ? "" : ": " + text);
  }
  if (waiting == 0 && !pass.seat_obstacle.empty()) {
    // Those that it has nodes for may be enough.
    out.is_blocked = std::cmp_less(pass.pods.current.size(), least_members(pass));
    if (out.is_blocked) out.reason = pass.lacks_quota ? kWaitingForQuota : kWaitingForRoom;
    out.obstacle = "; " + pass.seat_obstacle;
    out.message += out.obstacle;
  }
  if (waiting == 0) return out;
  out.obstacle = "; " + std::to_string(waiting) + " cannot start: " + obstacle;
  out.message += out.obstacle;
  const std::string& said = pass.job.status.message;
  const std::string same = out.message.substr(0, out.message.find(')') + 1);
  if (out.reason == kImagePull && said.starts_with(same)) out.message = said;
  return out;
}

bool has_had_pod(const EligiblePod& place) { return !place.uid.empty() || place.n > 0; }

// Also by pods that are gone.
bool has_begun(const Pass& pass) {
  if (!pass.pods.current.empty()) return true;
  return pass.current_group != nullptr &&
         std::ranges::any_of(pass.current_group->spec.pods, has_had_pod);
}

void run_gang(Pass& pass) {
  pass.delete_superseded();
  if (has_name_conflict(pass)) return;
  // Without a budget it runs, too.
  const bool is_refused = needs_creation(pass) && pass.seen.refusal && !is_budget_refused(pass) &&
                          !is_of_node_request(*pass.seen.refusal) &&
                          pass.seen.refusal->generation == pass.job.meta.generation;
  const auto& refusal = is_refused ? pass.seen.refusal : std::nullopt;
  if (refusal) say_refusal(pass, *refusal);
  if (refusal && is_mutant(Mutant::kB38RefusalForEver)) return;
  if (refusal && pass.now_exact < refusal->retry_at) {
    // Who may not make pods keeps no room from others meanwhile.
    if (pass.pods.current.empty()) pass.next.placement = {};
    if (has_record(pass) && !pass.pods.current.empty()) fill_uids(pass, pass.group->spec, true);
    return pass.wake(refusal->retry_at);
  }
  if (waits_for_seats(pass)) return;
  if (!ensure_record(pass)) return;
  if (pass.pods.previous_active > 0) {
    return pass.say("WaitingForPods", std::to_string(pass.pods.previous_active) +
                                          (pass.pods.previous_active == 1 ? " pod" : " pods") +
                                          " of an earlier attempt not ended yet; attempt " +
                                          std::to_string(pass.next.attempt) + " starts after that");
  }
  if (pass.pods.leftover_active > 0) {
    return pass.say("WaitingForCleanup", std::to_string(pass.pods.leftover_active) +
                                             (pass.pods.leftover_active == 1 ? " pod" : " pods") +
                                             " of a deleted job of this name not ended yet");
  }
  if (frees_places(pass)) return;
  const WorkerGroupSpec spec = record(pass);
  const auto allowed_at = creation_time(pass);
  const bool may_create = !allowed_at || pass.now_exact >= *allowed_at;
  if (!may_create) pass.wake(*allowed_at);
  if (!may_create && is_true(pass.next, condition::kRestarting)) {
    return pass.say("BackOff", find_condition(pass.next, condition::kRestarting)->message +
                                   "; it starts at " + format_time(*allowed_at));
  }
  // First: what cannot be created must not keep the others out.
  fill_uids(pass, spec, refusal.has_value());
  if (may_create) create_missing(pass, spec);
  tell_given_up(pass);
  if (!refusal) describe(pass);
}

}  // namespace pawl::core
