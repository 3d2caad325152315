// The states and events of generation_search.cpp: three launchers, whoever comes for one that
// crashed, and the record. Small, and without a clock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "launcher/membership/generations.h"

namespace pawl::sim::model {

using Mask = std::uint8_t;  // of launchers

constexpr int kLaunchers = 5;  // three, and whoever comes for one that crashed
constexpr int kGenerationsMax = 6, kStepsMax = 3;

constexpr Mask bit(int launcher) {
  return static_cast<Mask>(1U << static_cast<unsigned>(launcher));
}

struct Launcher {
  std::uint8_t entered = 0, promised = 0;
  std::uint8_t held_generation = 0, held_step = 0;
  std::uint8_t is_alive = 0, has_sent = 0;
  std::uint8_t may_have_held = 0;  // a process that was in `entered` is gone
  // As it reported to whoever read the newest generation; its promise keeps it true.
  std::uint8_t is_parked = 0, told_generation = 0, told_step = 0, told_never_held = 0;
};
struct Record {
  std::uint8_t base = 0, step = 0;
  Mask members = 0, base_members = 0;
  Mask holders = 0;  // that have ever held its start state
  std::array<Mask, kStepsMax + 1> sent{}, applied{};
};
// Bytes only, so that equal states are equal bytes.
struct State {
  std::array<Launcher, kLaunchers> launchers{};
  std::array<Record, kGenerationsMax + 1> records{};
  std::uint8_t newest = 1, launcher_crashes = 0, process_crashes = 0;
  Mask removed = 0;  // by the operator
};
static_assert(std::has_unique_object_representations_v<State>);

std::uint64_t fingerprint(const State& state);
membership::Standing standing_of(const Launcher& one);
membership::Holding holding_of(const Launcher& one);
membership::GenerationStart start_of(const State& state, int generation);
bool is_confirmed(const State& state, int generation, int step);
// Whether the history behind `held` has `step` in it.
bool contains(const State& state, membership::Holding held, const membership::Holding& step);
// Makes states equal that differ only in what can have no consequence any more.
void forget_the_past(State& state);

struct Event {
  enum class Kind : std::uint8_t {
    kBegin,
    kPark,
    kEnter,
    kReceive,
    kContribute,
    kApply,
    kCommit,
    kRemove,
    kCrash,
    kProcessCrash
  };
  Kind kind = Kind::kBegin;
  std::uint8_t who = 0, number = 0, step = 0;
  Mask members = 0, reporters = 0;
};

std::string name(int launcher);
std::string text_of(const Event& event);

}  // namespace pawl::sim::model
