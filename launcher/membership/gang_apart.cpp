// Members whose launchers the leader hears, and whose processes do not reach each other (design §5,
// rule 9): a way between two machines is cut that nobody else needs. Once may be chance, and the
// same members try again. Where the same two break the next generation too, one of them makes room
// for another pod: of those that most others do not reach, the one with the highest rank.
#include <algorithm>
#include <tuple>
#include <utility>

#include "launcher/membership/gang.h"

namespace pawl::membership {
namespace {

constexpr int kTimesMax = 1;  // that they may break a generation

}  // namespace

// A launcher that is lost explains by itself why its processes are not reached.
void Gang::note_unreached(const Joiner& joiner, const Broken& broken) {
  const auto other = std::ranges::find_if(
      members_, [&](PeerId peer) { return owns_rank(joiners_.at(peer), broken.unreached_rank); });
  if (!ctx_.keeps_processes() || other == members_.end()) return;
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

bool Gang::is_apart(const Apart& pair, const std::string& uid) const {
  const bool is_named = pair.first == uid || pair.second == uid;
  return is_named && pair.times > kTimesMax && is_heard(pair.first) && is_heard(pair.second);
}

std::size_t Gang::apart_from(const Joiner& joiner) const {
  const auto count = std::ranges::count_if(
      apart_, [&](const Apart& one) { return is_apart(one, joiner.join.self.uid); });
  return static_cast<std::size_t>(count);
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

// All are parked. What it holds the others hold too, or none is parted from.
bool Gang::parts() {
  if (apart_.empty() || !ctx_.record->spec.has_successors || ctx_.record->spec.is_stopping)
    return false;
  Joiner* chosen = nullptr;
  PeerId place = kSelfPeer;
  const auto rank_of = [this](const Joiner& joiner) {
    return std::tuple(apart_from(joiner), joiner.member_rank);
  };
  for (const PeerId peer : members_) {
    Joiner& joiner = joiners_.at(peer);
    const bool can_go = peer != kSelfPeer && apart_from(joiner) > 0 && !joiner.is_leaving &&
                        is_held_by_others(joiner, true);
    if (!can_go || (chosen != nullptr && rank_of(joiner) < rank_of(*chosen))) continue;
    chosen = &joiner;
    place = peer;
  }
  if (chosen == nullptr) return false;
  ctx_.note("member_parted", chosen->join.pod + ", slot " + std::to_string(chosen->join.slot),
            true);
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
  tell_silence(left, apart_text(left));
  return true;
}

}  // namespace pawl::membership
