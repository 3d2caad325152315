// Objects and changes that the API server and common/api/validate.cpp must judge alike. Generated
// by walking full, right objects beside their schema and changing one thing at a time; the rules
// between fields are listed by hand.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"

namespace pawl::conformance {

enum class Write { kCreate, kPatch, kPatchStatus };

struct CrdCase {
  std::string name;      // what was changed
  std::string resource;  // "trainingjobs", "workergroups", "trainingqueues"
  Write write = Write::kCreate;
  nlohmann::json before;  // what stands on the server; null for kCreate
  nlohmann::json after;   // the object that the write leads to
  bool is_rule = false;   // a rule of CEL: the sentence must agree too
};

// Right by themselves: with every field of ours, and a pod template that uses most of Kubernetes'
// shapes.
nlohmann::json full_training_job();
nlohmann::json full_worker_group();
nlohmann::json full_training_queue();

// One change each of a field's type, range, length, presence or name.
std::vector<CrdCase> schema_cases();
// One case or more for each x-kubernetes-validations rule of crds/, accepted and refused.
std::vector<CrdCase> rule_cases();

}  // namespace pawl::conformance
