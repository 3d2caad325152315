// What the leader has heard of failures, in order, for the record to tell of. Pure; owned by Gang.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/api/types.h"

namespace pawl::membership {

class FailureLog {
 public:
  // `generation`: in which it happened.
  void add(api::Failure failure, std::int64_t generation);
  std::size_t size() const { return failures_.size(); }
  // Of generations before this one what the record tells.
  void forget_told(std::int64_t generation, const std::vector<api::Failure>& told);
  // Of a pod that was heard again before the record told of it.
  void forget_silence(const std::string& pod_uid);
  void forget_victims(std::int64_t generation);

  // In this generation; what the gang has outlived is no cause of its end.
  bool has_failed(std::int64_t generation) const;
  bool has_culprit(std::int64_t generation) const;

  // Ends of other frameworks' programs, by codes of their own, since the gang was broken: no
  // failures where something else was lost that explains them.
  const std::vector<api::Failure>& program_ends() const { return program_ends_; }
  void add_program_end(const api::Failure& failure);
  void forget_program_ends() { program_ends_.clear(); }
  void blame_programs(std::int64_t generation);

  // Adds to what `told` has, without what `is_wrong`.
  void tell(std::vector<api::Failure>& told, bool with_victims,
            const std::function<bool(const api::Failure&)>& is_wrong) const;

 private:
  std::vector<api::Failure> failures_, program_ends_;
};

}  // namespace pawl::membership
