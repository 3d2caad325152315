// Which state the members of a gang hold in memory, and from which one the next generation goes on:
// rules 2 to 6 of the membership protocol (design §5), as pure functions of small values. Gang asks
// them before each commit, Member before it enters a generation; tests/sim/generation_search
// explores every order of events with them.
#pragma once

#include <cstdint>
#include <span>

#include "common/api/types.h"

namespace pawl::membership {

// A complete state in the memory of one process.
struct Holding {
  std::int64_t generation = 0;  // the newest whose start state it held; 0: it holds nothing
  std::int64_t step = 0;        // the last that it applied
  bool operator==(const Holding&) const = default;
};

// A generation as the record tells of it.
struct GenerationStart {
  std::int64_t generation = 0;
  std::int64_t base = 0;  // the generation whose state it goes on from; 0: from storage
  std::int64_t step = 0;  // with which it starts
};

// ---- a member

// What a member has entered and promised. It enters a generation once, and none that it has
// promised to leave alone.
class Standing {
 public:
  // It has reported to whoever read `generation`: until a newer one is committed it contributes to
  // nothing.
  void promise(std::int64_t generation);
  bool may_enter(std::int64_t generation) const;
  void enter(std::int64_t generation) { entered_ = generation; }
  std::int64_t entered() const { return entered_; }
  std::int64_t promised() const { return promised_; }
  // It may contribute to the steps of the generation that it has entered.
  bool is_bound() const { return promised_ < entered_; }

 private:
  std::int64_t entered_ = 0, promised_ = 0;
};

// Whether a process can never have held the start state of `generation`, and by its promise never
// will. `may_have_held`: it, or one that it replaced, was welcomed into it and is gone.
bool has_surely_never_held(std::int64_t generation, const Holding& held, bool may_have_held);

// Whether the run's history goes through this state: no later generation of `line` began before it.
bool is_on_line(const Holding& held, std::span<const api::LineageEntry> line);

// ---- who commits

// One process of a parked member: a member has as many reports as processes, and none while it is
// not heard.
struct ParkedReport {
  bool is_member = false;       // of the newest generation, with the same (uid, start)
  bool is_base_member = false;  // of the generation that the newest one goes on from
  // One of its processes surely never held the newest generation's start state, and by the promise
  // never will: nobody can have made a step in it. False where a process that may have held it is
  // gone. Where each process holds a part of the state alone: nobody holds the whole of any step
  // that was made in it.
  bool has_never_held = false;
  // `held` lies on the line that the newest generation went on from: what counts when that is void.
  bool is_on_line = false;
  Holding held;
};

enum class Source {
  kWait,     // somebody who may hold a newer state is not heard: nobody loads anything
  kMemory,   // of the reporters that hold (base, step)
  kStorage,  // nobody holds the newest state any more: the newest checkpoint, unless `step` is
             // newer
};
struct NextStart {
  Source source = Source::kWait;
  std::int64_t base = 0;  // of the memory that goes on; with kStorage: 0, or the best on the line
  std::int64_t step = 0;
};

// `is_all_accounted`: every member of the newest generation and of its base has reported, or is out
// of spec.pods (the operator has voided what it held).
NextStart next_start(const GenerationStart& newest, std::span<const ParkedReport> reports,
                     bool is_all_accounted);

// Who may hold the state that the generation after `newest` goes on from, where that begins with
// `start`.
enum class BaseMembers {
  kNobody,     // it comes from storage
  kMembers,    // those of `newest`
  kUnchanged,  // the base members of `newest`
  kHolders     // those who reported (start.base, start.step)
};
BaseMembers base_members_after(const GenerationStart& newest, const NextStart& start);

}  // namespace pawl::membership
