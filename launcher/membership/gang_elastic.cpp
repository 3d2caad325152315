// A gang that may be smaller than its target (spec.elastic): it goes on without those who are lost
// or leave as long as enough are left, and lets others in later (design §5, rule 15). Shrinking
// never waits; growth has hysteresis.
#include <algorithm>
#include <utility>

#include "common/base/mutant.h"
#include "launcher/membership/gang.h"

namespace pawl::membership {

std::size_t Gang::least_members() const {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  return static_cast<std::size_t>(
      std::max(is_elastic() ? spec.min_members : spec.target_members, 1));
}

bool Gang::is_elastic() const { return api::may_be_smaller(ctx_.record->spec); }

// Of those who are heard and stay.
bool Gang::is_short() const {
  const std::size_t staying = count_members([this](const Joiner& joiner) {
    return is_wanted(joiner) && !joiner.is_lost && !joiner.is_leaving;
  });
  return staying < least_members();
}

// A process that takes another's place may load libraries and data for long.
bool Gang::is_unready(const Joiner& joiner) const {
  return is_elastic() && !joiner.is_lost && joiner.parked && !joiner.ready;
}

bool Gang::are_members_ready() const {
  return count_members([this](const Joiner& joiner) { return is_unready(joiner); }) == 0;
}

bool Gang::is_slow(const Joiner& joiner) const {
  return is_unready(joiner) && ctx_.now.steady >= joiner.parked_at + ctx_.timings.ready_wait;
}

// With it the gang was broken twice, and made no step.
bool Gang::is_unproven(const Joiner& joiner) const {
  return is_elastic() && joiner.is_new && joiner.parked && reforms_ > 2;
}

// To leave the others out.
bool Gang::is_enough() const {
  if (is_mutant(Mutant::kI35GangTooSmall)) return true;
  const std::size_t able = count_members([this](const Joiner& joiner) {
    return !joiner.is_lost && !joiner.is_leaving && !is_slow(joiner) && !is_unproven(joiner);
  });
  return able >= least_members();
}

std::size_t Gang::heard_members() const {
  return count_members([](const Joiner& joiner) { return !joiner.is_lost; });
}

// Who was to come in may be gone again, or its place, when others have been left out. A gang that
// is to have more than it has goes on as it is meanwhile.
bool Gang::may_go_on() const {
  if (ctx_.record->spec.is_stopping || has_to_end()) return true;
  const std::size_t needed = std::min(least_members(), ctx_.record->status.members.size());
  return heard_members() >= needed || is_mutant(Mutant::kI35GangTooSmall);
}

bool Gang::is_minority() const { return 2 * heard_members() < ctx_.record->status.members.size(); }

// The first generation, after a time without those that cannot be had.
bool Gang::may_begin_with(std::size_t members) const {
  const std::chrono::seconds wait{ctx_.record->spec.shortage_seconds};
  return is_elastic() && wait.count() > 0 && members >= least_members() &&
         ctx_.now.steady >= gathers_since_ + wait;
}

// A launcher whose connection broke may be back in a moment. After a takeover all of them come one
// by one; when a single one is missing, it is the leader that was lost. Those who are more than we
// may have another leader by then (rule 8).
bool Gang::has_had_its_time(const Joiner& joiner) const {
  if (is_minority()) {
    const auto wait = ctx_.timings.takeover_wait + ctx_.timings.minority_wait;
    return ctx_.now.steady >= joiner.lost_since + wait;
  }
  const bool is_last = count_members(is_awaited) == 1 && joined_at_ >= joiner.lost_since &&
                       ctx_.now.steady >= joined_at_ + ctx_.timings.rejoin_wait;
  return is_last || ctx_.now.steady >= joiner.rejoin_by;
}

// The others hold what is needed, and are enough. Whoever was lost may come in again, or another
// pod in its place: the operator learns of the loss with the next generation.
void Gang::leave_out() {
  if (!is_elastic() || ctx_.record->spec.is_stopping || !is_enough() || !is_start_known()) return;
  const bool is_sure = !is_minority();
  for (const PeerId peer : std::vector(members_)) {
    Joiner& joiner = joiners_.at(peer);
    if (peer == kSelfPeer) continue;
    const bool is_gone = is_awaited(joiner) && has_had_its_time(joiner);
    const bool is_idle = joiner.is_released || is_slow(joiner) || is_unproven(joiner);
    const bool may_go = is_idle && !joiner.is_lost && joiner.parked && holds_state() &&
                        is_held_by_others(joiner, true);
    if (!is_gone && !may_go) continue;
    const bool has_fallen_silent = is_gone && !joiner.is_leaving && !joiner.has_left;
    if (has_fallen_silent && is_sure) note_flap(joiner.join.node, 1);
    if (may_go && is_unproven(joiner)) note_flap(joiner.join.node, 2);  // it is not back at once
    leave_out(peer);
  }
}

void Gang::leave_out(PeerId peer) {
  Joiner& joiner = joiners_.at(peer);
  ctx_.note("member_left_out", joiner.join.pod + ", slot " + std::to_string(joiner.join.slot));
  proposal_.reset();  // was of more
  std::erase(members_, peer);
  // Each member leaves once: such changes without a step between them have an end.
  if (!std::exchange(has_left_out_, true)) reforms_ = std::max(reforms_ - 1, 0);
  if (joiner.is_lost) {
    tell_silence(joiner, "not heard by the new leader");
    joiners_.erase(peer);
    return;
  }
  joiner.member_rank = -1;
  joiner.is_left_out = !joiner.is_released;
  joiner.parked.reset();
  joiner.prepared_at = ctx_.now.steady;
}

void Gang::tell_silence(Joiner& joiner, const std::string& why, const char* cause) {
  const bool is_replaced = ctx_.find_pod(joiner.join.self.uid) == nullptr;
  if (!is_wanted(joiner) || joiner.is_leaving || joiner.has_left) return;
  if (!std::exchange(joiner.is_told, true) && !is_replaced)
    remember(failure_of(joiner, {.cause = cause, .message = why}));
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

void Gang::note_flap(const std::string& node, int weight) {
  if (node.empty()) return;
  Flaps& flaps = flaps_[node];
  if (ctx_.now.steady - flaps.last > ctx_.timings.flap_memory) flaps.count = 0;
  flaps.count += weight;
  flaps.last = ctx_.now.steady;
}

// A node that takes its member away again and again waits twice as long each time.
bool Gang::is_held_back(const Joiner& joiner) const {
  constexpr int kDoublingsMax = 6;
  const auto flaps = flaps_.find(joiner.join.node);
  if (flaps == flaps_.end() || flaps->second.count < 2) return false;
  if (ctx_.now.steady - flaps->second.last > ctx_.timings.flap_memory) return false;
  const std::chrono::seconds wait{std::max(ctx_.record->spec.stabilization_seconds, 1)};
  return ctx_.now.steady <
         joiner.prepared_at + wait * (1 << std::min(flaps->second.count - 2, kDoublingsMax));
}

// `found` are prepared, and `missing` more would make the gang whole. Each change costs all members
// a pause: those who come one by one wait for each other, unless the gang stands still anyway.
void Gang::choose_newcomers(std::vector<PeerId>& found, std::size_t missing) const {
  if (is_elastic() && !is_short())
    std::erase_if(found, [this](PeerId peer) { return is_held_back(joiners_.at(peer)); });
  if (found.size() >= missing) return;
  const std::chrono::seconds wait{ctx_.record->spec.stabilization_seconds};
  const bool has_waited = std::ranges::any_of(
      found, [&](PeerId peer) { return ctx_.now.steady >= joiners_.at(peer).prepared_at + wait; });
  const bool may_come = is_elastic() && (stage_ == Stage::kReforming || has_waited);
  if (!may_come) found.clear();
}

}  // namespace pawl::membership
