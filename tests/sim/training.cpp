#include "tests/sim/training.h"

#include <algorithm>
#include <utility>

#include "common/api/contract.h"

namespace pawl::sim {

namespace channel = api::channel;

const Course& Training::course(const std::string& job_uid) {
  if (fixed) return *fixed;
  const auto [at, is_new] = courses_.try_emplace(job_uid);
  if (is_new) {
    Random& random = engine_.random();
    at->second.steps = 4 + static_cast<std::int64_t>(random.below(24));
    at->second.save_every = 1 + static_cast<std::int64_t>(random.below(6));
    at->second.step_time = engine_.between(milliseconds{50}, knobs_.step_max);
    const milliseconds life{120'000};
    if (knobs_.is_restless || knobs_.is_crowded) at->second.steps += life / at->second.step_time;
  }
  return at->second;
}

void Training::enter(const std::string& job_uid, const channel::Welcome& welcome, Rank& rank) {
  const Key key{job_uid, welcome.attempt, welcome.generation};
  Gang& gang = gangs_[key];
  if (gang.is_over) return;
  gang.world_size = welcome.world_size;
  gang.step = gang.start_step = welcome.start_step;
  gang.base = welcome.base_generation;
  gang.source_rank = welcome.source_rank;
  gang.ranks[welcome.rank] = &rank;
  if (std::cmp_not_equal(gang.ranks.size(), gang.world_size) || gang.is_started) return;
  if (const auto cut = cut_in(gang)) return wait_for_answer(key, *cut);
  begin(key, gang);
}

// All are there: those that lack the start state are fed, or load it.
void Training::begin(const Key& key, Gang& gang) {
  gang.is_started = true;
  const membership::Holding wanted{gang.base, gang.start_step};
  for (const auto& [number, rank] : gang.ranks) {
    const bool is_source = number == gang.source_rank;
    if (gang.base > 0 && is_source && memory_[rank] != wanted) {
      invented_ = "generation " + std::to_string(std::get<2>(key)) + " begins with step " +
                  std::to_string(gang.start_step) + ", which rank " + std::to_string(number) +
                  " does not hold";
    }
  }
  if (gang.base > 0 && gang.source_rank < 0) invented_ = "a generation without a source";
  const auto generation = std::get<2>(key);
  const milliseconds first = time_to_begin(gang);
  for (const auto& [number, rank] : gang.ranks) {
    memory_[rank] = {};
    if (!knobs_.holds_parts) memory_[rank] = {generation, gang.start_step};
  }
  // What the gang has outlived explains no end of the attempt any more.
  AttemptTruth& truth = truth_.of(std::get<0>(key), std::get<1>(key));
  truth.faults = truth.at_start;
  step_later(key, first);
}

milliseconds Training::time_to_begin(const Gang& gang) const {
  const Pace& pace = knobs_.pace;
  if (gang.base == 0) return pace.rewire + (gang.start_step > 0 ? pace.restore : milliseconds{0});
  const membership::Holding wanted{gang.base, gang.start_step};
  const bool is_fed = std::ranges::any_of(gang.ranks, [&](const auto& item) {
    const auto held = memory_.find(item.second);
    return held == memory_.end() || held->second != wanted;
  });
  return pace.rewire + (is_fed ? pace.feed : milliseconds{0});
}

void Training::expect_program(const std::string& job_uid, const membership::Placement& place) {
  const Key key{job_uid, place.attempt, place.generation};
  const auto [gang, is_new] = gangs_.try_emplace(key);
  if (is_new) gang->second.excuses = excuses(key);
}

void Training::run_program(const std::string& job_uid, const membership::Placement& place,
                           Rank& rank) {
  const Key key{job_uid, place.attempt, place.generation};
  Gang& gang = gangs_[key];
  if (gang.is_over) return;  // it waits for a rank that is gone again
  gang.world_size = place.members;
  gang.is_program = true;
  gang.ranks[place.member_rank] = &rank;
  if (std::cmp_equal(gang.ranks.size(), gang.world_size) && !gang.is_started)
    begin_program(key, gang);
}

int Training::excuses(const Key& key) {
  const AttemptTruth& truth = truth_.of(std::get<0>(key), std::get<1>(key));
  return truth.disruptions + truth.records + truth.noise + truth.sizes + truth.kills;
}

void Training::begin_program(const Key& key, Gang& gang) {
  gang.is_started = true;
  const auto [job, attempt, generation] = key;
  const auto before = gangs_.find(Key{job, attempt, generation - 1});
  if (before != gangs_.end() && before->second.has_failed &&
      before->second.excuses == gang.excuses) {
    invented_ = "generation " + std::to_string(generation) +
                " of a program that has failed by itself in the one before";
  }
  AttemptTruth& truth = truth_.of(std::get<0>(key), std::get<1>(key));
  truth.faults = truth.at_start;  // as in begin()
  const Course& plan = course(std::get<0>(key));
  milliseconds time = plan.steps * plan.step_time;
  const bool fails = may_fail && engine_.chance(knobs_.crash_per_step * 2);
  if (fails) time = engine_.between(milliseconds{0}, time);
  engine_.after(time, [this, key, fails] {
    Gang& running = gangs_[key];
    if (running.is_over || is_stalled(running)) return;
    if (fails) {
      fail_one(key, running);
    } else {
      finish(key, running);
    }
  });
}

std::pair<const Training::Key, Training::Gang>* Training::find(Rank& rank) {
  for (auto& entry : gangs_) {
    for (const auto& [number, one] : entry.second.ranks) {
      if (one == &rank) return &entry;
    }
  }
  return nullptr;
}

// The others are stuck in a collective: some notice by themselves, some wait to be told.
void Training::leave(Rank& rank) {
  memory_.erase(&rank);
  hung_.erase(&rank);
  slow_.erase(&rank);
  auto* entry = find(rank);
  if (entry == nullptr) return;
  Gang& gang = entry->second;
  std::erase_if(gang.ranks, [&](const auto& item) { return item.second == &rank; });
  if (gang.is_over || !gang.is_started) return;
  break_up(gang);
  const bool is_quick = gang.is_program && engine_.random().one_in(2);
  const milliseconds first{is_quick ? 1 : 10}, last{is_quick ? 30 : 3'000};
  engine_.after(engine_.between(first, last), [this, key = entry->first] {
    if (engine_.random().one_in(2)) return;
    const auto ranks = gangs_[key].ranks;
    for (const auto& [number, other] : ranks) {
      if (!gangs_[key].ranks.contains(number)) continue;
      if (gangs_[key].is_program) {
        fail_beside(key, number);
      } else {
        come_to_rest(key, number, "a rank is gone");
      }
    }
  });
}

// With what it calls an error of its own, or nobody's.
void Training::fail_beside(const Key& key, int number) {
  constexpr int kCodes[] = {1, 1, 75, 134};
  Gang& gang = gangs_[key];
  Rank& rank = *gang.ranks.at(number);
  if (!gang.has_failed)
    truth_.jobs[std::get<0>(key)].victims.insert({rank.uid(), std::get<2>(key)});
  const int code = kCodes[engine_.random().below(4)];
  rank.exit_process(code, code == 134 ? 6 : 0, false);
}

// Perhaps in the middle of a step that all have contributed to.
void Training::break_up(Gang& gang) {
  gang.is_over = true;
  gang.has_half_step = engine_.random().one_in(3);
}

void Training::come_to_rest(const Key& key, int number, const std::string& why, int unreached) {
  Gang& gang = gangs_[key];
  const auto node = gang.ranks.extract(number);
  if (node.empty()) return;
  Rank* rank = node.mapped();
  membership::Holding& held = memory_[rank];
  if (gang.is_started && !knobs_.holds_parts) {
    const bool is_ahead = gang.has_half_step && engine_.random().one_in(2);
    held = {std::get<2>(key), gang.step + (is_ahead ? 1 : 0)};
  }
  rank->say(channel::Parked{held.generation, held.step, why, unreached});
}

std::int64_t Training::generation_of(Rank& rank) {
  const auto* entry = find(rank);
  return entry == nullptr ? 0 : std::get<2>(entry->first);
}

void Training::park(Rank& rank, std::int64_t generation) {
  auto* entry = find(rank);
  if (entry == nullptr || std::get<2>(entry->first) != generation || hangs(rank)) return;
  Gang& gang = entry->second;
  const bool is_ending = gang.is_over && !gang.has_half_step && gang.step > gang.start_step &&
                         gang.step >= course(std::get<0>(entry->first)).steps;
  if (is_ending) return;  // behind the closing barrier: it ends, and well
  if (!gang.is_over) {
    if (gang.is_started) {
      break_up(gang);
    } else {
      gang.is_over = true;
    }
  }
  for (const auto& [number, one] : gang.ranks) {
    if (one == &rank) return come_to_rest(entry->first, number, "");
  }
}

void Training::step_later(const Key& key, milliseconds after) {
  engine_.after(after + step_time(key), [this, key] { step(key); });
}

// The batch is the same with fewer members.
milliseconds Training::step_time(const Key& key) {
  const milliseconds time = course(std::get<0>(key)).step_time;
  const int full = knobs_.pace.full_size;
  return full == 0 ? time : time * full / gangs_[key].world_size;
}

void Training::step(const Key& key) {
  Gang& gang = gangs_[key];
  if (gang.is_over || std::cmp_not_equal(gang.ranks.size(), gang.world_size)) return;
  if (is_stalled(gang) || gang.cut) return;  // until somebody does something about it
  if (may_fail && engine_.chance(knobs_.crash_per_step)) return fail_one(key, gang);
  const Course& plan = course(std::get<0>(key));
  ++gang.step;
  JobTruth& truth = truth_.jobs[std::get<0>(key)];
  (gang.step > truth.highest_step ? truth.trained : truth.redone) += step_time(key) + gang.stall;
  const bool is_untold = gang.step <= truth.highest_step && gang.step > truth.told_step;
  if (is_untold) truth.untold += step_time(key) + gang.stall;
  truth.highest_step = std::max(truth.highest_step, gang.step);
  const int slow = slow_rank(gang);
  gang.ranks.at(0)->say(channel::Report{.step = gang.step,
                                        .total_steps = plan.steps,
                                        .loss = 1.0 / static_cast<double>(gang.step),
                                        .slow_rank = slow,
                                        .slow_factor = slow < 0 ? 0.0 : 2.0});
  const bool is_asked = std::exchange(gang.is_to_save, false);
  const bool is_saved = is_asked || gang.step % plan.save_every == 0 || gang.step >= plan.steps;
  if (is_saved) {
    for (int rank = 0; rank < gang.world_size; ++rank) seal(gang, rank);
  }
  if (gang.step >= plan.steps) return finish(key, gang);
  gang.stall = is_saved ? knobs_.pace.save_stall : milliseconds{0};
  step_later(key, gang.stall);
}

void Training::seal(Gang& gang, int rank) {
  const auto found = gang.ranks.find(rank);
  if (found == gang.ranks.end()) return;
  found->second->say(channel::Sealed{.buffer = 0, .step = gang.step, .bytes = 1});
}

bool Training::is_stalled(const Gang& gang) const {
  return std::ranges::any_of(gang.ranks, [this](const auto& item) { return hangs(*item.second); });
}

void Training::finish(const Key& key, Gang& gang) {
  gang.is_over = true;
  const auto ranks = gang.ranks;
  for (const auto& [number, rank] : ranks) {
    engine_.after(engine_.between(milliseconds{1}, milliseconds{8'000}),
                  [this, key, number = number] {
                    Gang& ended = gangs_[key];
                    const auto found = ended.ranks.find(number);
                    if (found == ended.ranks.end()) return;
                    Rank* one = found->second;
                    if (!ended.is_program) one->say(channel::Done{ended.step});
                    one->exit_process(0, 0, false);
                  });
  }
}

void Training::save(Rank& rank) {
  auto* entry = find(rank);
  if (entry == nullptr || !entry->second.is_started) return;
  for (const auto& [number, one] : entry->second.ranks) {
    if (one == &rank) return seal(entry->second, number);
  }
}

void Training::save_soon(Rank& rank) {
  if (auto* entry = find(rank)) entry->second.is_to_save = true;
}

void Training::save_and_stop(Rank& rank) {
  if (hangs(rank)) return;
  if (auto* entry = find(rank)) entry->second.is_over = true;
  save(rank);
  rank.exit_process(api::kExitRetry, 0, true);
}

// ---- storage: what common/checkpoint's selection decides, without files

membership::CheckpointSelected Training::select(
    const std::string& job_uid, const std::vector<api::LineageEntry>& lineage) const {
  membership::CheckpointSelected selected;
  const auto found = stored_.find(job_uid);
  if (found == stored_.end()) return selected;
  for (const Published& one : found->second) {
    const auto at = std::ranges::find_if(lineage, [&](const api::LineageEntry& entry) {
      return entry.attempt == one.attempt && entry.generation == one.generation;
    });
    if (at == lineage.end()) continue;
    const auto next = std::next(at);
    const bool is_on_line = next == lineage.end() || one.step <= next->start_step;
    if (is_on_line && one.step > selected.step) selected.step = one.step;
  }
  if (selected.step > 0) selected.load_uri = "file:///store/" + std::to_string(selected.step);
  return selected;
}

void Training::publish(const std::string& job_uid, const membership::PublishCheckpoint& publish) {
  const auto gang = gangs_.find(Key{job_uid, publish.attempt, publish.generation});
  const int world_size = gang == gangs_.end() ? 0 : gang->second.world_size;
  stored_[job_uid].push_back({publish.step, publish.attempt, publish.generation,
                              static_cast<int>(publish.shards.size()), world_size});
}

}  // namespace pawl::sim
