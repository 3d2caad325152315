#include "tests/sim/generation_search.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "tests/sim/generation_model.h"

namespace pawl::sim {
namespace {

using namespace model;       // NOLINT: this file moves its states.
using namespace membership;  // NOLINT: by these rules.

class Explorer {
 public:
  explicit Explorer(const SearchBounds& bounds) : bounds_(bounds) {}
  SearchResult run();

 private:
  struct Origin {
    std::uint64_t parent = 0;
    Event event;
  };
  void expand(const State& state);
  void member_events(const State& state, int launcher);
  void commits(const State& state);
  void commit(const State& state, Mask reporters, Mask members);
  void crashes(const State& state, int launcher);
  void reach(State next, const Event& event);
  void hold(State& state, int launcher, int generation);
  void check_confirmed(const State& state, int generation, int step);
  void check_commit(const State& before, const State& after);
  std::vector<api::LineageEntry> line_below_newest(const State& state) const;

  const SearchBounds bounds_;
  SearchResult result_;
  std::unordered_map<std::uint64_t, Origin> seen_;
  std::deque<State> frontier_;
  std::uint64_t from_ = 0;
  std::string found_;
};

// Without being fed: the rule of the trainer (take_start in trainer-runtime/trainer/program.cpp).
bool has_start_state(const Holding& held, const GenerationStart& start) {
  return start.base > 0 && held.generation == start.base && held.step == start.step;
}

void Explorer::reach(State next, const Event& event) {
  forget_the_past(next);
  const std::uint64_t print = fingerprint(next);
  if (seen_.try_emplace(print, Origin{from_, event}).second) {
    ++result_.states;
    frontier_.push_back(next);
  }
  if (found_.empty() || !result_.violation.empty()) return;
  result_.violation = found_;
  result_.history.push_back(text_of(event));
  for (std::uint64_t at = from_; at != 0; at = seen_.at(at).parent)
    result_.history.push_back(text_of(seen_.at(at).event));
  std::ranges::reverse(result_.history);
}

// ---- what one launcher does

void Explorer::hold(State& state, int launcher, int generation) {
  Launcher& one = state.launchers[static_cast<std::size_t>(launcher)];
  Record& record = state.records[static_cast<std::size_t>(generation)];
  one.held_generation = static_cast<std::uint8_t>(generation);
  one.held_step = record.step;
  one.has_sent = 0;
  record.holders |= bit(launcher);
}

void Explorer::member_events(const State& state, int launcher) {
  const Launcher& one = state.launchers[static_cast<std::size_t>(launcher)];
  const auto who = static_cast<std::uint8_t>(launcher);
  if (one.is_alive == 0) return;
  const Standing standing = standing_of(one);
  const Record& newest = state.records[state.newest];

  if (one.is_parked == 0) {  // it reports, to anybody who asks
    State next = state;
    Launcher& after = next.launchers[static_cast<std::size_t>(launcher)];
    Standing promised = standing;
    promised.promise(state.newest);
    after.promised = static_cast<std::uint8_t>(promised.promised());
    after.is_parked = 1;
    after.told_generation = one.held_generation;
    after.told_step = one.held_step;
    const bool may_have = one.entered == state.newest && one.may_have_held != 0;
    after.told_never_held =
        (newest.members & bit(launcher)) != 0 &&
        membership::has_surely_never_held(state.newest, holding_of(one), may_have);
    reach(next, {.kind = Event::Kind::kPark, .who = who, .number = state.newest});
  }
  for (int generation = 1; generation <= state.newest; ++generation) {  // it is shown a record
    const Record& record = state.records[static_cast<std::size_t>(generation)];
    if ((record.members & bit(launcher)) == 0 || !standing.may_enter(generation)) continue;
    State next = state;
    Launcher& after = next.launchers[static_cast<std::size_t>(launcher)];
    after.entered = static_cast<std::uint8_t>(generation);
    after.may_have_held = 0;
    after.has_sent = 0;
    if (has_start_state(holding_of(one), start_of(state, generation)))
      hold(next, launcher, generation);
    reach(next, {.kind = Event::Kind::kEnter, .who = who, .number = after.entered});
  }
  if (one.entered == 0 || !standing.is_bound()) return;
  const Record& record = state.records[one.entered];
  if (one.held_generation != one.entered) {  // it is fed, beside what it has
    bool has_source = record.base == 0;
    for (int other = 0; other < kLaunchers; ++other) {
      const Launcher& source = state.launchers[static_cast<std::size_t>(other)];
      const bool is_member = (record.members & bit(other)) != 0 && source.is_alive != 0;
      has_source = has_source || (is_member && source.held_generation == one.entered);
    }
    if (!has_source) return;
    State next = state;
    hold(next, launcher, one.entered);
    reach(next, {.kind = Event::Kind::kReceive, .who = who, .number = one.entered});
    return;
  }
  const auto step = static_cast<std::uint8_t>(one.held_step + 1);
  if (record.holders != record.members || std::cmp_greater(step, bounds_.steps)) return;
  if (one.has_sent == 0) {
    State next = state;
    next.launchers[static_cast<std::size_t>(launcher)].has_sent = 1;
    next.records[one.entered].sent[step] |= bit(launcher);
    reach(next,
          {.kind = Event::Kind::kContribute, .who = who, .number = one.entered, .step = step});
  } else if (record.sent[step] == record.members) {
    State next = state;
    Launcher& after = next.launchers[static_cast<std::size_t>(launcher)];
    after.held_step = step;
    after.has_sent = 0;
    next.records[one.entered].applied[step] |= bit(launcher);
    check_confirmed(next, one.entered, step);
    reach(next, {.kind = Event::Kind::kApply, .who = who, .number = one.entered, .step = step});
  }
}

// ---- commits

// What the newest generation goes on from, and that from before it: the line once it is void.
std::vector<api::LineageEntry> Explorer::line_below_newest(const State& state) const {
  std::vector<api::LineageEntry> line;
  for (int at = state.records[state.newest].base; at > 0;) {
    const Record& record = state.records[static_cast<std::size_t>(at)];
    line.insert(line.begin(), {1, at, record.step});
    at = record.base;
  }
  return line;
}

void Explorer::commits(const State& state) {
  if (state.newest >= bounds_.generations) return;
  Mask parked = 0;
  for (int i = 0; i < kLaunchers; ++i) {
    if (state.launchers[static_cast<std::size_t>(i)].is_parked != 0) parked |= bit(i);
  }
  for (unsigned reporters = 1; reporters <= parked; ++reporters) {
    if ((reporters & parked) != reporters) continue;
    for (unsigned members = reporters; members > 0; members = (members - 1) & reporters)
      commit(state, static_cast<Mask>(reporters), static_cast<Mask>(members));
  }
}

void Explorer::commit(const State& state, Mask reporters, Mask members) {
  // Rule 8: whoever commits is a member of the newest generation, and parked itself.
  const Record& newest = state.records[state.newest];
  Mask candidates = 0;
  for (int i = 0; i < kLaunchers; ++i) {
    if (state.launchers[static_cast<std::size_t>(i)].is_alive != 0) candidates |= bit(i);
  }
  candidates &= reporters & newest.members;
  if (candidates == 0) return;

  const auto line = line_below_newest(state);
  std::array<ParkedReport, kLaunchers> reports;
  std::size_t count = 0;
  for (int i = 0; i < kLaunchers; ++i) {
    if ((reporters & bit(i)) == 0) continue;
    const Launcher& one = state.launchers[static_cast<std::size_t>(i)];
    ParkedReport& report = reports[count++];
    report.is_member = (newest.members & bit(i)) != 0;
    report.is_base_member = (newest.base_members & bit(i)) != 0;
    report.has_never_held = one.told_never_held != 0;
    report.held = {one.told_generation, one.told_step};
    report.is_on_line = is_on_line(report.held, line);
  }
  const Mask holders_possible = newest.members | newest.base_members;
  const bool is_all_accounted =
      (holders_possible & static_cast<Mask>(~(reporters | state.removed))) == 0;
  const NextStart start =
      next_start(start_of(state, state.newest), {reports.data(), count}, is_all_accounted);
  if (start.source == Source::kWait) return;

  State next = state;
  Record& record = next.records[++next.newest];
  record.members = members;
  record.base = static_cast<std::uint8_t>(start.base);
  record.step = static_cast<std::uint8_t>(start.step);
  // Where a state on the line is only as new as the beginning, storage is as good.
  if (start.source == Source::kStorage && start.step == 0) record.base = 0;
  const NextStart used{start.source, record.base, start.step};
  const auto kind = base_members_after(start_of(state, state.newest), used);
  if (kind == membership::BaseMembers::kMembers) {
    record.base_members = newest.members;
  } else if (kind == membership::BaseMembers::kUnchanged) {
    record.base_members = newest.base_members;
  } else if (kind == membership::BaseMembers::kHolders) {
    for (int i = 0; i < kLaunchers; ++i) {
      const Launcher& one = state.launchers[static_cast<std::size_t>(i)];
      const bool holds = one.told_generation == start.base && one.told_step == start.step;
      if ((reporters & bit(i)) != 0 && holds) record.base_members |= bit(i);
    }
  }
  for (Launcher& one : next.launchers) {
    one.is_parked = one.told_generation = one.told_step = one.told_never_held = 0;
  }
  check_commit(state, next);
  reach(next, {.kind = Event::Kind::kCommit,
               .number = next.newest,
               .step = record.step,
               .members = members,
               .reporters = reporters});
}

// ---- faults

void Explorer::crashes(const State& state, int launcher) {
  const auto index = static_cast<std::size_t>(launcher);
  const auto who = static_cast<std::uint8_t>(launcher);
  const Launcher& one = state.launchers[index];
  if (one.is_alive == 0) {
    const Mask mask = bit(launcher);
    const bool was_here = launcher < 3 + state.launcher_crashes;
    if (!was_here || (state.removed & mask) != 0) return;
    State next = state;
    next.removed |= mask;
    reach(next, {.kind = Event::Kind::kRemove, .who = who});
    return;
  }
  if (state.launcher_crashes < bounds_.launcher_crashes) {
    State next = state;
    // What it has told stays told.
    Launcher& after = next.launchers[index];
    after.is_alive = after.held_generation = after.held_step = 0;
    after.has_sent = 0;
    next.launchers[static_cast<std::size_t>(3 + state.launcher_crashes)].is_alive = 1;
    ++next.launcher_crashes;
    reach(next, {.kind = Event::Kind::kCrash, .who = who});
  }
  if (state.process_crashes < bounds_.process_crashes) {
    State next = state;
    Launcher& after = next.launchers[index];
    after.held_generation = after.held_step = 0;
    after.has_sent = 0;
    after.may_have_held = 1;
    // A new process is let into a newer generation only: fed with the start of this one, it would
    // pass for one that holds its newest state.
    Standing standing = standing_of(one);
    standing.promise(standing.entered());
    after.promised = static_cast<std::uint8_t>(standing.promised());
    ++next.process_crashes;
    reach(next, {.kind = Event::Kind::kProcessCrash, .who = who});
  }
}

// ---- what must hold

// A step is confirmed once on the line, and never off it.
void Explorer::check_confirmed(const State& state, int generation, int step) {
  if (!is_confirmed(state, generation, step)) return;
  for (int later = generation + 1; later <= state.newest; ++later) {
    const int start = state.records[static_cast<std::size_t>(later)].step;
    if (contains(state, {later, start}, {generation, step})) continue;
    found_ = "step " + std::to_string(step) + " is confirmed in generation " +
             std::to_string(generation) + ", after generation " + std::to_string(later) +
             " has gone on without it";
  }
}

// No confirmed step is redone while somebody holds it.
void Explorer::check_commit(const State& before, const State& after) {
  const Holding start{after.newest, after.records[after.newest].step};
  for (int generation = 1; generation <= before.newest; ++generation) {
    for (int step = 1; step <= bounds_.steps; ++step) {
      if (!is_confirmed(before, generation, step)) continue;
      if (contains(after, start, {generation, step})) continue;
      for (int i = 0; i < kLaunchers; ++i) {
        const Launcher& one = before.launchers[static_cast<std::size_t>(i)];
        const bool holds = contains(before, holding_of(one), {generation, step});
        if (one.is_alive == 0 || !holds) continue;
        found_ =
            "confirmed step " + std::to_string(step) + " is lost though " + name(i) + " holds it";
      }
    }
  }
}

void Explorer::expand(const State& state) {
  for (int i = 0; i < kLaunchers; ++i) member_events(state, i);
  commits(state);
  for (int i = 0; i < kLaunchers; ++i) crashes(state, i);
}

SearchResult Explorer::run() {
  State first;
  for (int i = 0; i < 3; ++i) first.launchers[static_cast<std::size_t>(i)].is_alive = 1;
  first.records[1].members = static_cast<Mask>((1U << static_cast<unsigned>(bounds_.founders)) - 1);
  reach(first, {});
  while (!frontier_.empty() && result_.violation.empty()) {
    if (result_.states >= bounds_.states_max) {
      result_.is_complete = false;
      break;
    }
    const State state = frontier_.front();
    frontier_.pop_front();
    from_ = fingerprint(state);
    expand(state);
  }
  return result_;
}

}  // namespace

SearchResult search_generations(const SearchBounds& bounds) { return Explorer(bounds).run(); }

}  // namespace pawl::sim
