// What the loop does about a plan that was stopped: when it plans again, and what users are told.
#include <algorithm>

#include "common/base/mutant.h"
#include "operator/controller/loop.h"

namespace pawl::controller {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::minutes kStarvedMax{10};

}  // namespace

void ControllerLoop::on_error(const JobKey& key, Keyed& keyed, const PlanRun::RunError& error) {
  const Code code = error.error.code;
  metrics_.count_error(code);
  log_.warning("plan_stopped", {{"namespace", key.ns},
                                {"job", key.name},
                                {"action", core::describe(error.action)},
                                {"code", code_name(code)},
                                {"message", error.error.message}});
  switch (code) {
    case Code::kConflict:
    case Code::kNotFound:
    case Code::kGone:
      return hold_back(key, keyed, milliseconds{20}, milliseconds{2'000}, error.error);
    case Code::kOutcomeUnknown:
      return hold_back(key, keyed, milliseconds{200}, milliseconds{30'000}, error.error);
    case Code::kInvalid:
    case Code::kForbidden:
    case Code::kAlreadyExists:
      return refuse(key, keyed, error);
    default:
      return hold_back(key, keyed, milliseconds{500}, milliseconds{30'000}, error.error);
  }
}

// What is not kept would be written again at once, and again. The job goes on, slowly.
void ControllerLoop::on_partial(const JobKey& key, Keyed& keyed) {
  metrics_.count_error(Code::kInvalid);
  log_.warning("status_pruned",
               {{"namespace", key.ns},
                {"job", key.name},
                {"message",
                 "the API server keeps a part of the status only: its definition of TrainingJob is "
                 "older than this operator; apply the crds/ of this release"}});
  hold_back(key, keyed, milliseconds{5'000}, milliseconds{60'000}, {});
}

// Doubles with each error in a row; up to a fifth of jitter keeps many jobs from coming back
// together.
void ControllerLoop::hold_back(const JobKey& key, Keyed& keyed, milliseconds first,
                               milliseconds most, const Error& error) {
  milliseconds wait = first;
  const milliseconds limit = is_mutant(Mutant::kB20ConflictStarves) ? kStarvedMax : most;
  for (int i = 0; i < keyed.errors && wait < limit; ++i) wait *= 2;
  if (!is_mutant(Mutant::kB20ConflictStarves)) wait = std::min(wait, most);
  wait += milliseconds{random_.below(static_cast<std::uint64_t>(wait.count()) / 5 + 1)};
  wait = std::max(wait, error.retry_after.value_or(milliseconds{0}));
  ++keyed.errors;
  keyed.not_before = clock_.steady_now() + wait;
  wake_at(key, keyed.not_before);
}

// The API server refused to create something. The next plan tells the user (status and event) and
// tries again later; where it is another write that was refused, the whole job waits.
void ControllerLoop::refuse(const JobKey& key, Keyed& keyed, const PlanRun::RunError& error) {
  if (!core::is_creation(error.action)) {
    return hold_back(key, keyed, milliseconds{5'000}, milliseconds{300'000}, error.error);
  }
  milliseconds wait = error.is_leftover ? milliseconds{500} : milliseconds{5'000};
  for (int i = 0; i < keyed.refusals && wait < milliseconds{60'000}; ++i) wait *= 2;
  ++keyed.refusals;
  const Code code = error.error.code;
  const char* reason = code == Code::kInvalid     ? "Rejected"
                       : code == Code::kForbidden ? "Forbidden"
                                                  : "NameConflict";
  keyed.refusal = core::Refusal{core::describe(error.action),
                                error.error.message,
                                error.is_leftover,
                                reason,
                                clock_.now() + std::min(wait, milliseconds{60'000}),
                                error.generation};
}

}  // namespace pawl::controller
