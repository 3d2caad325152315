// The inputs of the membership decision: everything that a launcher can learn. Values only;
// launcher.cpp gathers them, and membership.h decides what is done about them (action.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/api/channel.h"
#include "common/api/pulse.h"
#include "common/api/types.h"
#include "common/base/clock.h"
#include "launcher/membership/message.h"

namespace pawl::membership {

using PeerId = std::uint64_t;
inline constexpr PeerId kLeaderPeer =
    1;  // our own connection to the leader; inbound ones count from 2
inline constexpr PeerId kSelfPeer = 0;  // the leader's own member

struct Now {
  SteadyPoint steady;
  TimePoint wall;
};

struct RecordSeen {  // from a read, a watch event or the answer to a write
  api::WorkerGroup group;
  std::uint64_t read_id = 0;  // of the ReadRecord that it answers
};
struct RecordGone {  // 404 or 401: the job, or this pod, does not exist any more
  std::string why;
};
enum class WriteOutcome {
  kApplied,
  kUnclear,
  kRefused
};  // unclear: conflict or no answer, read again
struct WriteDone {
  WriteOutcome outcome = WriteOutcome::kApplied;
  std::string why;
};
struct PeerUp {};  // our dial has succeeded and the leader's certificate is the one in the record
struct PeerDown {
  PeerId peer = 0;
  std::string why;
};
struct PeerSaid {  // a Join comes only after its token was found to be that pod's
  PeerId peer = 0;
  Message message;
};
struct ProcessSaid {
  int local_rank = 0;
  api::channel::FromProcess message;
};
struct ProcessExited {
  int local_rank = 0;
  int exit_code = 0;  // 128 + signal where it was killed
  int signal = 0;
  bool was_told = false;          // we had asked it to stop, or signalled it, before it went
  bool was_killed = false;        // by SIGKILL, which did not come from us
  bool is_out_of_memory = false;  // the kernel killed it, for its container's memory
  std::string message, log_tail;
};
struct CheckpointSelected {
  std::int64_t step = 0;
  std::string load_uri;
  std::string error;  // storage could not be read: tried again
};
struct ShardWritten {
  int local_rank = 0, buffer = 0;
  ShardDone shard;
  std::string error;
};
struct PublishDone {
  std::int64_t step = 0;
  api::CheckpointStatus checkpoint;
  std::string error;
};
struct TerminationAsked {    // SIGTERM or SIGINT
  std::string interruption;  // or, if not empty, what the cloud says of this machine's end
};
// The look at this machine that comes before the first join (Identity::is_checked_first).
struct NodeChecked {
  std::string fault;  // why no worker may begin here; empty: it is well
};
struct NodeFault {  // its hardware has failed, and with it what runs here
  std::string what;
};
enum class RunState {
  kRuns,
  kStopped,  // by SIGSTOP or the like
  kTraced,   // a debugger holds it
  kEnds      // it writes its core, or gives back its memory
};
struct ProcessPulse {  // common/api/pulse.h; `beats` is 0 where nobody uses it
  int local_rank = 0;
  RunState state = RunState::kRuns;
  std::uint64_t beats = 0;
  api::Phase phase = api::Phase::kOther;
  std::int64_t step = 0;
  std::chrono::microseconds usual{0};  // between two beats of this phase; 0: not known
};
struct Tick {
  std::vector<ProcessPulse> pulses;  // of those that run
};

using Input = std::variant<RecordSeen, RecordGone, WriteDone, PeerUp, PeerDown, PeerSaid,
                           ProcessSaid, ProcessExited, CheckpointSelected, ShardWritten,
                           PublishDone, TerminationAsked, NodeChecked, NodeFault, Tick>;

}  // namespace pawl::membership
