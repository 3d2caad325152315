// The leader's account of what losses cost: how often the gang was formed anew, and where its time
// went, by this process's steady clock alone. It goes on from what the record tells, and is told in
// writes that happen anyway, so that a leader that is lost takes at most one interval of reports
// with it, which counts as nothing. Pure; owned by Gang.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/api/tally.h"
#include "launcher/membership/action.h"
#include "launcher/membership/input.h"

namespace pawl::membership {

// Why a gang is formed anew. Of several reasons the last of this list counts.
enum class Change {
  kResized,        // nobody was lost: another size, or a worker that comes in
  kWorkerLeft,     // a worker was told to terminate
  kConnection,     // processes have lost each other, and nobody is known to have failed
  kLeaderChanged,  // another launcher leads
  kWorkerLost,     // a launcher is not heard any more
  kFailed,         // a process ended, by a code of its own or one that says "not my fault"
  kHang,
  kSignal
};
Change change_of(const std::string& cause);  // of a failure

class LossLedger {
 public:
  // `attempt`: of this gang.
  void begin(const api::Tally& known, std::int64_t attempt);

  // The gang rests, or has one more reason to.
  void on_change(Change change, SteadyPoint now);
  // A generation is about to be committed. What its change has cost so far is told with it: who
  // sees that the gang has trained takes all time that is in no account for the attempt's start.
  void on_proposal(SteadyPoint now);
  // To be written with the commit of the generation that follows.
  void count(api::Recoveries& recoveries) const;
  void on_commit(std::int64_t generation, std::int64_t start_step);
  // Told by rank 0 of the generation that runs.
  void on_step(std::int64_t step, SteadyPoint now);
  // Of programs that have never told a step: the time in which they run counts.
  void on_programs_start(SteadyPoint now);
  // The programs of the newest generation have run since then under another leader.
  void on_programs_ran(std::int64_t generation, SteadyPoint since, SteadyPoint now);
  void on_end(SteadyPoint now);

  // `now`: of both clocks, at the same moment.
  api::GangTime time(const Now& now) const;

 private:
  enum class Since { kNothing, kStep, kStart, kChange };  // what the time since mark_ is
  void take(std::chrono::nanoseconds& account, SteadyPoint now);
  void note_training(SteadyPoint since);

  api::GangTime known_;
  std::int64_t attempt_ = 0, generation_ = 0, step_ = 0;  // step_: the last of this generation
  std::optional<Change> change_;                          // since the last commit
  bool has_lost_ = false;                                 // somebody, since the last step
  Since since_ = Since::kNothing;
  SteadyPoint mark_{};
  std::optional<SteadyPoint> trains_since_;  // the first moment of this attempt, if seen here
  std::chrono::nanoseconds productive_{0}, redone_{0}, recovered_{0}, resized_{0};
};

}  // namespace pawl::membership
