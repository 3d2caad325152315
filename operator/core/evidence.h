// What pods, their termination messages and the gang's report say of lost members: one Evidence
// each, of which failures.cpp finds the culprit. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/core/failures.h"

namespace pawl::core {

struct Evidence {
  LossKind kind = LossKind::kFault;
  bool is_victim = false;
  api::Failure failure;
  std::vector<ConfirmGone> confirms;
  std::optional<TimePoint> leaves_by;  // until then its containers may still run
  int slot = -1;                       // -1: of no pod that is lost
  bool is_silence = false;             // its pod looks well
  bool is_left_out = false;            // its gang goes on without it, whoever fails beside it
  bool has_last_words = false;         // its launcher has left by itself, and says why
  bool is_drained = false;             // through the eviction API
  bool was_told_by_cloud = false;      // … which is that its machine goes, or is broken
};

// Of the current attempt's pods and places. Nothing of those that are well, or have succeeded.
std::vector<Evidence> collect(const Pass& pass);

// The gang's own report: the leader heard the failures in order. `is_ending`: a launcher has left
// its last words, so that nothing is being outlived any more.
std::optional<Evidence> read_report(const Pass& pass, bool is_ending);

// Of the first process of this pod in the newest generation; -1: it is no member.
int rank_of(const Pass& pass, const std::string& uid);

}  // namespace pawl::core
