#include "tests/sim/generation_model.h"

#include <algorithm>
#include <cstring>

#include "common/base/random.h"

namespace pawl::sim::model {

using namespace membership;  // NOLINT: this file is about its rules.

std::uint64_t fingerprint(const State& state) {
  std::array<std::uint64_t, (sizeof(State) + 7) / 8> words{};
  std::memcpy(words.data(), &state, sizeof state);
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) hash = mix64(hash ^ word) + word;
  return hash;
}

Standing standing_of(const Launcher& one) {
  Standing standing;
  standing.enter(one.entered);
  standing.promise(one.promised);
  return standing;
}
Holding holding_of(const Launcher& one) { return {one.held_generation, one.held_step}; }
GenerationStart start_of(const State& state, int generation) {
  const Record& record = state.records[static_cast<std::size_t>(generation)];
  return {generation, record.base, record.step};
}

std::string name(int launcher) { return std::string(1, static_cast<char>('A' + launcher)); }
std::string names(Mask mask) {
  std::string text;
  for (int i = 0; i < kLaunchers; ++i) {
    if ((mask & bit(i)) != 0) text += name(i);
  }
  return "{" + text + "}";
}

std::string text_of(const Event& event) {
  const std::string who = name(event.who), number = std::to_string(event.number);
  switch (event.kind) {
    case Event::Kind::kBegin:
      return "the first generation is committed";
    case Event::Kind::kPark:
      return who + " parks for " + number;
    case Event::Kind::kEnter:
      return who + " enters " + number;
    case Event::Kind::kReceive:
      return who + " receives the start of " + number;
    case Event::Kind::kContribute:
      return who + " contributes to step " + std::to_string(event.step) + " of " + number;
    case Event::Kind::kApply:
      return who + " applies step " + std::to_string(event.step) + " of " + number;
    case Event::Kind::kCommit:
      return "generation " + number + " of " + names(event.members) + " is committed at step " +
             std::to_string(event.step) + " by the reports of " + names(event.reporters);
    case Event::Kind::kRemove:
      return "the operator removes " + who;
    case Event::Kind::kCrash:
      return who + " crashes, another comes";
    case Event::Kind::kProcessCrash:
      return "the process of " + who + " crashes";
  }
  return "";
}

bool is_confirmed(const State& state, int generation, int step) {
  const Record& record = state.records[static_cast<std::size_t>(generation)];
  const Mask applied = record.applied[static_cast<std::size_t>(step)];
  return applied != 0 && (record.members == 0 || applied == record.members);
}

bool contains(const State& state, Holding held, const Holding& step) {
  while (held.generation > step.generation) {
    const Record& record = state.records[static_cast<std::size_t>(held.generation)];
    held = {record.base, record.step};
  }
  return held.generation == step.generation && held.generation > 0 && held.step >= step.step;
}

namespace {

// Whether anybody may still do something in it.
bool is_open(const State& state, int generation) {
  for (int i = 0; i < kLaunchers; ++i) {
    const Launcher& one = state.launchers[static_cast<std::size_t>(i)];
    const Mask members = state.records[static_cast<std::size_t>(generation)].members;
    if (one.is_alive == 0 || (members & bit(i)) == 0) continue;
    const Standing standing = standing_of(one);
    if (standing.may_enter(generation)) return true;
    if (one.entered == generation && standing.is_bound()) return true;
  }
  return false;
}

}  // namespace

void forget_the_past(State& state) {
  for (Launcher& one : state.launchers) {
    if (one.is_alive == 0) one.entered = one.promised = one.may_have_held = 0;
  }
  for (int generation = 1; generation <= state.newest; ++generation) {
    if (is_open(state, generation)) continue;
    Record& record = state.records[static_cast<std::size_t>(generation)];
    // Of the older ones only what was confirmed is asked for; without members nobody enters them.
    Record rest;
    if (generation == state.newest) rest = record;
    rest.step = record.step;
    rest.base = record.base;
    rest.sent = {};
    rest.holders = 0;
    for (int step = 0; step <= kStepsMax; ++step) {
      rest.applied[static_cast<std::size_t>(step)] =
          is_confirmed(state, generation, step) ? std::max(rest.members, Mask{1}) : Mask{0};
    }
    record = rest;
  }
}

}  // namespace pawl::sim::model
