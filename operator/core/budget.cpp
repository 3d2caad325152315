// How many pods of a gang a drain has to leave at one time: its PodDisruptionBudget.
#include <algorithm>
#include <utility>

#include "operator/core/steps.h"

namespace pawl::core {

using namespace api;

bool is_budget_refused(const Pass& pass) {
  const std::optional<Refusal>& refusal = pass.seen.refusal;
  return refusal && refusal->action == describe(CreateChild{ObjectKind::kDisruptionBudget});
}

namespace {

// How many pods a drain has to leave. A gang whose members get successors can do without one of
// several.
int least_of(const WorkerGroupSpec& spec) {
  if (!spec.has_successors) return 0;
  return std::min(spec.min_members, most_members(spec) - 1);
}

}  // namespace

// Before Running is written, so that no crash leaves a running gang without. Not earlier: the
// disruption controller writes to a budget with each pod that becomes ready.
void add_disruption_budget(Pass& pass) {
  if (is_budget_refused(pass)) {
    pass.emit(true, "NoDisruptionBudget",
              pass.seen.refusal->action + " was refused: " + pass.seen.refusal->message +
                  "; the job runs without one, and a drain may evict all its workers at once");
  } else {
    pass.confirms.emplace_back(CreateChild{ObjectKind::kDisruptionBudget,
                                           pass.group != nullptr ? least_of(pass.group->spec) : 0});
  }
}

// Before the record, so that after a crash between the two both are asked for again; an edit that
// is taken back just then leaves the budget's number until the next attempt.
void change_group(Pass& pass, WorkerGroupSpec after) {
  const WorkerGroupSpec& before = pass.group->spec;
  const CreateChild budget{ObjectKind::kDisruptionBudget, least_of(after)};
  const bool has_budget = is_true(pass.next, condition::kRunning) || has_replaced(pass);
  if (has_budget && !is_budget_refused(pass) && least_of(before) != budget.least)
    pass.acts.emplace_back(budget);
  const ObjectMeta& meta = pass.group->meta;
  pass.acts.push_back(PatchGroup{meta.uid, meta.resource_version, before, std::move(after)});
}

}  // namespace pawl::core
