// What an action does to the world, as the API server would do it.
#include <algorithm>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/json.h"
#include "tests/unit/operator/world.h"

namespace pawl::test {

using namespace api;

namespace {

OwnerReference owner_of(const TrainingJob& job) {
  return {kApiVersion, "TrainingJob", job.meta.name, job.meta.uid, true};
}

struct Applier {
  World& world;
  std::function<void(const core::PatchStatus&)> patch_status;
  std::function<void(ObjectMeta&)> touch;
  std::function<void(const core::CreatePod&)> check;
  std::function<std::string()> new_uid;

  bool operator()(const core::ConfirmGone& action) const {
    if (action.kind == core::ObjectKind::kWorkerGroup) return !world.group;
    const auto found = world.pods.find(action.name);
    return found == world.pods.end() || found->second.meta.uid != action.uid;
  }
  bool operator()(const core::ConfirmRecord& action) const {
    return world.group && world.group->meta.resource_version == action.resource_version;
  }
  bool operator()(const core::PatchStatus& action) const {
    if (action.resource_version != world.job.meta.resource_version) return false;
    patch_status(action);
    return true;
  }
  bool operator()(const core::CreateChild& action) const {
    world.children.insert(core::kind_name(action.kind));
    if (action.kind == core::ObjectKind::kDisruptionBudget) world.least = action.least;
    if (action.kind == core::ObjectKind::kPodGroup) world.pod_group = action;
    if (action.kind == core::ObjectKind::kPodTemplate) world.pod_templates.insert(action.name);
    if (action.kind == core::ObjectKind::kProvisioningRequest) world.request_nodes(action);
    return true;
  }
  bool operator()(const core::CreateGroup& action) const {
    if (world.group) return false;
    for (const char* kind : {"ServiceAccount", "Role", "RoleBinding"}) {
      if (!world.children.contains(kind)) world.broken.push_back("WorkerGroup before its siblings");
    }
    WorkerGroup group;
    group.meta.name = world.job.meta.name;
    group.meta.uid = new_uid();
    group.meta.owners = {owner_of(world.job)};
    group.spec = action.spec;
    touch(group.meta);
    world.group = group;
    ++world.group_writes;
    return true;
  }
  bool operator()(const core::PatchGroup& action) const {
    if (!world.group || action.resource_version != world.group->meta.resource_version) return false;
    if (action.after.attempt < world.group->spec.attempt) {
      world.broken.push_back("WorkerGroup.spec.attempt went back");
    }
    const bool is_eligible =
        std::ranges::any_of(action.after.pods, [](const auto& pod) { return !pod.uid.empty(); });
    if (is_eligible && world.job.status.replicas == 0) {
      world.broken.push_back("a gang may run and the status does not tell of it");
    }
    world.group->spec = action.after;
    touch(world.group->meta);
    world.group = decode_worker_group(encode_worker_group(*world.group)).value();
    ++world.group_writes;
    return true;
  }
  bool operator()(const core::CreatePod& action) const {
    check(action);
    if (world.pods.contains(action.name)) return true;  // AlreadyExists, ours
    PodView pod;
    pod.meta.name = action.name;
    pod.meta.uid = new_uid();
    pod.meta.owners = {owner_of(world.job)};
    touch(pod.meta);
    world.pods[action.name] = pod;
    if (!action.pod_group.empty() && !world.pod_group)
      world.broken.push_back("a pod before its group");
    if (!action.pod_group.empty()) world.grouped.insert(action.name);
    if (!action.node_request.empty()) world.consuming[action.name] = action.node_request;
    ++world.pods_created;
    return true;
  }
  bool operator()(const core::DeleteChild& action) const {
    if (action.kind == core::ObjectKind::kPodGroup) world.dropped_groups.push_back(action.name);
    if (action.kind == core::ObjectKind::kPodTemplate) world.pod_templates.erase(action.name);
    if (action.kind == core::ObjectKind::kProvisioningRequest)
      world.node_requests.erase(action.name);
    return true;
  }
  bool operator()(const core::DeletePod& action) const {
    const auto found = world.pods.find(action.name);
    if (found == world.pods.end() || found->second.meta.uid != action.uid) return true;
    if (core::is_terminal(found->second)) {
      world.pods.erase(found);
    } else if (!found->second.meta.deletion_time) {
      found->second.meta.deletion_time =
          world.now + action.grace.value_or(std::chrono::seconds{found->second.grace_seconds});
      world.graces[action.name] = action.grace;
    }
    return true;
  }
  bool operator()(const core::DeleteOrphan&) const { return true; }
  bool operator()(const core::DeleteJob& action) const {
    if (action.uid != world.job.meta.uid) world.broken.push_back("deleted another job");
    world.is_job_gone = true;
    return true;
  }
  bool operator()(const core::EmitEvent& action) const {
    world.events.push_back(action.reason);
    return true;
  }
};

}  // namespace

void World::patch_status(const core::PatchStatus& patch) {
  const TrainingJobStatus before = job.status;
  job.status = patch.after;
  touch(job.meta);
  const std::int64_t generation = job.meta.generation;
  job = decode_training_job(encode_training_job(job)).value();
  job.meta.generation = generation;
  ++status_writes;
  status_written_at = now;
  if (!condition("Preempted").empty()) leave_why.clear();
  for (const api::PlacedPod& pod : job.status.placement.later)
    std::erase(gives_up, pod_name(job, job.status.attempt, pod.slot, pod.n));
  if (before.attempt > job.status.attempt) broken.push_back("status.attempt went back");
  if (before.restarts.counted > job.status.restarts.counted)
    broken.push_back("a restart was forgotten");
}

// The gang invariants, checked at every creation.
void World::check_pod_creation(const core::CreatePod& create) {
  if (create.attempt != job.status.attempt)
    broken.push_back("pod of an attempt that is not persisted");
  const bool is_recorded = group && std::ranges::any_of(group->spec.pods, [&](const auto& slot) {
                             return slot.name == create.name;
                           });
  if (!is_recorded) broken.push_back("pod without a persisted intent: " + create.name);
  for (const auto& [name, other] : pods) {
    const auto identity = core::parse_pod_name(job.meta.name, name);
    const bool is_there = !core::is_terminal(other) && !core::is_given_up(job, other, now);
    if (identity && identity->attempt < create.attempt && is_there) {
      broken.push_back(create.name + " was created beside " + name);
    }
  }
}

bool World::apply(const core::Action& action) {
  const Applier applier{*this, [this](const auto& patch) { patch_status(patch); },
                        [this](ObjectMeta& meta) { touch(meta); },
                        [this](const auto& create) { check_pod_creation(create); },
                        [this] { return "uid-" + std::to_string(++uid_); }};
  return std::visit(applier, action);
}

}  // namespace pawl::test
