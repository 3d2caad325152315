// The C++ twin of the CRD's schema and CEL rules: what the API server refuses, said the same way,
// for `pawl run` and `pawl validate`. A test feeds the same generated bad objects to both; verdict
// and field must agree. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/api/types.h"

namespace pawl::api {

struct FieldError {
  std::string field;    // "spec.replicas"
  std::string message;  // says what to change
  bool operator==(const FieldError&) const = default;
};

// `object` as the user wrote it: unknown fields, types, ranges, and the rules between fields. Empty
// = accepted.
std::vector<FieldError> validate_training_job(const nlohmann::json& object);
std::vector<FieldError> validate_worker_group(const nlohmann::json& object);
std::vector<FieldError> validate_training_queue(const nlohmann::json& object);
// The same of an object of which only the status was written: the rest stood there before.
std::vector<FieldError> validate_training_job_status(const nlohmann::json& object);
std::vector<FieldError> validate_worker_group_status(const nlohmann::json& object);
// The rules for a change of an object that is right by itself (check `after` with the functions
// above first): a frozen template, immutable fields, one-way terminal conditions, an attempt that
// never goes back.
std::vector<FieldError> validate_training_job_update(const nlohmann::json& before,
                                                     const nlohmann::json& after);
// WorkerGroup: attempt, term and generation only move forward; generation by exactly 1.
std::vector<FieldError> validate_worker_group_update(const nlohmann::json& before,
                                                     const nlohmann::json& after);

// "spec.replicas: must be between 1 and 2048; you wrote 0" joined by "; ".
std::string join_errors(const std::vector<FieldError>& errors);

}  // namespace pawl::api
