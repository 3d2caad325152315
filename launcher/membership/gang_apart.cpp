// Members whose launchers the leader hears, and whose processes do not reach each other (design §5,
// rule 9): a way between two machines is cut that nobody else needs. Once may be chance, and the
// same members try again. Where the same two break the next generation too, one of them makes room
// for another pod: who is named most often, then who came last, then who has the higher rank. Never
// the leader, nor who alone holds the newest state.
#include <algorithm>
#include <tuple>
#include <utility>

#include "launcher/membership/gang.h"

namespace pawl::membership {
// A launcher that is lost explains by itself why its processes are not reached; so does one that
// has come in its place meanwhile.
void Gang::note_unreached(const Joiner& joiner, const Broken& broken) {
  const auto& listed = ctx_.record->status.members;
  const auto accused =
      std::ranges::find(listed, broken.unreached_rank / ctx_.id.processes, &api::Member::rank);
  if (!ctx_.keeps_processes() || accused == listed.end()) return;
  const auto other = std::ranges::find_if(roster_.members, [&](PeerId peer) {
    return roster_.joiners.at(peer).join.self == accused->ref;
  });
  if (other == roster_.members.end()) return;
  const Joiner& unreached = roster_.joiners.at(*other);
  const std::string &mine = joiner.join.self.uid, &theirs = unreached.join.self.uid;
  if (unreached.is_lost || mine == theirs) return;
  ctx_.note("member_unreached",
            "rank " + std::to_string(broken.rank) + " (" + joiner.join.pod +
                ") does not reach rank " + std::to_string(broken.unreached_rank) + " (" +
                unreached.join.pod + "): " + broken.why,
            true);
  apart_.note(mine, theirs);
}

// All are parked. Two have broken two generations: of them goes who was named most often, else who
// came last. What it holds another one has to hold, too.
bool Gang::parts() {
  const ApartLedger::Pair* pair = apart_.worst();
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  if (pair == nullptr || !spec.has_successors || spec.is_stopping || !writer_.is_free())
    return false;
  const auto named = [this](const Joiner& joiner) {
    return std::tuple(apart_.pairs_with(joiner.join.self.uid), joiner.is_new, joiner.member_rank);
  };
  Joiner* chosen = nullptr;
  PeerId place = kSelfPeer;
  for (const PeerId peer : roster_.members) {
    Joiner& joiner = roster_.joiners.at(peer);
    if (!pair->has(joiner.join.self.uid) || peer == kSelfPeer ||
        !roster_.is_held_by_others(joiner, true))
      continue;
    if (chosen != nullptr && named(joiner) < named(*chosen)) continue;
    chosen = &joiner;
    place = peer;
  }
  if (chosen == nullptr) return false;
  ctx_.note("member_parted", chosen->join.pod + ", slot " + std::to_string(chosen->join.slot),
            true);
  proposal_.reset();  // was of another one
  // Each member leaves once: such changes without a step between them have an end.
  if (!std::exchange(has_left_out_, true)) reforms_ = std::max(reforms_ - 1, 0);
  apart_.part(chosen->join.self.uid);
  // It is heard on, and hears; its place is empty.
  Joiner gone = *chosen;
  chosen->member_rank = -1;
  chosen->is_parted = chosen->is_left_out = true;
  chosen->parked.reset();
  const PeerId vacant = kVacant + vacancies_++;
  *std::ranges::find(roster_.members, place) = vacant;
  mark_lost(gone);
  gone.rejoin_by = ctx_.now.steady;  // it had its time
  Joiner& left = roster_.joiners[vacant] = std::move(gone);
  tell_silence(left, apart_.text(left.join.self.uid), api::kCauseUnreached);
  return true;
}

}  // namespace pawl::membership
