// Pairs of ranks that do not reach each other, though their launchers reach the leader.
#include <algorithm>
#include <utility>

#include "tests/sim/training.h"

namespace pawl::sim {

std::optional<std::pair<int, int>> Training::cut_in(const Gang& gang) const {
  for (const auto& [number, rank] : gang.ranks) {
    const int next = (number + 1) % gang.world_size;
    const auto neighbour = gang.ranks.find(next);
    if (neighbour == gang.ranks.end() || neighbour->second == rank) continue;
    const auto pair = std::minmax(rank->uid(), neighbour->second->uid());
    if (cut_pairs_.contains(std::pair<std::string, std::string>(pair)))
      return std::pair{number, next};
  }
  return std::nullopt;
}

// Nothing that is sent is acknowledged; the others wait.
void Training::wait_for_answer(const Key& key, std::pair<int, int> cut) {
  gangs_[key].cut = cut;
  engine_.after(milliseconds{5'000}, [this, key, cut] {
    Gang& gang = gangs_[key];
    if (gang.is_over) return;
    if (gang.is_started) {
      break_up(gang);
    } else {
      gang.is_over = true;
    }
    const auto [number, unreached] =
        engine_.random().one_in(2) ? cut : std::pair{cut.second, cut.first};
    if (!gang.ranks.contains(number) || hangs(*gang.ranks.at(number))) return;
    come_to_rest(key, number, "no answer", unreached);
  });
}

bool Training::cut_pair(milliseconds time) {
  const auto found = std::ranges::find_if(gangs_, [](const auto& item) {
    const Gang& gang = item.second;
    return gang.is_started && !gang.is_over && !gang.is_program && gang.ranks.size() > 1 &&
           !gang.cut;
  });
  if (found == gangs_.end() ||
      std::cmp_not_equal(found->second.ranks.size(), found->second.world_size))
    return false;
  Gang& gang = found->second;
  const auto [job, attempt, generation] = found->first;
  const int first = static_cast<int>(engine_.random().below(gang.ranks.size()));
  const int second = (first + 1) % gang.world_size;
  const std::pair<std::string, std::string> pair =
      std::minmax(gang.ranks.at(first)->uid(), gang.ranks.at(second)->uid());
  if (pair.first == pair.second) return false;
  engine_.trace("ranks " + std::to_string(first) + " and " + std::to_string(second) + " of " + job +
                " do not reach each other");
  ++truth_.of(job, attempt).disruptions;  // one of them may be replaced
  cut_pairs_.insert(pair);
  engine_.after(time, [this, pair] { cut_pairs_.erase(pair); });
  wait_for_answer(found->first, {first, second});
  return true;
}

void Training::join_pairs() { cut_pairs_.clear(); }

}  // namespace pawl::sim
