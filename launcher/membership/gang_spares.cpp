// Workers beside those that train (spec.spares of the record): prepared, and in no generation until
// a member is lost. Which pods train is open: whoever comes in the place of a lost one waits next.
#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "common/base/mutant.h"
#include "launcher/membership/gang.h"

namespace pawl::membership {

// The next generation is without it, if there are enough others; but for a leader that hands over
// in it. A program of another framework knows no such generation.
bool Gang::will_be_left_out(const Joiner& joiner) const {
  if (joiner.join.self == ctx_.id.self && !ctx_.keeps_processes()) return false;
  return is_gone(joiner) || joiner.is_leaving || is_idle(joiner);
}

std::size_t Gang::staying_members() const {
  return roster_.count_members([this](const Joiner& joiner) {
    return roster_.is_wanted(joiner) && !will_be_left_out(joiner);
  });
}

// The places of those who are lost count for nobody who is there.
bool Gang::has_surplus() const {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  const auto most = static_cast<std::size_t>(std::max(api::most_members(spec), 1));
  const std::size_t there = roster_.count_members([this](const Joiner& joiner) {
    return roster_.is_wanted(joiner) && !joiner.is_lost && !will_be_left_out(joiner);
  });
  return spec.spares > 0 && there > most && !is_mutant(Mutant::kI50SparesTrain);
}

// Those in the first slots: the others come later.
bool Gang::has_enough_without_spares(const std::map<int, PeerId>& by_slot) const {
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  const int most = api::most_members(spec);
  const auto first =
      std::ranges::count_if(by_slot, [most](const auto& entry) { return entry.first < most; });
  return spec.spares > 0 && first == most;
}

// As many as train; the leader is one of them.
void Gang::keep_first(std::map<int, PeerId>& by_slot) const {
  const auto most = static_cast<std::size_t>(std::max(api::most_members(ctx_.record->spec), 1));
  for (auto last = by_slot.end(); by_slot.size() > most && last != by_slot.begin();) {
    --last;
    if (last->second != kSelfPeer) last = by_slot.erase(last);
  }
}

// No more than are missing, from the first slot on.
void Gang::choose_spares(std::vector<PeerId>& found, std::size_t missing) const {
  std::ranges::sort(found, {}, [this](PeerId peer) { return roster_.joiners.at(peer).join.slot; });
  if (found.size() > missing && !is_mutant(Mutant::kI50SparesTrain)) found.resize(missing);
}

// Where a lost member is back beside the one that came in for it, or fewer are to train: those in
// the last slots wait again, if they hold nothing that the others do not.
void Gang::drop_surplus() {
  std::vector<PeerId> members = roster_.members;
  std::ranges::sort(members, std::greater{},
                    [this](PeerId peer) { return roster_.joiners.at(peer).join.slot; });
  for (const PeerId peer : members) {
    if (!has_surplus()) return;
    Joiner& joiner = roster_.joiners.at(peer);
    if (peer == kSelfPeer || joiner.is_lost || !roster_.is_wanted(joiner)) continue;
    if (roster_.may_hold(joiner) && !roster_.is_dispensable(joiner, true)) continue;
    ctx_.note("member_spared", joiner.join.pod + ", slot " + std::to_string(joiner.join.slot));
    std::erase(roster_.members, peer);
    proposal_.reset();  // was of more
    joiner.is_newcomer = false;
    wait_outside(joiner);
  }
}

}  // namespace pawl::membership
