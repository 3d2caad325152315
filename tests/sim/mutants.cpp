#include "tests/sim/mutants.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "common/base/check.h"
#include "tests/sim/stories.h"

namespace pawl::sim {
namespace {

constexpr unsigned kSecondsMax = 240;

// What the child tells while it runs, so that nothing is lost when it aborts.
struct Board {
  std::uint64_t seeds;
  bool is_killed;
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
  const Exploration all = explore("", false);
  if (all.failures.empty()) return;
  note(board, all.failures.front().second);
  std::snprintf(board.experiment, sizeof board.experiment, "%s",
                all.failures.front().first.text().c_str());
}

}  // namespace

const std::vector<MutantName>& mutants() {
  static const std::vector<MutantName> kAll = {
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
      {Mutant::kB20ConflictStarves, "B20ConflictStarves"},
      {Mutant::kB22WrongOwner, "B22WrongOwner", true},
      {Mutant::kB24LongNames, "B24LongNames", true},
      {Mutant::kB25ForeignChildStalls, "B25ForeignChildStalls"},
      {Mutant::kB26DisruptionCounts, "B26DisruptionCounts", true},
      {Mutant::kB27FinishedKeepsPods, "B27FinishedKeepsPods"},
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
      {Mutant::kI7LossUnconfirmed, "I7LossUnconfirmed"},
      {Mutant::kI8VictimBlamed, "I8VictimBlamed"},
      {Mutant::kI9EarlySuccess, "I9EarlySuccess"},
      {Mutant::kI21OldReport, "I21OldReport"},
      {Mutant::kI22OrphanUnread, "I22OrphanUnread"},
      {Mutant::kLUnclearNotRead, "LUnclearNotRead"},
  };
  return kAll;
}

Kill hunt(Mutant mutant, std::uint64_t first, std::uint64_t seeds_max, bool is_exhaustive) {
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  PAWL_CHECK(memory != MAP_FAILED, "no shared memory");
  auto* board = new (memory) Board{};
  const pid_t child = ::fork();
  PAWL_CHECK(child >= 0, "no process");
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    ::alarm(kSecondsMax);
    active_mutant = mutant;
    if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(2);  // its checks speak there
    search(*board, first, seeds_max, is_exhaustive);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Kill kill{board->is_killed, board->oracle, board->seeds, board->experiment};
  if (WIFSIGNALED(status)) {
    kill.is_killed = WTERMSIG(status) != SIGALRM && WTERMSIG(status) != SIGKILL;
    kill.oracle = kill.is_killed ? "O13" : "out of time";
  }
  ::munmap(memory, sizeof(Board));
  return kill;
}

}  // namespace pawl::sim
