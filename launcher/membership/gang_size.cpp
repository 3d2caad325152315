// Who comes and who goes without a loss: members that are to go are left out when the others hold
// the state, those that are to come are let in when all of them are prepared (design §5, rule 15),
// and a leading launcher that has to go names its successor.
#include <algorithm>

#include "launcher/membership/gang.h"

namespace pawl::membership {

bool Gang::is_wanted(const Joiner& joiner) const {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  return spec.attempt != ctx_.id.attempt || joiner.join.slot < spec.target_members;
}

// Whoever is through sooner than a change would take is left alone.
bool Gang::is_almost_through() const {
  const auto& progress = progress_.value();
  if (has_trained_to_end()) return true;
  // Where another framework's program began is not known, and so is its pace.
  if (!ctx_.keeps_processes() || !progress || progress->total_steps <= 0) return false;
  const std::int64_t made = ledger_.confirmed() - next_.step;
  const auto left = static_cast<double>(progress->total_steps - ledger_.confirmed());
  const auto time = std::chrono::duration<double>(ctx_.now.steady - running_since_);
  return left * time < static_cast<double>(made) * ctx_.timings.change_worth_min;
}

bool Gang::has_started() const {
  if (ctx_.keeps_processes()) return ledger_.confirmed() > next_.step;
  return ctx_.now.steady - running_since_ >= ctx_.timings.foreign_started;
}

// Not before a step was made: a gang that is changed again and again would make none.
void Gang::reform_for_size() {
  if (stage_ != Stage::kRunning || is_reforming() || !has_started()) return;
  if (!ctx_.record->spec.has_successors || ctx_.record->spec.is_stopping) return;
  if (is_almost_through()) return;
  for (const PeerId peer : members_) {
    const Joiner& joiner = joiners_.at(peer);
    if (joiner.is_lost || peer == kSelfPeer) continue;
    if (joiner.is_leaving)
      return begin_reform(joiner.join.pod + " was told to terminate", Change::kWorkerLeft);
    if (!is_wanted(joiner) && !is_short()) {
      return begin_reform(
          "the gang is to have " + std::to_string(ctx_.record->spec.target_members) + " members",
          Change::kResized);
    }
  }
  const std::size_t count = newcomers().size();
  if (count > 0)
    begin_reform(std::to_string(count) + " members more are prepared", Change::kResized);
}

// Launchers in places that nobody has, whose processes only wait for their rank; once every one of
// them is there, if the gang cannot be smaller.
std::vector<PeerId> Gang::newcomers() const {
  std::vector<PeerId> found;
  std::size_t wanted = 0;
  for (const PeerId peer : members_) wanted += is_wanted(joiners_.at(peer)) ? 1 : 0;
  for (const auto& [peer, joiner] : joiners_) {
    const api::EligiblePod* pod = ctx_.find_pod(joiner.join.self.uid);
    const bool is_eligible = pod != nullptr && pod->slot == joiner.join.slot && is_wanted(joiner);
    const bool is_prepared = joiner.ready && !joiner.is_lost && !joiner.is_leaving &&
                             !joiner.is_released && !joiner.is_parted;
    if (joiner.member_rank >= 0 || !is_eligible || !is_prepared) continue;
    if (!has_place(joiner.join.slot)) found.push_back(peer);
  }
  const auto target = static_cast<std::size_t>(ctx_.record->spec.target_members);
  choose_newcomers(found, target - std::min(target, wanted));
  return found;
}

// Left out before, when another one held what they hold, who was lost since.
std::vector<PeerId> Gang::dropped() const {
  std::vector<PeerId> found;
  const auto& members = ctx_.record->status.members;
  const auto& base = ctx_.record->status.base_members;
  for (const auto& [peer, joiner] : joiners_) {
    const bool is_there = joiner.member_rank < 0 && !joiner.is_lost && !joiner.is_released &&
                          !joiner.is_parted && ctx_.find_pod(joiner.join.self.uid) != nullptr;
    const bool may_hold =
        std::ranges::find(members, joiner.join.self, &api::Member::ref) != members.end() ||
        std::ranges::find(base, joiner.join.self) != base.end();
    if (is_there && may_hold && !has_place(joiner.join.slot)) found.push_back(peer);
  }
  return found;
}

bool Gang::has_place(int slot) const {
  return std::ranges::any_of(members_,
                             [&](PeerId peer) { return joiners_.at(peer).join.slot == slot; });
}

void Gang::add_newcomers() {
  int rank = 0;  // of nobody else until the commit
  for (const PeerId peer : members_) rank = std::max(rank, joiners_.at(peer).member_rank + 1);
  for (const PeerId peer : is_start_known() ? newcomers() : dropped()) {
    Joiner& joiner = joiners_.at(peer);
    joiner.member_rank = rank++;
    joiner.is_newcomer = is_wanted(joiner);
    joiner.parked.reset();
    members_.push_back(peer);
    proposal_.reset();  // was of fewer
    ctx_.note("member_added", joiner.join.pod + ", slot " + std::to_string(joiner.join.slot));
    send(peer, Park{generation_});
  }
  std::ranges::sort(members_, {}, [this](PeerId peer) { return joiners_.at(peer).join.slot; });
}

// Those whose places are no more, when the others hold what they hold and are enough, and those who
// were to come and were lost before the commit: nothing is lost with them.
void Gang::drop_unwanted() {
  for (const PeerId peer : std::vector(members_)) {
    Joiner& joiner = joiners_.at(peer);
    if (peer == kSelfPeer) continue;  // it hands over first
    const bool is_unwanted = !is_wanted(joiner);
    const bool is_gone =
        joiner.is_lost && (joiner.is_newcomer || (is_unwanted && is_enough() && is_start_known()));
    const bool can_go = is_unwanted && !joiner.is_lost && joiner.parked && !is_short() &&
                        holds_state() && is_held_by_others(joiner, false);
    if (!is_gone && !can_go) continue;
    ctx_.note("member_dropped", joiner.join.pod + ", slot " + std::to_string(joiner.join.slot));
    std::erase(members_, peer);
    proposal_.reset();  // was of more
    joiner.member_rank = -1;
    if (!is_gone) continue;
    if (!is_unwanted && !joiner.is_leaving) strayed_.push_back(std::move(joiner));
    joiners_.erase(peer);
  }
}

// Without those who are not heard.
bool Gang::is_start_known() const { return start_by_reports().source != Source::kWait; }

// Else all have to stay: that none of them holds it is what makes the stored state the newest.
bool Gang::holds_state() const {
  const Source source = start_by_reports().source;
  return ctx_.keeps_processes() ? source == Source::kMemory : source != Source::kWait;
}

// Once the gang has made a step without them, and not before: then all others hold the state.
void Gang::release_unwanted() {
  const bool is_needed = ctx_.keeps_processes() && !has_started();
  if (stage_ != Stage::kRunning || is_reforming() || is_needed) return;
  const auto& members = ctx_.record->status.members;
  for (auto& [peer, joiner] : joiners_) {
    const bool is_free = joiner.member_rank < 0 && !joiner.is_lost && !joiner.is_released &&
                         ctx_.find_pod(joiner.join.self.uid) != nullptr &&
                         (!is_wanted(joiner) || joiner.is_leaving);
    if (!is_free ||
        std::ranges::find(members, joiner.join.self, &api::Member::ref) != members.end())
      continue;
    joiner.is_released = true;
    send(peer, StopGang{StopReason::kDrained, false, "the gang goes on without it"});
  }
}

// ---- the lead

bool Gang::has_to_go() const {
  const auto own = joiners_.find(kSelfPeer);
  return own != joiners_.end() && (own->second.is_leaving || !is_wanted(own->second));
}

bool Gang::has_to_end() const {
  const auto own = joiners_.find(kSelfPeer);
  return own != joiners_.end() && own->second.is_leaving && heir() == nullptr;
}

// The member of the lowest rank that may lead after this launcher: of the committed generation, and
// heard. One that is to go itself only where nobody else stays.
const Joiner* Gang::heir() const {
  if (!ctx_.record->spec.has_successors || has_trained_to_end()) return nullptr;
  const auto own = joiners_.find(kSelfPeer);
  const bool may_be_unwanted = own != joiners_.end() && own->second.is_leaving;
  const Joiner* unwanted = nullptr;
  for (const api::Member& member : ctx_.record->status.members) {
    for (const auto& [peer, joiner] : joiners_) {
      if (peer == kSelfPeer || joiner.join.self != member.ref || !may_lead(joiner)) continue;
      if (is_wanted(joiner)) return &joiner;
      if (unwanted == nullptr && may_be_unwanted) unwanted = &joiner;
    }
  }
  return unwanted;
}

bool Gang::may_lead(const Joiner& joiner) const {
  const bool is_there = joiner.member_rank >= 0 && !joiner.is_lost && !joiner.is_leaving &&
                        !joiner.is_released && !joiner.is_finished;
  return is_there && ctx_.find_pod(joiner.join.self.uid) != nullptr &&
         !joiner.join.fingerprint.empty();
}

// The generation stays. The heir finds itself in the record, and asks all for what they hold.
void Gang::hand_over() {
  if (!writer_.is_free() || !ctx_.is_leader() || is_publishing()) return;
  if (ctx_.record->spec.is_stopping || is_superseded() || has_later_gang()) return;
  if (!joiners_.at(kSelfPeer).is_leaving && is_almost_through()) return;
  const Joiner* next_leader = heir();
  if (next_leader == nullptr) return;
  const Join& join = next_leader->join;
  api::WorkerGroupStatus next = desired();
  next.term += 1;
  next.leader = api::Leader{join.self, join.address, join.fingerprint};
  ctx_.note("lead_handed_over", "to " + join.pod + ", term " + std::to_string(next.term));
  writer_.write(std::move(next));
}

}  // namespace pawl::membership
