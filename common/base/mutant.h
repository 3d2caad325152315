// Known bugs that the simulator switches on to prove that its oracles catch them (B01… are the
// classes of tests/sim/README.md), and arbitrary choices that it makes to shake hidden assumptions.
// In production both are constants that the compiler removes; only the preset `sim` defines
// PAWL_SIM. The two variables are the one exception to the rule against globals: a decision that
// took a "mutant" parameter would be other code than what runs in production, and the simulator is
// one process with one thread.
#pragma once

#include <utility>

#include "common/base/random.h"

namespace pawl {

enum class Mutant {
  kNone,
  kB01NoUid,               // deletions carry no UID
  kB01OwnerByName,         // children are known by the name of their owner
  kB02StatusWithoutLock,   // the job's status is written without a resourceVersion
  kB03NoGate,              // decides before its own writes are in the cache
  kB04DoubleCount,         // a failure that two sources tell of counts twice
  kB05GateStaysShut,       // waits to see a deleted pod terminate, which it may never
  kB06GroupFirst,          // the object that stands for "all are there" is made first
  kB07EdgeTriggered,       // forgets a suspension that it began when the user changes their mind
  kB08ListOrder,           // takes the order of a list for the order of slots
  kB09ParentDeleted,       // goes on making children of a job that is being deleted
  kB10AbsentField,         // takes an optional field to be there
  kB11BackInTime,          // takes an older list for a newer one
  kB12SilenceIsCalm,       // waits for ever on a stream that says nothing
  kB13GoneIgnored,         // 410 is retried at the same place
  kB13VanishedIgnored,     // what a new list lacks is kept
  kB14AppliedIsFailed,     // a creation whose reply was lost is an error when repeated
  kB15HotStatus,           // each status differs from the last
  kB16PermanentDiff,       // compares what it wants with what the other side fills in
  kB17RecordWithoutLock,   // launchers write the record without a resourceVersion
  kB18DropsForeignFields,  // a write takes away what somebody else wrote
  kB19PrunedUnnoticed,     // writes again and again what an older definition does not keep
  kB20ConflictStarves,     // after conflicts it waits longer and longer, without bound
  kB21LeadsTooLong,        // a leader does not notice that its lease has run out
  kB22WrongOwner,          // the owner reference has another UID
  kB24LongNames,           // long names are not understood
  kB25ForeignChildStalls,  // somebody else's pod with our kind of name stops the job
  kB26DisruptionCounts,    // preemption and eviction spend the user's budget
  kB27FinishedKeepsPods,   // what is over keeps its pods
  kB28WaitsForEver,        // a pod that never ends is waited for
  kB29BesideTerminating,   // starts beside pods that still terminate
  kB31ZeroIsAbsent,        // ttl 0 is taken for "not set"
  kB32NotWoken,            // changes of pods wake nobody
  kB36NoPromise,           // whoever has reported for a change goes on as before
  kB36HighestStep,         // the highest step wins, whatever generation made it
  kB36HollowUnproven,      // takes a generation for one without a step because nobody tells of one
  kB36SilentIsEmpty,       // who is not heard holds nothing
  kB37PartialCheckpoint,   // a checkpoint is published before all shards are there
  kB38RefusalForEver,      // a refused creation is never tried again
  kB39CountLost,           // a restart is not counted where the operator itself had restarted
  kB40OldAttemptStays,     // a launcher of an old attempt does not leave
  kB41StatusGrows,         // the status grows with each attempt
  kB42WrongAnchor,         // the time to save counts from the job's start
  kB43NoBackoff,           // failing gangs are recreated at once
  kB44Contradiction,       // suspended and running at once
  kB45HangUnseen,          // a process that neither goes on nor ends is waited for
  kI7LossUnconfirmed,      // a pod that the cache lacks is lost
  kI5OutlivedBlamed,       // what the gang has outlived ends its attempt
  kI8VictimBlamed,         // the first who failed is blamed, victim or not
  kI9EarlySuccess,         // one worker's success is the job's
  kI21OldReport,           // the report of an older attempt is taken
  kI22OrphanUnread,        // orphans are deleted without a look at the job
  kI33FaultReplaced,       // a worker that failed by itself is replaced like one that was lost
  kI35GangTooSmall,        // a gang goes on with fewer members than it has to have
  kI50SparesTrain,         // workers that are to wait are let in
  kI51RanksBySlot,         // ranks are not dealt anew
  kI52ForEver,             // pods without nodes wait for ever
  kI53TornSlice,           // who comes later is near the others, in no slice
  kI37VictimBlamed,        // a program whose peer was lost is blamed for its own end
  kI36SignalIgnored,       // workers stay on a machine that is about to go
  kI42SlowStays,           // no rule moves a worker that holds up its gang
  kI43Unplaced,            // pods are made before their nodes are decided on
  kI44QuotaUnseen,         // quotas are not looked at
  kO14ClaimedByAll,        // what is a queue's own is kept for others that have waited for long
  kI45EqualsLeave,         // who has the same priority has to make room
  kI45Forgotten,           // a job that was to leave stays, if nobody asks for that any more
  kI45BelowLeast,          // a gang that becomes smaller has one less than its least
  kI38CountsForgotten,     // the launchers' counts are not taken
  kI38RecoveryUncounted,   // a gang with another leader counts no recovery
  kI39RedoneIsNew,         // steps that are made again count as productive
  kI39LostAttempt,         // the time of a restart is in no account
  kI40FaultCounts,         // a GPU that fails spends the user's budget
  kI40NodeForgotten,       // a node whose GPU has failed gets the next pod, too
  kI41AnchorOnSpot,        // a worker that is never to be on spot may be
  kI41FallbackUnused,      // new pods go to spot as before, whatever the status says
  kI41SpotForEver,         // spot that keeps failing is used on
  kI41NeverReturns,        // … and once it is not, never again
  kI34MemberTakenAway,  // a pod of a gang that is to be smaller goes before its gang has let it go
};

#ifdef PAWL_SIM
inline Mutant active_mutant = Mutant::kNone;
inline Random* shuffle_random = nullptr;  // null: nothing is shuffled
inline bool is_mutant(Mutant mutant) { return active_mutant == mutant; }
template <typename Items>
void shuffle_in_simulation(Items& items) {
  if (shuffle_random == nullptr) return;
  for (auto i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[static_cast<decltype(i)>(shuffle_random->below(i))]);
  }
}
#else
constexpr bool is_mutant(Mutant) { return false; }
template <typename Items>
void shuffle_in_simulation(Items&) {}
#endif

}  // namespace pawl
