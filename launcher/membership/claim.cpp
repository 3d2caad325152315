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

bool Claim::may_take_over() const {
  if (!ctx_.record || ctx_.eligible_pod() == nullptr) return false;
  const api::WorkerGroupStatus& status = ctx_.record->status;
  const bool is_member =
      std::ranges::find(status.members, ctx_.id.self, &api::Member::ref) != status.members.end();
  return ctx_.leader() != nullptr && !ctx_.is_leader() && is_member && !status.is_finished &&
         (status.generation > deposed_in_ || ctx_.find_pod(ctx_.leader()->ref.uid) == nullptr);
}

int Claim::turn() const {
  int before = 0;
  for (const api::Member& member : ctx_.record->status.members) {
    if (member.ref == ctx_.id.self) return before;
    if (member.ref != ctx_.leader()->ref) ++before;
  }
  return before;
}

void Claim::decide(const std::optional<SteadyPoint>& lost_since) {
  if (!lost_since) takeovers_ = 0;
  if (is_open()) return claim_first();
  claim_at_.reset();
  if (!lost_since || !may_take_over() || !writer_.is_free()) return;
  const auto wait = turn() * ctx_.timings.claim_step * (1 << std::min(takeovers_, 6));
  if (ctx_.now.steady < *lost_since + ctx_.timings.takeover_wait + wait) return;
  ++takeovers_;
  write_claim();
}

void Claim::stand(std::int64_t term) {
  if (may_take_over() && writer_.is_free() && ctx_.record->status.term == term) write_claim();
}

void Claim::claim_first() {
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
  write_claim();
}

void Claim::write_claim() {
  api::WorkerGroupStatus claim = ctx_.record->status;
  // What an earlier attempt's gang was and said of its end is not this one's.
  if (claim.attempt < ctx_.id.attempt) {
    claim.is_finished = false;
    claim.members.clear();
  }
  // Of a record that was lost, or that somebody has emptied, the job knows what was counted.
  raise(claim.tally.recoveries, ctx_.record->spec.before.recoveries);
  raise(claim.tally.time, ctx_.record->spec.before.time);
  claim.attempt = ctx_.id.attempt;
  claim.term += 1;
  claim.leader = api::Leader{ctx_.id.self, ctx_.id.address, ctx_.id.fingerprint};
  ctx_.note("leadership_claimed", "term " + std::to_string(claim.term));
  writer_.write(std::move(claim));
}

}  // namespace pawl::membership
