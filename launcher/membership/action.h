// The actions of the membership decision: everything that a launcher can do. Values only. Actions
// are performed in order by launcher.cpp, which decides nothing; each action that has an answer
// names the input (input.h) that brings it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/api/channel.h"
#include "common/api/types.h"
#include "launcher/membership/input.h"
#include "launcher/membership/message.h"

namespace pawl::membership {

struct ReadRecord {  // → RecordSeen with this id
  std::uint64_t id = 0;
};
struct WatchRecord {
  bool is_on = true;
};
struct WriteStatus {  // → WriteDone (and RecordSeen if applied); one at a time
  std::string resource_version;
  api::WorkerGroupStatus before, after;
};
struct Dial {  // → PeerUp, or PeerDown{kLeaderPeer}; replaces an older connection to a leader
  std::string address, fingerprint;
};
struct Send {
  PeerId peer = 0;
  Message message;
};
struct HangUp {
  PeerId peer = 0;
};
struct SelectCheckpoint {  // → CheckpointSelected
  std::vector<api::LineageEntry> lineage;
  std::string published_uri;  // of the record's checkpoint: nothing older will do while it is good
};
// Where the processes of this member stand in the gang.
struct Placement {
  int member_rank = 0, members = 1;
  std::int64_t attempt = 0, generation = 0;
  std::string master_address;
  std::uint16_t master_port = 0;
  std::vector<std::string> addresses = {};  // of all processes, by rank, where they are asked for
  std::string key =
      {};  // hex, of this generation; for MPI and Ray, whose workers run what is asked
};
struct StartProcesses {  // → ProcessExited for each, one day; without a place: they learn it from
                         // Welcome
  std::optional<Placement> placement;
};
struct ReplaceProcess {  // a new one in the place of one that ended → ProcessExited, one day
  int local_rank = 0;
};
struct KillProcess {  // at once → ProcessExited, as of one that was killed by anybody
  int local_rank = 0;
};
struct TellProcess {
  int local_rank = 0;
  api::channel::ToProcess message;
};
struct StopProcesses {  // TERM now, KILL after `grace`; repeated: the shorter time counts
  std::chrono::milliseconds grace{};
};
struct WriteShard {  // → ShardWritten
  int local_rank = 0, buffer = 0;
  int rank = 0, world_size = 1;
  std::int64_t step = 0, attempt = 0, generation = 0;
  std::uint64_t bytes = 0;
  std::string manifest_json;
};
// The answer to `wanted`, to be filled in.
inline ShardWritten answer_to(const WriteShard& wanted) {
  return {.local_rank = wanted.local_rank,
          .buffer = wanted.buffer,
          .shard = {.rank = wanted.rank, .generation = wanted.generation, .step = wanted.step}};
}
struct PublishCheckpoint {  // → PublishDone; old ones are cleaned up with it
  std::int64_t step = 0, attempt = 0, generation = 0;
  int world_size = 1;
  std::string trainer_json;
  std::vector<ShardDone> shards;           // by rank
  std::vector<api::LineageEntry> lineage;  // what lies off it does not count among those to keep
};
// What saves that were never finished have left, of this job: of earlier generations; of one step
// of ours, which nobody writes to any more. Published ones are never touched.
struct CleanUpCheckpoints {
  std::int64_t attempt = 0, generation = 0;
};
struct DiscardCheckpoint {
  std::int64_t step = 0, attempt = 0, generation = 0;
};
struct SetReady {
  bool is_ready = true;
};
struct WriteTermination {
  api::Failure failure;
};
struct Note {  // one line for the log: what was decided and why
  std::string event, text;
  bool is_warning = false;
};
struct Leave {  // flush what is queued to the peers, then exit
  int exit_code = 0;
};

using Action =
    std::variant<ReadRecord, WatchRecord, WriteStatus, Dial, Send, HangUp, SelectCheckpoint,
                 StartProcesses, ReplaceProcess, KillProcess, TellProcess, StopProcesses,
                 WriteShard, PublishCheckpoint, CleanUpCheckpoints, DiscardCheckpoint, SetReady,
                 WriteTermination, Note, Leave>;

}  // namespace pawl::membership
