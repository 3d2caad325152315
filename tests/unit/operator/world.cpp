#include "tests/unit/operator/world.h"

#include <algorithm>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::test {

using namespace api;

namespace {

constexpr char kTemplate[] =
    R"({"spec":{"containers":[{"name":"worker","image":"example/train:1","command":["/train"]}]}})";

}  // namespace

World::World(int replicas, RuntimeKind kind) {
  job.meta.name = "gpt";
  job.meta.ns = "team";
  job.meta.uid = "job-uid";
  job.meta.generation = 1;
  job.spec.replicas = replicas;
  job.spec.runtime_kind = kind;
  job.spec.template_json = kTemplate;
  // Most tests of a program that says nothing are of attempts.
  if (kind != RuntimeKind::kNative) job.spec.strategy = Strategy::kRecreateAll;
  touch(job.meta);
}

World World::elastic(int replicas, int least) {
  World world(replicas, RuntimeKind::kNative);
  world.set_spec([&](TrainingJobSpec& spec) {
    spec.elastic =
        Elastic{.min_replicas = least, .stabilization_seconds = 7, .shortage_seconds = 60};
  });
  return world;
}

core::Observed World::observed() const {
  core::Observed seen;
  seen.job = &job;
  seen.group = group ? &*group : nullptr;
  for (const auto& [name, pod] : pods) seen.pods.push_back(&pod);
  seen.refusal = refusal;
  seen.status_written_at = status_written_at;
  seen.signals = signals ? &*signals : nullptr;
  for (const auto& [name, request] : node_requests) seen.node_requests.push_back(&request);
  return seen;
}

core::Plan World::plan() const {
  core::Observed seen = observed();
  if (!seats) return core::plan(seen, policy, now);
  core::Seating seating;
  seen.seating = &seating;
  seating.leave_why = leave_why;
  const auto tell = [&] {
    seating.gives_up = gives_up;
    seating.give_up_why = "job team/urgent needs its room";
    seating.rank_order = rank_order;
  };
  tell();
  const core::Plan asking = core::plan(seen, policy, now);
  if (!asking.asks_for_seats) return asking;
  seating = seats(seen);
  tell();
  if (!seating.obstacle.empty()) return core::plan(seen, policy, now);
  for (api::PlacedPod pod : asking.seats_wanted) {
    pod.node = "near-" + std::to_string(pod.slot) + "-" + std::to_string(pod.n);
    seating.later.push_back(pod);
  }
  return core::plan(seen, policy, now);
}

void World::request_nodes(const core::CreateChild& request) {
  if (!pod_templates.contains(request.name)) broken.push_back("a request before its template");
  if (node_requests.contains(request.name)) return;  // AlreadyExists, ours
  NodeRequest& made = node_requests[request.name];
  made = named_node_request(request.name).value();
  made.job_uid = job.meta.uid;
  made.since = now;
  asked_for.push_back(request.least);
}

void World::settle(std::chrono::seconds horizon) {
  const TimePoint end = now + horizon;
  for (int i = 0; i < 500 && !is_job_gone; ++i) {
    const core::Plan next = plan();
    for (const core::Action& action : next.actions) {
      if (actions_until_crash && *actions_until_crash == actions_done) {
        actions_until_crash.reset();
        status_written_at.reset();
        break;
      }
      ++actions_done;
      if (!apply(action)) break;
    }
    if (!next.actions.empty()) continue;
    if (is_kubelet_on && kubelet()) continue;
    if (!next.wake_up || *next.wake_up > end) {
      now = std::max(now, end);
      return;
    }
    now = std::max(*next.wake_up, now + std::chrono::milliseconds{1});
  }
  if (!is_job_gone) broken.push_back("it never came to rest");
}

// Eligible pods run and become ready, terminating ones go.
bool World::kubelet() {
  bool has_changed = false;
  for (auto& [name, pod] : pods) {
    const bool is_eligible = group && std::ranges::any_of(group->spec.pods, [&](const auto& slot) {
                               return slot.uid == pod.meta.uid;
                             });
    if (is_eligible && pod.phase == PodPhase::kPending && !pod.meta.deletion_time) {
      pod.phase = PodPhase::kRunning;
      pod.node = "node-a";
      pod.is_ready = true;
      has_changed = true;
    }
  }
  const auto count = std::erase_if(pods, [](const auto& item) {
    return item.second.meta.deletion_time && !core::is_terminal(item.second);
  });
  return has_changed || count > 0;
}

PodView& World::pod(int slot) {
  int n = 0;
  if (group && group->spec.attempt == job.status.attempt) {
    for (const EligiblePod& pod : group->spec.pods) {
      if (pod.slot == slot) n = pod.n;
    }
  }
  return named(pod_name(job, job.status.attempt, slot, n));
}

void World::run_all() {
  for (auto& [name, pod] : pods) {
    if (core::is_terminal(pod) || pod.meta.deletion_time) continue;
    pod.phase = PodPhase::kRunning;
    pod.is_ready = true;
  }
}

void World::succeed(int slot) {
  PodView& view = pod(slot);
  view.phase = PodPhase::kSucceeded;
  view.is_ready = false;
  view.exit_code = 0;
}

void World::succeed_all() {
  for (int slot = 0; slot < job.spec.replicas; ++slot) succeed(slot);
}

void World::fail(int slot, int exit_code, const std::string& cause) {
  PodView& view = pod(slot);
  view.phase = PodPhase::kFailed;
  view.is_ready = false;
  view.exit_code = exit_code;
  if (cause.empty()) return;
  Failure failure;
  failure.rank = slot;
  failure.exit_code = exit_code;
  failure.cause = cause;
  failure.log_tail = "last words of " + std::to_string(slot);
  view.termination_message = encode_termination(failure);
}

void World::delete_pod(int slot) { pod(slot).meta.deletion_time = now; }

void World::finish_terminating() {
  std::erase_if(pods, [](const auto& item) { return item.second.meta.deletion_time.has_value(); });
}

void World::report(std::int64_t step, std::optional<std::int64_t> checkpoint_step) {
  WorkerGroupStatus& status = group->status;
  status.attempt = job.status.attempt;
  status.generation = std::max<std::int64_t>(1, status.generation);
  status.progress = Progress{.step = step, .total_steps = 1000};
  if (checkpoint_step) status.checkpoint = CheckpointStatus{.step = *checkpoint_step};
  if (status.members.empty()) commit();
  touch(group->meta);
}

void World::commit(int without_slot) {
  WorkerGroupStatus& status = group->status;
  status.members.clear();
  for (const EligiblePod& pod : group->spec.pods) {
    const bool is_in = pod.slot < group->spec.target_members && pod.slot != without_slot;
    const bool is_full = std::cmp_equal(status.members.size(), most_members(group->spec));
    if (!is_in || pod.uid.empty() || is_full) continue;
    status.members.push_back({{pod.uid, "start"}, "10.0.0.1:1000", pod.slot, pod.slot});
  }
  status.leader = Leader{status.members.front().ref, "10.0.0.1:1000", "print"};
}

void World::commit_next(std::int64_t start_step, int without_slot) {
  WorkerGroupStatus& status = group->status;
  status.base_generation = status.generation;
  status.generation += 1;
  status.start_step = start_step;
  status.base_members.clear();
  for (const Member& member : status.members) status.base_members.push_back(member.ref);
  commit(without_slot);
  touch(group->meta);
}

World World::training(int replicas) {
  World world(replicas, api::RuntimeKind::kNative);
  world.settle();
  world.report(10);
  world.settle();
  return world;
}

void World::lose_touch(int slot) {
  group->status.failures.push_back({.rank = slot,
                                    .pod = pod(slot).meta.name,
                                    .pod_uid = pod(slot).meta.uid,
                                    .cause = "Unknown",
                                    .message = "lost the launcher of this pod",
                                    .attempt = job.status.attempt,
                                    .generation = group->status.generation,
                                    .time = now});
  touch(group->meta);
}

void World::remove_pod(int slot) {
  delete_pod(slot);
  finish_terminating();
}

void World::set_suspended(bool is_suspended) {
  set_spec([is_suspended](auto& spec) { spec.is_suspended = is_suspended; });
}

void World::set_spec(const std::function<void(TrainingJobSpec&)>& change) {
  change(job.spec);
  ++job.meta.generation;
  touch(job.meta);
}

std::string World::condition(const std::string& type) const {
  for (const Condition& condition : job.status.conditions) {
    if (condition.type == type) return condition.status;
  }
  return "";
}

std::string World::text() const {
  const TrainingJobStatus& status = job.status;
  std::string out = status.phase + " attempt " + std::to_string(status.attempt) + " counted " +
                    std::to_string(status.restarts.counted) + " free " +
                    std::to_string(status.restarts.free) + " ready " + status.ready + " live " +
                    std::to_string(live_pods()) + (is_job_gone ? " gone" : "");
  for (const auto& [cause, count] : status.restarts.by_cause) {
    out += " " + cause + "=" + std::to_string(count);
  }
  return out;
}

int World::live_pods() const {
  return static_cast<int>(std::ranges::count_if(
      pods, [](const auto& item) { return !core::is_terminal(item.second); }));
}

}  // namespace pawl::test
