#include "tests/sim/mutants.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <functional>
#include <new>

#include "common/base/check.h"
#include "tests/sim/stories.h"

namespace pawl::sim {
namespace {

// Of the processor: beside other work a mutant lives no shorter.
constexpr unsigned kSecondsMax = 600;

void limit_time() {
  constexpr unsigned kWallFactor = 20;  // for one that waits for ever
  const ::rlimit time{kSecondsMax, kSecondsMax};
  PAWL_CHECK(::setrlimit(RLIMIT_CPU, &time) == 0, "no limit of time");
  ::alarm(kWallFactor * kSecondsMax);
}

// What a child tells while it runs, so that nothing is lost when it aborts.
struct Board {
  std::uint64_t seeds;
  bool is_exploring, is_killed;
  char oracle[16];
  char experiment[64];
};

void note(Board& board, const Failure& failure) {
  board.is_killed = true;
  std::snprintf(board.oracle, sizeof board.oracle, "%s", failure.oracle.c_str());
}

void search(Board& board, std::uint64_t first, std::uint64_t seeds_max, bool is_exhaustive) {
  for (std::uint64_t seed = first; seed < first + seeds_max; ++seed) {
    ++board.seeds;
    const RunResult result = run_seed(seed, false);
    if (result.failure) return note(board, *result.failure);
  }
  if (!is_exhaustive) return;
  board.is_exploring = true;
  const Exploration all = explore("", false);
  if (all.failures.empty()) return;
  note(board, all.failures.front().second);
  std::snprintf(board.experiment, sizeof board.experiment, "%s",
                all.failures.front().first.text().c_str());
}

// In a process of its own, with that mutant, until it ends, aborts or runs out of time.
Board perform(Mutant mutant, const std::function<void(Board&)>& work) {
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  PAWL_CHECK(memory != MAP_FAILED, "no shared memory");
  auto* shared = new (memory) Board{};
  const pid_t child = ::fork();
  PAWL_CHECK(child >= 0, "no process");
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    limit_time();
    active_mutant = mutant;
    if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(2);  // its checks speak there
    work(*shared);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Board board = *shared;
  ::munmap(memory, sizeof(Board));
  if (!WIFSIGNALED(status)) return board;
  const bool is_late = WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGKILL;
  board.is_killed = !is_late;
  std::snprintf(board.oracle, sizeof board.oracle, "%s", is_late ? "out of time" : "O13");
  return board;
}

// What fails without the mutant too is no sign of it.
bool passes_unmutated(std::uint64_t seed) {
  return !perform(Mutant::kNone, [seed](Board& board) { search(board, seed, 1, false); }).is_killed;
}

const std::vector<MutantName> kAll = {
    {Mutant::kB01NoUid, "B01NoUid", true},
    {Mutant::kB01OwnerByName, "B01OwnerByName", true},
    {Mutant::kB02StatusWithoutLock, "B02StatusWithoutLock", true},
    {Mutant::kB03NoGate, "B03NoGate", true},
    {Mutant::kB04DoubleCount, "B04DoubleCount"},
    {Mutant::kB05GateStaysShut, "B05GateStaysShut", true},
    {Mutant::kB06GroupFirst, "B06GroupFirst", true},
    {Mutant::kB07EdgeTriggered, "B07EdgeTriggered"},
    {Mutant::kB08ListOrder, "B08ListOrder", true},
    {Mutant::kB09ParentDeleted, "B09ParentDeleted"},
    {Mutant::kB10AbsentField, "B10AbsentField"},
    {Mutant::kB11BackInTime, "B11BackInTime"},
    {Mutant::kB12SilenceIsCalm, "B12SilenceIsCalm", true},
    {Mutant::kB13GoneIgnored, "B13GoneIgnored", true},
    {Mutant::kB13VanishedIgnored, "B13VanishedIgnored", true},
    {Mutant::kB14AppliedIsFailed, "B14AppliedIsFailed", true},
    {Mutant::kB15HotStatus, "B15HotStatus", true},
    {Mutant::kB16PermanentDiff, "B16PermanentDiff", true},
    {Mutant::kB17RecordWithoutLock, "B17RecordWithoutLock", true},
    {Mutant::kB18DropsForeignFields, "B18DropsForeignFields", true},
    {Mutant::kB19PrunedUnnoticed, "B19PrunedUnnoticed"},
    {Mutant::kB20ConflictStarves, "B20ConflictStarves"},
    {Mutant::kB21LeadsTooLong, "B21LeadsTooLong"},
    {Mutant::kB22WrongOwner, "B22WrongOwner", true},
    {Mutant::kB24LongNames, "B24LongNames", true},
    {Mutant::kB25ForeignChildStalls, "B25ForeignChildStalls"},
    {Mutant::kB26DisruptionCounts, "B26DisruptionCounts", true},
    {Mutant::kB27FinishedKeepsPods, "B27FinishedKeepsPods"},
    {Mutant::kB28WaitsForEver, "B28WaitsForEver"},
    {Mutant::kB29BesideTerminating, "B29BesideTerminating", true},
    {Mutant::kB31ZeroIsAbsent, "B31ZeroIsAbsent", true},
    {Mutant::kB32NotWoken, "B32NotWoken", true},
    {Mutant::kB37PartialCheckpoint, "B37PartialCheckpoint", true},
    {Mutant::kB38RefusalForEver, "B38RefusalForEver"},
    {Mutant::kB39CountLost, "B39CountLost"},
    {Mutant::kB40OldAttemptStays, "B40OldAttemptStays"},
    {Mutant::kB41StatusGrows, "B41StatusGrows", true},
    {Mutant::kB42WrongAnchor, "B42WrongAnchor"},
    {Mutant::kB43NoBackoff, "B43NoBackoff"},
    {Mutant::kB44Contradiction, "B44Contradiction"},
    {Mutant::kB45HangUnseen, "B45HangUnseen"},
    {Mutant::kI5OutlivedBlamed, "I5OutlivedBlamed"},
    {Mutant::kI33FaultReplaced, "I33FaultReplaced"},
    {Mutant::kI34MemberTakenAway, "I34MemberTakenAway"},
    {Mutant::kI36SignalIgnored, "I36SignalIgnored"},
    {Mutant::kI42SlowStays, "I42SlowStays"},
    {Mutant::kI43Unplaced, "I43Unplaced"},
    {Mutant::kI44QuotaUnseen, "I44QuotaUnseen"},
    {Mutant::kI45EqualsLeave, "I45EqualsLeave"},
    {Mutant::kI45Forgotten, "I45Forgotten"},
    {Mutant::kI45BelowLeast, "I45BelowLeast"},
    {Mutant::kI40FaultCounts, "I40FaultCounts"},
    {Mutant::kI40NodeForgotten, "I40NodeForgotten"},
    {Mutant::kI41AnchorOnSpot, "I41AnchorOnSpot"},
    {Mutant::kI41FallbackUnused, "I41FallbackUnused"},
    {Mutant::kI41SpotForEver, "I41SpotForEver"},
    {Mutant::kI41NeverReturns, "I41NeverReturns"},
    {Mutant::kI37VictimBlamed, "I37VictimBlamed"},
    {Mutant::kI35GangTooSmall, "I35GangTooSmall"},
    {Mutant::kI50SparesTrain, "I50SparesTrain"},
    {Mutant::kI51RanksBySlot, "I51RanksBySlot"},
    {Mutant::kI52ForEver, "I52ForEver"},
    {Mutant::kI53TornSlice, "I53TornSlice"},
    {Mutant::kI7LossUnconfirmed, "I7LossUnconfirmed"},
    {Mutant::kI8VictimBlamed, "I8VictimBlamed"},
    {Mutant::kI9EarlySuccess, "I9EarlySuccess"},
    {Mutant::kI21OldReport, "I21OldReport"},
    {Mutant::kI22OrphanUnread, "I22OrphanUnread"},
    {Mutant::kI38CountsForgotten, "I38CountsForgotten"},
    {Mutant::kI38RecoveryUncounted, "I38RecoveryUncounted"},
    {Mutant::kI39RedoneIsNew, "I39RedoneIsNew"},
    {Mutant::kI39LostAttempt, "I39LostAttempt"},
};

}  // namespace

const std::vector<MutantName>& mutants() { return kAll; }

Kill hunt(Mutant mutant, std::uint64_t first, std::uint64_t seeds_max, bool is_exhaustive) {
  Kill kill;
  while (true) {
    const Board board = perform(mutant, [&](Board& shared) {
      search(shared, first + kill.seeds, seeds_max - kill.seeds, is_exhaustive);
    });
    kill.seeds += board.seeds;
    kill.is_killed = board.is_killed;
    kill.oracle = board.oracle;
    kill.experiment = board.experiment;
    const bool is_by_seed = board.is_killed && !board.is_exploring && mutant != Mutant::kNone;
    if (!is_by_seed || passes_unmutated(first + kill.seeds - 1)) return kill;
  }
}

}  // namespace pawl::sim
