#include "launcher/membership/apart_ledger.h"

#include <algorithm>
#include <utility>

namespace pawl::membership {
namespace {

constexpr int kTimesMax = 1;  // that they may break a generation

}  // namespace

void ApartLedger::note(const std::string& uid, const std::string& other) {
  const auto [first, second] = std::minmax(uid, other);
  auto pair = std::ranges::find_if(
      pairs_, [&](const Pair& one) { return one.first == first && one.second == second; });
  if (pair == pairs_.end()) pair = pairs_.insert(pairs_.end(), Pair{first, second});
  if (std::exchange(pair->generation, roster_.generation) != roster_.generation) ++pair->times;
}

void ApartLedger::forget() {
  const auto is_gone = [this](const std::string& uid) { return ctx_.find_pod(uid) == nullptr; };
  std::erase_if(pairs_, [&](const Pair& one) {
    const bool do_reach = roster_.is_heard(one.first) && roster_.is_heard(one.second);
    return do_reach || is_gone(one.first) || is_gone(one.second);
  });
  std::erase_if(parted_, is_gone);
}

bool ApartLedger::is_apart(const Pair& pair) const {
  const auto stays = [this](const std::string& uid) {
    return std::ranges::any_of(roster_.members, [&](PeerId peer) {
      const Joiner& joiner = roster_.joiners.at(peer);
      return joiner.join.self.uid == uid && !joiner.is_lost && !joiner.is_leaving;
    });
  };
  return pair.times > kTimesMax && stays(pair.first) && stays(pair.second);
}

const ApartLedger::Pair* ApartLedger::worst() const {
  const auto found =
      std::ranges::find_if(pairs_, [this](const Pair& one) { return is_apart(one); });
  return found == pairs_.end() ? nullptr : &*found;
}

int ApartLedger::pairs_with(const std::string& uid) const {
  return static_cast<int>(
      std::ranges::count_if(pairs_, [&](const Pair& one) { return one.has(uid); }));
}

std::string ApartLedger::text(const std::string& uid) const {
  const auto pair = std::ranges::find_if(pairs_, [&](const Pair& one) { return one.has(uid); });
  if (pair == pairs_.end()) return "";
  const std::string& other = pair->first == uid ? pair->second : pair->first;
  const api::EligiblePod* pod = ctx_.find_pod(other);
  return "its processes and those of " + (pod != nullptr ? pod->name : "pod " + other) +
         " do not reach each other";
}

}  // namespace pawl::membership
