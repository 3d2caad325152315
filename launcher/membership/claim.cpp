#include "launcher/membership/claim.h"

#include <algorithm>
#include <utility>

namespace pawl::membership {

bool Claim::is_open() const {
  if (!ctx_.record || ctx_.eligible_pod() == nullptr || ctx_.record->spec.is_stopping) return false;
  const api::WorkerGroupStatus& status = ctx_.record->status;
  return status.attempt < ctx_.id.attempt ||
         (status.attempt == ctx_.id.attempt && !status.leader.has_value());
}

void Claim::decide() {
  if (!is_open()) {
    claim_at_.reset();
    return;
  }
  if (!writer_.is_free()) return;
  if (!claim_at_) {
    const int order = std::clamp(ctx_.eligible_pod()->order, 0, 100);
    const int doublings = std::min(tries_, 6);
    const auto wait = (order + (tries_ > 0 ? 1 : 0)) * ctx_.timings.claim_step * (1 << doublings);
    claim_at_ = ctx_.now.steady + wait;
  }
  if (ctx_.now.steady < *claim_at_) return;
  claim_at_.reset();
  ++tries_;
  api::WorkerGroupStatus claim = ctx_.record->status;
  // What an earlier attempt's gang was and said of its end is not this one's.
  if (claim.attempt < ctx_.id.attempt) {
    claim.is_finished = false;
    claim.members.clear();
  }
  claim.attempt = ctx_.id.attempt;
  claim.term += 1;
  claim.leader = api::Leader{ctx_.id.self, ctx_.id.address, ctx_.id.fingerprint};
  ctx_.note("leadership_claimed", "term " + std::to_string(claim.term));
  writer_.write(std::move(claim));
}

}  // namespace pawl::membership
