// Where the time of a step goes on this rank: how much of it the training thread waited for the
// network, for the line of progress; and the steps that trace.folder asks for, as a file in the
// trace event format of Chrome, which chrome://tracing and ui.perfetto.dev draw. One process a
// rank with two rows: the training thread (a step, and the phases in it) and the network (the
// collectives). Times are microseconds since 1970, so that files of several ranks fit together as
// well as their machines' clocks.
//
// Called by the training thread. What is kept lies in buffers made before the first step; outside
// of the steps that are traced a call costs a comparison.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/include/pawl/config.h"

namespace pawl::trainer {

struct TraceOptions {
  std::int64_t generation = 1, start_step = 0;
  std::size_t events_max = std::size_t{1} << 15;  // in each row; more are counted, not kept
  std::function<void(const std::string& line)> print = [](const std::string&) {};  // for people
};

class Trace {
 public:
  Trace(const TraceConfig& config, TraceOptions options, const collective::Collective& ring,
        const Clock& clock);
  // Before the first step: makes the folder, and a file in it that is removed again. Of a run that
  // begins at step 0 a folder that cannot be written is an error (Invalid: says what to change;
  // Unavailable: another try may help). Of one that goes on it is said, and nothing is traced.
  Status open();
  void begin_step(std::int64_t step);
  // Ends the phase before. `phase` is a literal.
  void enter(const char* phase);
  // Behind the last step that is traced it writes the file; that it cannot is said, and no more.
  void end_step();
  // The run, or its generation, ends before the last of the steps: writes what there is. Of a
  // complete run that had none of them it says so.
  void finish(bool is_complete);
  // The ring has failed with `why` under an operation: writes the last ones that it has recorded,
  // as flight-rank<N>.json.
  void write_flight(const std::string& why);
  // ", communication exposed 3.1%": of the time since the last call that for which the training
  // thread waited. Nothing with one rank.
  std::string exposed();

 private:
  static constexpr char kStep[] = "step";
  // Of the training thread. `times`: of the ring, when it began; when it has ended, in between.
  struct Event {
    const char* name;
    std::int64_t step;
    SteadyPoint begun, ended;
    collective::Times times;
  };
  bool is_wanted() const { return !config_.folder.empty() && !is_refused_; }
  Event begin(const char* name) const {
    return {name, step_, clock_.steady_now(), {}, ring_.times()};
  }
  void end(Event event, const Event& next);
  void take_records(bool is_kept);
  void write();
  Status put(const std::string& name, const std::string& text) const;
  std::string file_name(const char* kind) const;
  std::string text() const;
  std::string text_of(const Event& event) const;
  std::string text_of(const collective::Record& record) const;
  std::int64_t micros(SteadyPoint time) const;

  const TraceConfig config_;
  const TraceOptions options_;
  const collective::Collective& ring_;
  const Clock& clock_;
  bool is_active_ = false, is_done_ = false, is_refused_ = false;
  std::int64_t step_ = 0, first_step_;
  Event whole_{}, phase_{};  // the step, and what is done now
  std::vector<Event> events_;
  std::vector<collective::Record> records_, scratch_;
  std::uint64_t sequence_ = 0;  // the newest collective that was looked at
  std::size_t dropped_ = 0;
  std::chrono::nanoseconds wall_offset_{};  // of the steady clock
  SteadyPoint told_at_;                     // by exposed()
  std::chrono::nanoseconds told_waited_{};
};

}  // namespace pawl::trainer
