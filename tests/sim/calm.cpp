#include "tests/sim/calm.h"

namespace pawl::sim {
namespace {

using namespace membership;  // NOLINT: this file sorts its inputs and nothing else.

constexpr milliseconds kTickEvery{200};
// Longer than every wait of a membership whose end must not be missed by seconds.
constexpr seconds kSettlesWithin{40};

bool is_routine(const Message& message) {
  return std::holds_alternative<Heartbeat>(message) || std::holds_alternative<Progress>(message) ||
         std::holds_alternative<ShardDone>(message) ||
         std::holds_alternative<membership::Published>(message);
}

}  // namespace

// Beats come with the ticks of those that send them.
Timings Calm::timings() const {
  Timings timings;
  if (pace_.calm_tick.count() == 0) return timings;
  timings.heartbeat = 2 * pace_.calm_tick;
  timings.dead = 6 * pace_.calm_tick;
  return timings;
}

bool Calm::is_calm() const {
  return pace_.calm_tick.count() > 0 && engine_.elapsed() - last_news_ > kSettlesWithin;
}

milliseconds Calm::tick_every() const {
  if (is_calm()) return pace_.calm_tick;
  return pace_.busy_tick.count() > 0 ? pace_.busy_tick : kTickEvery;
}

// What a gang that trains does not hear all the time.
bool Calm::is_news(const Input& input) {
  if (const auto* said = std::get_if<PeerSaid>(&input)) return !is_routine(said->message);
  if (const auto* said = std::get_if<ProcessSaid>(&input)) {
    return !std::holds_alternative<api::channel::Report>(said->message) &&
           !std::holds_alternative<api::channel::Sealed>(said->message);
  }
  if (const auto* seen = std::get_if<RecordSeen>(&input)) {
    const std::pair shown{seen->group.spec, seen->group.status.generation};
    if (known_ == shown) return false;
    known_ = shown;
    return true;
  }
  return !std::holds_alternative<Tick>(input) && !std::holds_alternative<ShardWritten>(input) &&
         !std::holds_alternative<PublishDone>(input) && !std::holds_alternative<WriteDone>(input);
}

bool Calm::is_ended_by(const Input& input) {
  if (pace_.calm_tick.count() == 0 || !is_news(input)) return false;
  const bool was_calm = is_calm();
  last_news_ = engine_.elapsed();
  return was_calm;
}

}  // namespace pawl::sim
