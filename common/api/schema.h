// A checker of values against the structural schemas of crds/, as the API server does it: unknown
// fields first, then types, required fields, ranges, lengths, patterns, enums and the keys of
// list-maps. The schemas are compiled in (schema_table.cpp). Knows nothing of CEL: those rules are
// functions in validate.cpp. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/api/validate.h"
#include "common/base/json.h"

namespace pawl::api {

extern const char* const kSchemaTable;

class Schema {
 public:
  explicit Schema(const char* kind);
  // The kinds that there are, built once.
  static const Schema& of_training_job();
  static const Schema& of_worker_group();
  static const Schema& of_training_queue();

  // Everything that is wrong with a whole object. Empty = accepted.
  std::vector<FieldError> check(const nlohmann::json& object) const;
  // The part of it that a write of the status can get wrong.
  std::vector<FieldError> check_status(const nlohmann::json& object) const;
  std::vector<FieldError> unknown_fields(const nlohmann::json& object) const;
  // What the API server does first, unless it is asked to be strict: drops unknown fields.
  void prune(nlohmann::json& object) const;
  // Puts in the defaults, and drops every null that means "not set".
  void fill_in(nlohmann::json& object) const;
  // The schema with every reference expanded, for the test that compares it with crds/.
  nlohmann::json expanded() const;

 private:
  using Errors = std::vector<FieldError>;

  const nlohmann::json& resolve(const nlohmann::json& node) const;
  nlohmann::json expand(const nlohmann::json& node) const;
  nlohmann::json without_nulls(const nlohmann::json& node, nlohmann::json value) const;
  static bool is_metadata_field(std::string_view name);
  void prune_value(const nlohmann::json& reference, nlohmann::json& value, bool is_root) const;
  void fill_in_value(const nlohmann::json& reference, nlohmann::json& value, bool is_root) const;
  void check_unknown(const nlohmann::json& node, const nlohmann::json& value,
                     const std::string& path, Errors& errors) const;
  void check_value(const nlohmann::json& node, const nlohmann::json& value, const std::string& path,
                   Errors& errors) const;
  void check_object(const nlohmann::json& node, const nlohmann::json& value,
                    const std::string& path, Errors& errors) const;
  void check_list(const nlohmann::json& node, const nlohmann::json& value, const std::string& path,
                  Errors& errors) const;

  nlohmann::json table_;
  std::string kind_;
};

}  // namespace pawl::api
