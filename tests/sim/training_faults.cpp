// What goes wrong in training processes: who is killed, hangs, is slow, gives up, or ends by
// itself.
#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "tests/sim/training.h"

namespace pawl::sim {

auto Training::find_training() -> std::map<Key, Gang>::iterator {
  return std::ranges::find_if(
      gangs_, [](const auto& item) { return item.second.is_started && !item.second.is_over; });
}

bool Training::kill_one() {
  const auto found = find_training();
  if (found == gangs_.end()) return false;
  ++truth_.of(std::get<0>(found->first), std::get<1>(found->first)).faults;
  ++truth_.of(std::get<0>(found->first), std::get<1>(found->first)).kills;
  found->second.ranks.rbegin()->second->exit_process(137, 9, false);
  return true;
}

bool Training::hang_one() {
  const auto found = find_training();
  if (found == gangs_.end()) return false;
  hang(found->first, found->second.ranks.rbegin()->first);
  return true;
}

bool Training::slow_down_one(milliseconds time) {
  const auto found = std::ranges::find_if(gangs_, [](const auto& item) {
    const Gang& gang = item.second;
    return gang.is_started && !gang.is_over && !gang.is_program && gang.ranks.size() > 1;
  });
  if (found == gangs_.end()) return false;
  const auto& [job, attempt, generation] = found->first;
  const auto& ranks = found->second.ranks;
  const auto chosen =
      std::next(ranks.begin(), static_cast<long>(engine_.random().below(ranks.size())));
  Rank* rank = chosen->second;
  engine_.trace("rank " + std::to_string(chosen->first) + " of " + job + " is slow");
  ++truth_.of(job, attempt).disruptions;  // it may be moved
  truth_.jobs[job].slow.insert(rank->uid());
  slow_.insert(rank);
  engine_.after(time, [this, rank] { slow_.erase(rank); });
  return true;
}

int Training::slow_rank(const Gang& gang) const {
  const auto found = std::ranges::find_if(
      gang.ranks, [this](const auto& item) { return slow_.contains(item.second); });
  return found == gang.ranks.end() ? -1 : found->first;
}

bool Training::give_up_one() {
  const auto found = std::ranges::find_if(gangs_, [](const auto& item) {
    return item.second.is_started && !item.second.is_over && std::get<2>(item.first) > 1;
  });
  if (found == gangs_.end()) return false;
  ++truth_.of(std::get<0>(found->first), std::get<1>(found->first)).retries;
  found->second.ranks.rbegin()->second->exit_process(75, 0, false);
  return true;
}

int Training::draw_exit(const std::string& job_uid, std::int64_t attempt, int& signal) {
  AttemptTruth& truth = truth_.of(job_uid, attempt);
  if (engine_.chance(knobs_.wrong_exit)) {
    const bool is_fatal = engine_.random().one_in(4);
    ++(is_fatal ? truth.fatal : truth.retries);
    return is_fatal ? api::kExitFatal : api::kExitRetry;
  }
  ++truth.faults;
  if (engine_.random().one_in(2)) return 1;
  signal = 9;
  return 137;
}

void Training::hang(const Key& key, int rank) {
  AttemptTruth& truth = truth_.of(std::get<0>(key), std::get<1>(key));
  engine_.trace("rank " + std::to_string(rank) + " of attempt " + std::to_string(std::get<1>(key)) +
                " hangs");
  ++truth.faults;
  ++truth.kills;  // by its launcher
  hung_.insert(gangs_[key].ranks.at(rank));
}

void Training::fail_one(const Key& key, Gang& gang) {
  const auto rank =
      static_cast<int>(engine_.random().below(static_cast<std::uint64_t>(gang.world_size)));
  if (knobs_.hang > 0 && engine_.chance(knobs_.hang)) return hang(key, rank);
  int signal = 0;
  const int code = draw_exit(std::get<0>(key), std::get<1>(key), signal);
  if (signal != 0) ++truth_.of(std::get<0>(key), std::get<1>(key)).kills;
  gang.has_failed = gang.is_program && code == 1;
  engine_.trace("rank " + std::to_string(rank) + " of attempt " + std::to_string(std::get<1>(key)) +
                " fails with " + std::to_string(code));
  gang.ranks.at(rank)->exit_process(code, signal, false);
}

}  // namespace pawl::sim
