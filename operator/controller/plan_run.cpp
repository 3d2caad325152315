#include "operator/controller/plan_run.h"

#include <utility>

#include "common/base/check.h"

namespace pawl::controller {
namespace {

// Actions of one number may be under way together.
int wave_of(const core::Action& action) {
  if (const auto* child = std::get_if<core::CreateChild>(&action)) {
    // Beside its Role it would be answered 404 now and then, and all would be asked for again; and
    // who looks at a request looks at its template.
    const bool follows = child->kind == core::ObjectKind::kRoleBinding ||
                         child->kind == core::ObjectKind::kProvisioningRequest;
    return follows ? 0 : 1;
  }
  if (std::get_if<core::CreatePod>(&action) != nullptr) return 2;
  if (std::get_if<core::DeletePod>(&action) != nullptr) return 3;
  if (std::get_if<core::EmitEvent>(&action) != nullptr) return 4;
  return 0;  // alone
}

}  // namespace

PlanRun::PlanRun(JobKey key, core::Plan plan, ExchangeContext context, std::size_t wave_max)
    : key_(std::move(key)),
      plan_(std::move(plan)),
      context_(std::move(context)),
      wave_max_(wave_max) {}

bool PlanRun::may_start(std::size_t action) const {
  if (error_ || action >= plan_.actions.size()) return false;
  if (in_flight_.empty()) return true;
  const int wave = wave_of(plan_.actions[action]);
  const bool is_same_wave = wave != 0 && wave == wave_of(plan_.actions[in_flight_.begin()->first]);
  return is_same_wave && in_flight_.size() < wave_max_;
}

std::vector<PlanRun::Outgoing> PlanRun::take_requests() {
  while (may_start(next_)) {
    const std::size_t action = next_++;
    const auto [at, is_new] = in_flight_.try_emplace(action, plan_.actions[action], context_);
    PAWL_CHECK(is_new, "an action was begun twice");
    settle(action, at->second.begin());
  }
  return std::exchange(ready_, {});
}

void PlanRun::on_answer(std::size_t action, const Result<Reply>& answer) {
  const auto found = in_flight_.find(action);
  PAWL_CHECK(found != in_flight_.end(), "an answer to an action that is not under way");
  settle(action, found->second.on_answer(answer));
}

void PlanRun::settle(std::size_t action, Outcome outcome) {
  if (auto* again = std::get_if<Again>(&outcome)) {
    ready_.push_back({action, std::move(again->request)});
    return;
  }
  in_flight_.erase(action);
  if (auto* done = std::get_if<Done>(&outcome)) {
    ++done_;
    is_partial_ = is_partial_ || done->is_partial;
    if (done->written) written_.push_back(std::move(*done->written));
    if (std::get_if<core::PatchStatus>(&plan_.actions[action]) != nullptr) {
      has_written_status_ = true;
    }
    return;
  }
  auto& failed = std::get<Failed>(outcome);
  if (failed.seen) written_.push_back(std::move(*failed.seen));
  if (error_) return;
  const std::int64_t generation = context_.job ? context_.job->meta.generation : 0;
  error_ = RunError{plan_.actions[action], std::move(failed.error), failed.is_leftover, generation};
}

bool PlanRun::is_over() const {
  if (!in_flight_.empty() || !ready_.empty()) return false;
  return error_.has_value() || next_ == plan_.actions.size();
}

}  // namespace pawl::controller
