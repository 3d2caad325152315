// Who comes and who goes without a loss: members that are to go are left out when the others hold
// the state, those that are to come are let in when all of them are prepared (design §5, rule 15),
// and a leading launcher that has to go names its successor.
#include <algorithm>

#include "launcher/membership/gang.h"

namespace pawl::membership {

// Whoever is through sooner than a change would take is left alone.
bool Gang::is_almost_through() const {
  const auto& progress = progress_.value();
  if (roster_.has_trained_to_end()) return true;
  // Where another framework's program began is not known, and so is its pace.
  if (!ctx_.keeps_processes() || !progress || progress->total_steps <= 0) return false;
  const std::int64_t made = saves_.confirmed() - next_.step;
  const auto left = static_cast<double>(progress->total_steps - saves_.confirmed());
  const auto time = std::chrono::duration<double>(ctx_.now.steady - running_since_);
  return left * time < static_cast<double>(made) * ctx_.timings.change_worth_min;
}

bool Gang::has_started() const {
  if (ctx_.keeps_processes()) return saves_.confirmed() > next_.step;
  return ctx_.now.steady - running_since_ >= ctx_.timings.foreign_started;
}

bool Gang::save_before_change() {
  if (!save_first_.is_needed()) return true;
  if (save_first_.begin()) broadcast(AskCheckpoint{});
  return save_first_.is_over();
}

// Not before a step was made: a gang that is changed again and again would make none.
void Gang::reform_for_size() {
  if (stage_ != Stage::kRunning || is_reforming() || !has_started()) return;
  if (!ctx_.record->spec.has_successors || ctx_.record->spec.is_stopping) return;
  if (is_almost_through()) return;
  const auto change = change_of_size();
  if (change && save_before_change()) return begin_reform(change->first, change->second);
  if (!change && !roster_.has_to_go()) save_first_.forget();
}

// Why the gang is to be another one, if it is.
std::optional<std::pair<std::string, Change>> Gang::change_of_size() const {
  for (const PeerId peer : roster_.members) {
    const Joiner& joiner = roster_.joiners.at(peer);
    if (joiner.is_lost || peer == kSelfPeer) continue;
    if (joiner.is_leaving)
      return std::pair{joiner.join.pod + " was told to terminate", Change::kWorkerLeft};
    if (!roster_.is_wanted(joiner) && !roster_.is_short()) {
      return std::pair{"the gang is to have " +
                           std::to_string(api::most_members(ctx_.record->spec)) + " members",
                       Change::kResized};
    }
  }
  if (has_surplus())
    return std::pair<std::string, Change>{"the gang has more members than it is to have",
                                          Change::kResized};
  const std::size_t count = newcomers().size();
  if (count == 0) return std::nullopt;
  return std::pair{std::to_string(count) + " members more are prepared", Change::kResized};
}

// Launchers in places that nobody has, whose processes only wait for their rank; once every one of
// them is there, if the gang cannot be smaller.
std::vector<PeerId> Gang::newcomers() const {
  std::vector<PeerId> found;
  const std::size_t wanted =
      ctx_.record->spec.spares > 0
          ? staying_members()
          : roster_.count_members([this](const Joiner& one) { return roster_.is_wanted(one); });
  for (const auto& [peer, joiner] : roster_.joiners) {
    const api::EligiblePod* pod = ctx_.find_pod(joiner.join.self.uid);
    const bool is_eligible =
        pod != nullptr && pod->slot == joiner.join.slot && roster_.is_wanted(joiner);
    const bool is_prepared = joiner.ready && !joiner.is_lost && !joiner.is_leaving &&
                             !joiner.is_released && !joiner.is_parted;
    if (joiner.member_rank >= 0 || !is_eligible || !is_prepared) continue;
    if (!roster_.has_place(joiner.join.slot)) found.push_back(peer);
  }
  const auto target = static_cast<std::size_t>(api::most_members(ctx_.record->spec));
  choose_newcomers(found, target - std::min(target, wanted));
  return found;
}

void Gang::add_newcomers() {
  int rank = 0;  // of nobody else until the commit
  for (const PeerId peer : roster_.members)
    rank = std::max(rank, roster_.joiners.at(peer).member_rank + 1);
  for (const PeerId peer : roster_.is_start_known() ? newcomers() : roster_.dropped()) {
    Joiner& joiner = roster_.joiners.at(peer);
    joiner.member_rank = rank++;
    joiner.is_newcomer = roster_.is_wanted(joiner);
    joiner.parked.reset();
    roster_.members.push_back(peer);
    proposal_.reset();  // was of fewer
    ctx_.note("member_added", joiner.join.pod + ", slot " + std::to_string(joiner.join.slot));
    send(peer, Park{roster_.generation});
  }
}

// Those whose places are no more, when the others hold what they hold and are enough, and those who
// were to come and were lost before the commit: nothing is lost with them.
void Gang::drop_unwanted() {
  for (const PeerId peer : std::vector(roster_.members)) {
    Joiner& joiner = roster_.joiners.at(peer);
    if (peer == kSelfPeer) continue;  // it hands over first
    const bool is_unwanted = !roster_.is_wanted(joiner);
    const bool is_gone =
        joiner.is_lost &&
        (joiner.is_newcomer || (is_unwanted && is_enough() && roster_.is_start_known()));
    const bool can_go = is_unwanted && !joiner.is_lost && !roster_.is_short() &&
                        roster_.is_dispensable(joiner, false);
    if (!is_gone && !can_go) continue;
    ctx_.note("member_dropped", joiner.join.pod + ", slot " + std::to_string(joiner.join.slot));
    std::erase(roster_.members, peer);
    proposal_.reset();  // was of more
    joiner.member_rank = -1;
    if (!is_gone) continue;
    if (!is_unwanted && !joiner.is_leaving) strayed_.push_back(std::move(joiner));
    roster_.joiners.erase(peer);
  }
}

// Once the gang has made a step without them, and not before: then all others hold the state.
void Gang::release_unwanted() {
  const bool is_needed = ctx_.keeps_processes() && !has_started();
  if (stage_ != Stage::kRunning || is_reforming() || is_needed) return;
  const auto& members = ctx_.record->status.members;
  for (auto& [peer, joiner] : roster_.joiners) {
    const bool is_free = joiner.member_rank < 0 && !joiner.is_lost && !joiner.is_released &&
                         ctx_.find_pod(joiner.join.self.uid) != nullptr &&
                         (!roster_.is_wanted(joiner) || joiner.is_leaving);
    if (!is_free ||
        std::ranges::find(members, joiner.join.self, &api::Member::ref) != members.end())
      continue;
    joiner.is_released = true;
    send(peer, StopGang{StopReason::kDrained, false, "the gang goes on without it"});
  }
}

// ---- the lead

// The generation stays. The heir finds itself in the record, and asks all for what they hold.
void Gang::hand_over() {
  if (!writer_.is_free() || !ctx_.is_leader() || saves_.is_publishing()) return;
  if (ctx_.record->spec.is_stopping || ctx_.is_superseded() || ctx_.has_later_gang()) return;
  if (is_last_) return;  // too few for training to go on
  if (!roster_.joiners.at(kSelfPeer).is_leaving && is_almost_through()) return;
  const Joiner* next_leader = roster_.heir();
  if (next_leader == nullptr) return;
  if (stage_ == Stage::kRunning && has_started() && !save_before_change()) return;
  const Join& join = next_leader->join;
  api::WorkerGroupStatus next = desired();
  next.term += 1;
  next.leader = api::Leader{join.self, join.address, join.fingerprint};
  ctx_.note("lead_handed_over", "to " + join.pod + ", term " + std::to_string(next.term));
  writer_.write(std::move(next));
}

}  // namespace pawl::membership
