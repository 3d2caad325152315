#include "operator/core/actions.h"

namespace pawl::core {
namespace {

struct Describe {
  std::string operator()(const ConfirmGone& action) const {
    return std::string("confirm that ") + kind_name(action.kind) + " " + action.name + " is gone";
  }
  std::string operator()(const ConfirmRecord&) const {
    return "confirm that the WorkerGroup is as seen";
  }
  std::string operator()(const PatchStatus&) const { return "patch TrainingJob status"; }
  std::string operator()(const CreateChild& action) const {
    return std::string("create ") + kind_name(action.kind);
  }
  std::string operator()(const CreateGroup&) const { return "create WorkerGroup"; }
  std::string operator()(const PatchGroup&) const { return "patch WorkerGroup"; }
  std::string operator()(const CreatePod& action) const { return "create Pod " + action.name; }
  std::string operator()(const DeletePod& action) const { return "delete Pod " + action.name; }
  std::string operator()(const DeleteChild& action) const {
    return std::string("delete ") + kind_name(action.kind) + " " + action.name;
  }
  std::string operator()(const DeleteOrphan& action) const {
    return std::string("delete orphaned ") + kind_name(action.kind) + " " + action.name;
  }
  std::string operator()(const DeleteJob&) const { return "delete TrainingJob"; }
  std::string operator()(const EmitEvent& action) const { return "emit event " + action.reason; }
};

}  // namespace

const char* kind_name(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kTrainingJob:
      return "TrainingJob";
    case ObjectKind::kWorkerGroup:
      return "WorkerGroup";
    case ObjectKind::kPod:
      return "Pod";
    case ObjectKind::kServiceAccount:
      return "ServiceAccount";
    case ObjectKind::kRole:
      return "Role";
    case ObjectKind::kRoleBinding:
      return "RoleBinding";
    case ObjectKind::kService:
      return "Service";
    case ObjectKind::kDisruptionBudget:
      return "PodDisruptionBudget";
    case ObjectKind::kPodGroup:
      return "PodGroup";
    case ObjectKind::kPodTemplate:
      return "PodTemplate";
    case ObjectKind::kProvisioningRequest:
      return "ProvisioningRequest";
  }
  return "object";
}

std::string describe(const Action& action) { return std::visit(Describe{}, action); }

bool is_creation(const Action& action) {
  return std::get_if<CreateChild>(&action) != nullptr ||
         std::get_if<CreateGroup>(&action) != nullptr || std::get_if<CreatePod>(&action) != nullptr;
}

}  // namespace pawl::core
