#include "operator/controller/exchange.h"

#include <algorithm>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/mutant.h"
#include "operator/core/plan.h"
#include "operator/core/pods.h"

namespace pawl::controller {
namespace {

using core::ObjectKind;
using nlohmann::json;

constexpr int kRereadsMax = 5;

bool is_code(const Result<Reply>& answer, Code code) {
  return !answer && answer.error().code == code;
}

// Is the pod among those that our watch selects and our plans take for the job's?
bool is_manageable(const api::ObjectMeta& pod, const ExchangeContext& context) {
  const auto label = pod.labels.find(api::kLabelManagedBy);
  return label != pod.labels.end() && label->second == api::kManagedBy &&
         core::is_owned_by(pod, context.job->meta.uid);
}

Done wrote(Kind kind, const api::ObjectMeta& meta) {
  return {Written{kind, meta.resource_version, ""}};
}

}  // namespace

Outcome Exchange::send(kube::HttpRequest request, Stage stage) {
  request_ = std::move(request);
  stage_ = stage;
  return Again{request_};
}

Outcome Exchange::begin() {
  Result<kube::HttpRequest> request = first_request(action_, context_);
  if (!request) return Failed{request.error()};
  return send(std::move(*request), Stage::kFirst);
}

Outcome Exchange::on_answer(const Result<Reply>& answer) {
  if (std::get_if<core::EmitEvent>(&action_) != nullptr) return Done{};
  if (stage_ == Stage::kRestore) {
    if (!answer) return Failed{answer.error()};
    return Failed{{Code::kConflict, "pod " + answer->meta.name + " had lost our label or owner"}};
  }
  if (const auto* action = std::get_if<core::ConfirmGone>(&action_)) {
    return on_confirmed(answer, *action);
  }
  if (const auto* action = std::get_if<core::ConfirmRecord>(&action_)) {
    return on_record(answer, *action);
  }
  if (const auto* action = std::get_if<core::DeleteOrphan>(&action_)) {
    return on_orphan(answer, *action);
  }
  if (const auto* action = std::get_if<core::DeleteChild>(&action_)) {
    return on_old_child(answer, *action);
  }
  if (const auto* action = std::get_if<core::DeletePod>(&action_)) {
    return on_deleted(answer, action->uid);
  }
  if (const auto* action = std::get_if<core::DeleteJob>(&action_)) {
    if (auto next = after_conflict(answer)) return std::move(*next);
    return on_deleted(answer, action->uid);
  }
  if (stage_ == Stage::kVerify) return on_existing(answer);
  if (stage_ == Stage::kDelete) {
    return Failed{{Code::kConflict, "an orphan of a deleted job was in the way, and goes"}};
  }
  if (stage_ == Stage::kChange) {
    if (!answer) return Failed{answer.error()};
    return Done{};
  }
  if (const auto* action = std::get_if<core::CreateChild>(&action_)) {
    return on_created(answer, std::nullopt, action->kind, name_of_child(*action));
  }
  if (std::get_if<core::CreateGroup>(&action_) != nullptr) {
    return on_created(answer, Kind::kGroup, ObjectKind::kWorkerGroup, context_.job_name);
  }
  if (const auto* action = std::get_if<core::CreatePod>(&action_)) {
    return on_created(answer, Kind::kPod, ObjectKind::kPod, action->name);
  }
  if (const auto* action = std::get_if<core::PatchStatus>(&action_)) {
    if (auto next = after_conflict(answer)) return std::move(*next);
    if (stage_ == Stage::kLearn || is_code(answer, Code::kOutcomeUnknown)) {
      return learn(answer, Kind::kJob);
    }
    return on_status(answer, *action);
  }
  const bool is_behind = is_code(answer, Code::kConflict) || is_code(answer, Code::kOutcomeUnknown);
  if (stage_ == Stage::kLearn || is_behind) return learn(answer, Kind::kGroup);
  if (!answer) return Failed{answer.error()};
  return wrote(Kind::kGroup, answer->meta);
}

// A write that may have been applied, or came too late: the object is read, only to know how far
// our view has to come. Decided again on what it shows till then, a pod could be made anew whose
// UID stands in the record.
Outcome Exchange::learn(const Result<Reply>& answer, Kind kind) {
  if (stage_ == Stage::kLearn) {
    Failed failed{lost_};
    if (answer) failed.seen = Written{kind, answer->meta.resource_version, ""};
    return failed;
  }
  lost_ = answer.error();
  const ObjectKind object =
      kind == Kind::kJob ? ObjectKind::kTrainingJob : ObjectKind::kWorkerGroup;
  return send(kube::get_request(resource_of(object), context_.ns, context_.job_name),
              Stage::kLearn);
}

// Is the job that was read the one that was planned for, whatever else somebody wrote to it?
bool Exchange::is_as_planned(const Reply& now) const {
  const api::TrainingJob& seen = *context_.job;
  return now.meta.uid == seen.meta.uid && now.meta.generation == seen.meta.generation &&
         now.meta.deletion_time == seen.meta.deletion_time && now.job_status == seen.status;
}

// Somebody who touches the job all the time, and nothing that the plan looked at, must not keep a
// write from taking effect however late our view is: after a conflict the job itself is read, and
// the same is asked of that. Nothing: the answer is not about a conflict.
std::optional<Outcome> Exchange::after_conflict(const Result<Reply>& answer) {
  if (stage_ == Stage::kReread) {
    if (!answer) return Failed{answer.error()};
    if (!is_as_planned(*answer)) {
      return Failed{{Code::kConflict, "the job has changed since it was seen"},
                    false,
                    Written{Kind::kJob, answer->meta.resource_version, ""}};
    }
    const std::string& version = answer->meta.resource_version;
    if (const auto* patch = std::get_if<core::PatchStatus>(&action_)) {
      return send(patch_status(context_, *patch, version), Stage::kFirst);
    }
    return send(delete_job(context_, answer->meta.uid, version), Stage::kFirst);
  }
  if (!is_code(answer, Code::kConflict) || rereads_ == kRereadsMax) return std::nullopt;
  if (is_mutant(Mutant::kB20ConflictStarves)) return std::nullopt;
  ++rereads_;
  return send(
      kube::get_request(resource_of(ObjectKind::kTrainingJob), context_.ns, context_.job_name),
      Stage::kReread);
}

Outcome Exchange::on_status(const Result<Reply>& answer, const core::PatchStatus& action) {
  if (!answer) return Failed{answer.error()};
  Done done = wrote(Kind::kJob, answer->meta);
  done.is_partial = answer->job_status && !is_mutant(Mutant::kB19PrunedUnnoticed) &&
                    api::encode_status(*answer->job_status) != api::encode_status(action.after);
  return done;
}

Outcome Exchange::on_created(const Result<Reply>& answer, std::optional<Kind> watched,
                             ObjectKind kind, const std::string& name) {
  if (answer) return watched ? wrote(*watched, answer->meta) : Done{};
  if (!is_code(answer, Code::kAlreadyExists) || is_mutant(Mutant::kB14AppliedIsFailed)) {
    return Failed{answer.error()};
  }
  return send(kube::get_request(resource_of(kind), context_.ns, name), Stage::kVerify);
}

// A child without an owner, of a job that had our job's name and is gone (names are unique): nobody
// else would take it away, because without a WorkerGroup nothing else tells of it.
bool Exchange::is_orphan_in_the_way(const api::ObjectMeta& found) const {
  return std::get_if<core::CreateChild>(&action_) != nullptr &&
         core::is_orphan(found, context_.job->meta.uid);
}

std::string Exchange::name_of_child(const core::CreateChild& action) const {
  if (action.kind == ObjectKind::kService) return context_.job_name;  // part of host names
  if (action.kind == ObjectKind::kPodGroup)
    return api::pod_group_name(*context_.job, action.attempt);
  if (!action.name.empty()) return action.name;
  return api::child_name(*context_.job);
}

core::ObjectKind Exchange::kind_of_child() const {
  return std::get<core::CreateChild>(action_).kind;
}

// What exists where ours was to be made: ours already (a repeated creation), or somebody else's.
Outcome Exchange::on_existing(const Result<Reply>& answer) {
  if (is_code(answer, Code::kNotFound)) {
    return Failed{{Code::kConflict, "an object of that name has just gone"}};
  }
  if (!answer) return Failed{answer.error()};
  if (!core::is_owned_by(answer->meta, context_.job->meta.uid)) {
    const auto label = answer->meta.labels.find(api::kLabelJobUid);
    const bool has_dead_owner =
        std::ranges::any_of(answer->meta.owners, [&](const api::OwnerReference& owner) {
          return owner.kind == "TrainingJob" && owner.name == context_.job_name;
        });
    const bool is_leftover = has_dead_owner || label != answer->meta.labels.end();
    if (is_orphan_in_the_way(answer->meta)) {
      return send(kube::delete_request(resource_of(kind_of_child()), context_.ns, answer->meta.name,
                                       {.uid = answer->meta.uid}),
                  Stage::kDelete);
    }
    const char* const whose = is_leftover ? " (left of a deleted job)" : "";
    return Failed{
        {Code::kAlreadyExists, answer->meta.name + " exists and belongs to somebody else" + whose},
        is_leftover};
  }
  // A group stays until its pods have gone, and serves them until then.
  const auto* child = std::get_if<core::CreateChild>(&action_);
  const bool is_pod_group = child != nullptr && child->kind == ObjectKind::kPodGroup;
  if (answer->meta.deletion_time && !is_pod_group) {
    return Failed{{Code::kConflict, answer->meta.name + " is being deleted"}};
  }
  if (std::get_if<core::CreateGroup>(&action_) != nullptr) {
    // Its contents may be of another attempt: decide again when the cache has it.
    return Failed{{Code::kConflict, "the WorkerGroup exists already"}};
  }
  if (std::get_if<core::CreatePod>(&action_) != nullptr) {
    return is_manageable(answer->meta, context_) ? Outcome{wrote(Kind::kPod, answer->meta)}
                                                 : restore(answer->meta);
  }
  if (child == nullptr) return Done{};
  const bool is_budget = child->kind == ObjectKind::kDisruptionBudget;
  if (is_budget && answer->least != api::min_available_of(child->least))
    return send(change_budget(context_, *child, answer->meta), Stage::kChange);
  if (is_pod_group && answer->least != child->least)
    return send(change_pod_group(context_, *child, answer->meta), Stage::kChange);
  return Done{};
}

// The name is of an attempt, or of a request for nodes, that is over: nobody makes another one of
// it.
Outcome Exchange::on_old_child(const Result<Reply>& answer, const core::DeleteChild& action) {
  if (is_code(answer, Code::kNotFound) || is_code(answer, Code::kForbidden)) return Done{};
  if (!answer) return Failed{answer.error()};
  if (stage_ == Stage::kDelete) return Done{};
  const bool is_ours = core::is_owned_by(answer->meta, context_.job->meta.uid);
  if (!is_ours || answer->meta.deletion_time) return Done{};
  return send(kube::delete_request(resource_of(action.kind), context_.ns, action.name,
                                   {.uid = answer->meta.uid}),
              Stage::kDelete);
}

Outcome Exchange::on_deleted(const Result<Reply>& answer, const std::string& uid) {
  if (answer || is_code(answer, Code::kNotFound)) return Done{Written{Kind::kPod, "", uid}};
  return Failed{answer.error()};
}

Outcome Exchange::on_orphan(const Result<Reply>& answer, const core::DeleteOrphan& action) {
  if (stage_ == Stage::kDelete) return on_deleted(answer, read_uid_);
  // What our view still shows is looked at again when the view shows what was read.
  const bool is_in_view = !action.uid.empty();
  const bool is_gone =
      is_code(answer, Code::kNotFound) || (answer && answer->meta.uid != action.uid);
  if (is_in_view && is_gone) return Done{Written{Kind::kGroup, "", action.uid}};
  // Groups that are no longer asked for are no longer ours to read; that must not keep the rest.
  const bool may_not = action.kind == ObjectKind::kPodGroup && is_code(answer, Code::kForbidden);
  if (is_code(answer, Code::kNotFound) || may_not) return Done{};
  if (!answer) return Failed{answer.error()};
  const api::ObjectMeta& meta = answer->meta;
  const auto label = meta.labels.find(api::kLabelJobUid);
  const bool is_orphan =
      label != meta.labels.end() && label->second == action.job_uid && meta.owners.empty();
  if (!is_orphan) return is_in_view ? Outcome{wrote(Kind::kGroup, meta)} : Outcome{Done{}};
  read_uid_ = meta.uid;
  return send(kube::delete_request(resource_of(action.kind), context_.ns, action.name,
                                   {.uid = meta.uid, .resource_version = meta.resource_version}),
              Stage::kDelete);
}

Outcome Exchange::on_confirmed(const Result<Reply>& answer, const core::ConfirmGone& action) {
  if (is_code(answer, Code::kNotFound) || is_mutant(Mutant::kI7LossUnconfirmed)) return Done{};
  if (!answer) return Failed{answer.error()};
  if (!action.uid.empty() && answer->meta.uid != action.uid) return Done{};
  const bool is_ours = action.kind == ObjectKind::kPod && !action.uid.empty();
  if (is_ours && !is_manageable(answer->meta, context_)) return restore(answer->meta);
  return Failed{{Code::kConflict, std::string(core::kind_name(action.kind)) + " " + action.name +
                                      " is still there; the cache was behind"}};
}

Outcome Exchange::on_record(const Result<Reply>& answer, const core::ConfirmRecord& action) const {
  if (answer && answer->meta.resource_version == action.resource_version) return Done{};
  if (!answer && answer.error().code != Code::kNotFound) return Failed{answer.error()};
  return Failed{{Code::kConflict, "the WorkerGroup has changed; the cache was behind"}};
}

// A member of the gang whose label or owner somebody took away is out of our view, alive or not:
// give it back what it was made with.
Outcome Exchange::restore(const api::ObjectMeta& pod) {
  const json patch = {
      {"metadata",
       {{"uid", pod.uid},
        {"resourceVersion", pod.resource_version},
        {"labels", {{api::kLabelManagedBy, api::kManagedBy}}},
        {"ownerReferences", json::array({api::owner_reference_of(*context_.job)})}}}};
  return send(
      kube::merge_patch_request(resource_of(ObjectKind::kPod), context_.ns, pod.name, patch),
      Stage::kRestore);
}

}  // namespace pawl::controller
