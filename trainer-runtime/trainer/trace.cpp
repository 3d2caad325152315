#include "trainer-runtime/trainer/trace.h"

#include <array>
#include <cstdio>
#include <utility>

namespace pawl::trainer {
namespace {

using collective::Record;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

// The wall clock is read in milliseconds: where it changes, it is exact. At most a few milliseconds
// of looking, also at a clock that stands still.
nanoseconds offset_of(const Clock& clock) {
  constexpr int kLooksMax = 50'000;
  const TimePoint before = clock.now();
  TimePoint now = before;
  for (int i = 0; i < kLooksMax && now == before; ++i) now = clock.now();
  return duration_cast<nanoseconds>(now.time_since_epoch()) - clock.steady_now().time_since_epoch();
}

}  // namespace

Trace::Trace(const TraceConfig& config, TraceOptions options, const collective::Collective& ring,
             const Clock& clock)
    : config_(config),
      options_(std::move(options)),
      ring_(ring),
      clock_(clock),
      first_step_(options_.start_step + config.first_step),
      told_at_(clock.steady_now()),
      told_waited_(ring.times().waited) {
  if (!is_wanted()) return;
  events_.reserve(options_.events_max);
  records_.reserve(options_.events_max);
  scratch_.resize(collective::FlightRecorder::kRecords);
  wall_offset_ = offset_of(clock);
}

// Where the next one begins: nothing lies between two phases.
void Trace::end(Event event, const Event& next) {
  event.ended = next.begun;
  event.times = {next.times.waited - event.times.waited, next.times.ran - event.times.ran};
  if (events_.size() < options_.events_max) {
    events_.push_back(event);
  } else {
    ++dropped_;
  }
}

void Trace::begin_step(std::int64_t step) {
  if (!is_wanted() || is_done_ || step < first_step_) return;
  if (!std::exchange(is_active_, true)) take_records(false);
  step_ = step;
  phase_ = begin("other");
  whole_ = phase_;
  whole_.name = kStep;
}

void Trace::enter(const char* phase) {
  if (!is_active_) return;
  const Event next = begin(phase);
  end(phase_, next);
  phase_ = next;
}

void Trace::end_step() {
  if (!is_active_) return;
  const Event next = begin("other");
  end(phase_, next);
  end(whole_, next);
  phase_ = next;
  take_records(true);
  if (step_ + 1 >= first_step_ + config_.steps) write();
}

void Trace::finish(bool is_complete) {
  if (is_active_) {
    enter("other");
    take_records(true);
    return write();
  }
  if (is_complete && is_wanted() && !is_done_ && ring_.rank() == 0) {
    options_.print("trace: none is written: the run has ended before step " +
                   std::to_string(first_step_));
  }
}

// Those that have ended; of all that were asked for in a step it has waited for the end.
void Trace::take_records(bool is_kept) {
  const std::size_t count = ring_.records(sequence_, scratch_);
  for (const Record& record : std::span(scratch_).first(count)) {
    if (record.ended == SteadyPoint{}) break;
    if (is_kept) {
      dropped_ += static_cast<std::size_t>(record.sequence - sequence_ - 1);
      if (records_.size() < options_.events_max) {
        records_.push_back(record);
      } else {
        ++dropped_;
      }
    }
    sequence_ = record.sequence;
  }
}

void Trace::write() {
  is_active_ = false;
  is_done_ = true;
  const std::string name = file_name("trace"), rank = "rank " + std::to_string(ring_.rank());
  if (const Status written = put(name, text()); !written)
    return options_.print("trace: " + rank + " cannot write " + name + ": " +
                          written.error().message);
  if (dropped_ > 0) {
    options_.print("trace: " + std::to_string(dropped_) + " events of " + rank +
                   " had no room and are not in " + name);
  }
  if (ring_.rank() == 0) {
    options_.print("trace: steps " + std::to_string(first_step_) + " to " + std::to_string(step_) +
                   " are in " + config_.folder + "/" + name);
  }
}

std::string Trace::exposed() {
  const SteadyPoint now = clock_.steady_now();
  const nanoseconds waited = ring_.times().waited;
  const auto part = static_cast<double>((waited - std::exchange(told_waited_, waited)).count());
  const auto whole = static_cast<double>((now - std::exchange(told_at_, now)).count());
  if (ring_.world_size() == 1 || whole <= 0) return {};
  std::array<char, 60> text{};
  std::snprintf(text.data(), text.size(), ", communication exposed %.1f%%", 100 * part / whole);
  return text.data();
}

}  // namespace pawl::trainer
