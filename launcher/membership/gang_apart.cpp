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
namespace {

constexpr int kTimesMax = 1;  // that they may break a generation

}  // namespace

// A launcher that is lost explains by itself why its processes are not reached; so does one that
// has come in its place meanwhile.
void Gang::note_unreached(const Joiner& joiner, const Broken& broken) {
  const auto& listed = ctx_.record->status.members;
  const auto accused =
      std::ranges::find(listed, broken.unreached_rank / ctx_.id.processes, &api::Member::rank);
  if (!ctx_.keeps_processes() || accused == listed.end()) return;
  const auto other = std::ranges::find_if(
      members_, [&](PeerId peer) { return joiners_.at(peer).join.self == accused->ref; });
  if (other == members_.end()) return;
  const Joiner& unreached = joiners_.at(*other);
  const std::string &mine = joiner.join.self.uid, &theirs = unreached.join.self.uid;
  if (unreached.is_lost || mine == theirs) return;
  ctx_.note("member_unreached",
            "rank " + std::to_string(broken.rank) + " (" + joiner.join.pod +
                ") does not reach rank " + std::to_string(broken.unreached_rank) + " (" +
                unreached.join.pod + "): " + broken.why,
            true);
  const auto [first, second] = std::minmax(mine, theirs);
  auto pair = std::ranges::find_if(
      apart_, [&](const Apart& one) { return one.first == first && one.second == second; });
  if (pair == apart_.end()) pair = apart_.insert(apart_.end(), Apart{first, second});
  if (std::exchange(pair->generation, generation_) != generation_) ++pair->times;
}

void Gang::forget_apart() {
  const auto is_gone = [this](const std::string& uid) { return ctx_.find_pod(uid) == nullptr; };
  std::erase_if(apart_, [&](const Apart& one) {
    const bool do_reach = is_heard(one.first) && is_heard(one.second);
    return do_reach || is_gone(one.first) || is_gone(one.second);
  });
  std::erase_if(parted_, is_gone);
}

// Both are there, and would be in the next generation.
bool Gang::is_apart(const Apart& pair) const {
  const auto stays = [this](const std::string& uid) {
    return std::ranges::any_of(members_, [&](PeerId peer) {
      const Joiner& joiner = joiners_.at(peer);
      return joiner.join.self.uid == uid && !joiner.is_lost && !joiner.is_leaving;
    });
  };
  return pair.times > kTimesMax && stays(pair.first) && stays(pair.second);
}

// Of one that is parted from.
std::string Gang::apart_text(const Joiner& joiner) const {
  const std::string& uid = joiner.join.self.uid;
  const auto pair = std::ranges::find_if(
      apart_, [&](const Apart& one) { return one.first == uid || one.second == uid; });
  if (pair == apart_.end()) return "";
  const std::string& other = pair->first == uid ? pair->second : pair->first;
  const api::EligiblePod* pod = ctx_.find_pod(other);
  return "its processes and those of " + (pod != nullptr ? pod->name : "pod " + other) +
         " do not reach each other";
}

// All are parked. Two have broken two generations: of them goes who was named most often, else who
// came last. What it holds another one has to hold, too.
bool Gang::parts() {
  const auto pair =
      std::ranges::find_if(apart_, [this](const Apart& one) { return is_apart(one); });
  const api::WorkerGroupSpec& spec = ctx_.record->spec;
  if (pair == apart_.end() || !spec.has_successors || spec.is_stopping || !writer_.is_free())
    return false;
  const auto named = [this](const Joiner& joiner) {
    const std::string& uid = joiner.join.self.uid;
    const auto times = std::ranges::count_if(
        apart_, [&](const Apart& one) { return one.first == uid || one.second == uid; });
    return std::tuple(times, joiner.is_new, joiner.member_rank);
  };
  Joiner* chosen = nullptr;
  PeerId place = kSelfPeer;
  for (const PeerId peer : members_) {
    Joiner& joiner = joiners_.at(peer);
    const std::string& uid = joiner.join.self.uid;
    const bool is_one = uid == pair->first || uid == pair->second;
    if (!is_one || peer == kSelfPeer || !is_held_by_others(joiner, true)) continue;
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
  parted_.insert(chosen->join.self.uid);
  // It is heard on, and hears; its place is empty.
  Joiner gone = *chosen;
  chosen->member_rank = -1;
  chosen->is_parted = chosen->is_left_out = true;
  chosen->parked.reset();
  const PeerId vacant = kVacant + vacancies_++;
  *std::ranges::find(members_, place) = vacant;
  mark_lost(gone);
  gone.rejoin_by = ctx_.now.steady;  // it had its time
  Joiner& left = joiners_[vacant] = std::move(gone);
  tell_silence(left, apart_text(left), api::kCauseUnreached);
  return true;
}

}  // namespace pawl::membership
