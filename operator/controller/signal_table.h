// What nodes say before their machines go: a table of taints, conditions and annotations, as
// clouds, autoscalers and termination handlers set them. Data (charts/pawl/signals.json, and the
// chart's values), so that a cluster adds its own. Pure; immutable after parse(); any thread.
//
// A row is an object with one of
//   "taint": key      with "value" and "effect", where given, as they must be
//   "condition": type with the status True; with "reason" where given
//   "annotation": key with "value" where given
// and with "about" (words for status and events), "noticeSeconds" (from the taint's timeAdded, the
// condition's lastTransitionTime, or else from when it was seen; without: nobody knows how long).
// What knows better goes before: "deadlineAnnotation" (of the node, RFC 3339), and of a condition
// "deadlineInMessage" (true: its message has a date as in "Sat, 01 Aug 2026 05:41:02 GMT").
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/core/plan.h"

namespace pawl::controller {

class SignalTable {
 public:
  // A JSON array of rows. An error names the row and the field, and says what is expected.
  static Result<SignalTable> parse(const std::string& text);

  // Of the rows that match, the one with the earliest deadline; then the first.
  std::optional<core::NodeSignal> read(const nlohmann::json& node, TimePoint now) const;
  bool is_empty() const { return rows_.empty(); }

 private:
  enum class Mark { kTaint, kCondition, kAnnotation };
  struct Row {
    Mark mark = Mark::kTaint;
    std::string key, about;
    std::optional<std::string> value, effect, reason;
    std::optional<std::chrono::seconds> notice;
    std::string deadline_annotation;
    bool has_deadline_in_message = false;
  };
  static Result<Row> parse_row(const nlohmann::json& row);
  static std::optional<core::NodeSignal> match(const Row& row, const nlohmann::json& node,
                                               TimePoint now);
  std::vector<Row> rows_;
};

}  // namespace pawl::controller
