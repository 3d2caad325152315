// A gang that may be smaller than its target (spec.elastic): it goes on without those who are lost
// or leave as long as enough are left, and lets others in later (design §5, rule 15). Shrinking
// never waits; growth has hysteresis.
#include <algorithm>
#include <utility>

#include "common/base/mutant.h"
#include "launcher/membership/gang.h"

namespace pawl::membership {

// With it the gang was broken twice, and made no step.
bool Gang::is_unproven(const Joiner& joiner) const {
  return roster_.is_elastic() && joiner.is_new && joiner.parked && reforms_ > 2;
}

// To leave the others out.
bool Gang::is_enough() const {
  if (is_mutant(Mutant::kI35GangTooSmall)) return true;
  const std::size_t able = roster_.count_members([this](const Joiner& joiner) {
    return !joiner.is_lost && !joiner.is_leaving && !roster_.is_slow(joiner) &&
           !is_unproven(joiner);
  });
  return able >= roster_.least_members();
}

// Who was to come in may be gone again, or its place, when others have been left out. A gang that
// is to have more than it has goes on as it is meanwhile.
bool Gang::is_too_small() const {
  const std::size_t needed = std::min(roster_.least_members(), ctx_.record->status.members.size());
  return roster_.heard_members() < needed && !is_mutant(Mutant::kI35GangTooSmall);
}

bool Gang::may_go_on() const {
  return ctx_.record->spec.is_stopping || roster_.has_to_end() || !is_too_small();
}

// The first generation, after a time without those that cannot be had: soon without those that have
// no pod, where none is made any more.
bool Gang::may_begin_with(const std::map<int, PeerId>& by_slot) const {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  const std::size_t members = by_slot.size();
  if (has_enough_without_spares(by_slot)) return true;
  const std::chrono::seconds wait{spec.shortage_seconds};
  if (!roster_.is_elastic() || wait.count() == 0 || members < roster_.least_members()) return false;
  const auto pods = std::ranges::count_if(spec.pods, [&](const api::EligiblePod& pod) {
    return pod.slot < spec.target_members && !pod.uid.empty();
  });
  const bool are_all_there = std::cmp_greater_equal(members, pods) &&
                             ctx_.now.steady >= joined_at_ + ctx_.timings.next_pod_wait;
  return are_all_there || ctx_.now.steady >= gathers_since_ + wait;
}

// A launcher whose connection broke may be back in a moment. After a takeover all of them come one
// by one; when a single one is missing, it is the leader that was lost. Those who are more than we
// may have another leader by then (rule 8).
bool Gang::has_had_its_time(const Joiner& joiner) const {
  if (roster_.is_minority()) {
    const auto wait = ctx_.timings.takeover_wait + ctx_.timings.minority_wait;
    return ctx_.now.steady >= joiner.lost_since + wait;
  }
  const bool is_last = roster_.count_members(&Joiner::is_awaited) == 1 &&
                       joined_at_ >= joiner.lost_since &&
                       ctx_.now.steady >= joined_at_ + ctx_.timings.rejoin_wait;
  return is_last || ctx_.now.steady >= joiner.rejoin_by;
}

bool Gang::is_gone(const Joiner& joiner) const {
  return joiner.is_awaited() && has_had_its_time(joiner);
}

// It is there, and the others are better off without it.
bool Gang::is_idle(const Joiner& joiner) const {
  return joiner.is_released || roster_.is_slow(joiner) || is_unproven(joiner);
}

// The others hold what is needed, and are enough. Whoever was lost may come in again, or another
// pod in its place: the operator learns of the loss with the next generation.
void Gang::leave_out() {
  if (!roster_.is_elastic() || ctx_.record->spec.is_stopping || !is_enough() ||
      !roster_.is_start_known())
    return;
  const bool is_sure = !roster_.is_minority();
  for (const PeerId peer : std::vector(roster_.members)) {
    Joiner& joiner = roster_.joiners.at(peer);
    if (peer == kSelfPeer) continue;
    const bool may_go = is_idle(joiner) && !joiner.is_lost && roster_.is_dispensable(joiner, true);
    if (!is_gone(joiner) && !may_go) continue;
    const bool has_fallen_silent = is_gone(joiner) && !joiner.is_leaving && !joiner.has_left;
    if (has_fallen_silent && is_sure) flaps_.note(joiner.join.node, 1);
    if (may_go && is_unproven(joiner)) flaps_.note(joiner.join.node, 2);  // it is not back at once
    leave_out(peer);
  }
}

void Gang::leave_out(PeerId peer) {
  Joiner& joiner = roster_.joiners.at(peer);
  ctx_.note("member_left_out", joiner.join.pod + ", slot " + std::to_string(joiner.join.slot));
  proposal_.reset();  // was of more
  std::erase(roster_.members, peer);
  // Each member leaves once: such changes without a step between them have an end.
  if (!std::exchange(has_left_out_, true)) reforms_ = std::max(reforms_ - 1, 0);
  if (joiner.is_lost) {
    tell_silence(joiner, "not heard by the new leader");
    roster_.joiners.erase(peer);
    return;
  }
  wait_outside(joiner);
}

// Until it is let in again, unless it leaves.
void Gang::wait_outside(Joiner& joiner) {
  joiner.member_rank = -1;
  joiner.is_left_out = !joiner.is_released;
  joiner.parked.reset();
  joiner.prepared_at = ctx_.now.steady;
}

void Gang::tell_silence(Joiner& joiner, const std::string& why, const char* cause) {
  const bool is_replaced = ctx_.find_pod(joiner.join.self.uid) == nullptr;
  if (!roster_.is_wanted(joiner) || joiner.is_leaving || joiner.has_left) return;
  if (!std::exchange(joiner.is_told, true) && !is_replaced)
    remember(roster_.failure_of(joiner, {.cause = cause, .message = why}));
}

// Whoever was to come in, and is not heard any more: true if the record has to say so.
bool Gang::tell_strayed() {
  const std::size_t told = failures_.size();
  std::erase_if(strayed_, [this](Joiner& joiner) {
    if (ctx_.now.steady - joiner.lost_since < ctx_.timings.loss_told_wait) return false;
    if (ctx_.record->spec.has_successors)
      tell_silence(joiner, "lost the launcher of this pod before it was let in");
    return true;
  });
  return failures_.size() > told;
}

// ---- growth

// `found` are prepared, and `missing` more would make the gang whole. Each change costs all members
// a pause: those who come one by one wait for each other, unless the gang stands still anyway.
void Gang::choose_newcomers(std::vector<PeerId>& found, std::size_t missing) const {
  if (roster_.is_elastic() && !roster_.is_short())
    std::erase_if(found,
                  [this](PeerId peer) { return flaps_.is_held_back(roster_.joiners.at(peer)); });
  if (ctx_.record->spec.spares > 0) choose_spares(found, missing);
  if (found.size() >= missing) return;
  const std::chrono::seconds wait{ctx_.record->spec.stabilization_seconds};
  const bool has_waited = std::ranges::any_of(found, [&](PeerId peer) {
    return ctx_.now.steady >= roster_.joiners.at(peer).prepared_at + wait;
  });
  const bool may_come = roster_.is_elastic() && (stage_ == Stage::kReforming || has_waited);
  if (!may_come) found.clear();
}

}  // namespace pawl::membership
