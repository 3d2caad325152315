// What launchers of one gang say to each other over their TLS connections: one JSON object a frame,
// field "type" = the struct's name in snake_case. A member's own messages to a leader in the same
// launcher take the same way, without the wire. Unknown types are ignored, so that both sides can
// grow. Pure.
//
// A change (design §5, rules 2 and 3): a member tells of it (ProcessLost, Broken), the leader asks
// all for a report (Park), each brings its processes to rest and reports what they hold (Parked),
// and the next Commit says from whose state the new generation goes on.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/api/channel.h"
#include "common/api/types.h"
#include "common/base/result.h"
#include "launcher/membership/generations.h"

namespace pawl::membership {

// ---- member → leader
struct Join {  // first on every connection; `token` proves the pod UID
  int version = 0;
  api::MemberRef self;
  std::int64_t attempt = 0;
  int slot = -1;
  std::string pod, node;
  std::string token;
  std::string
      address;  // of this launcher's own listener; its host is also where its processes listen
  std::uint16_t master_port = 0;  // free on this host: MASTER_PORT if this member gets rank 0
  // Free, too, for another framework's processes to listen, by local rank; the first is
  // master_port.
  std::vector<std::uint16_t> ports;
  int processes = 1;
  std::string fingerprint;  // of its certificate: the lead may be handed over to it
  bool is_leaving = false;  // told to go, as with Leaving
};
struct Ready {                            // every local process said Hello
  std::vector<std::uint16_t> data_ports;  // by local rank
  std::string config_hash;
  bool holds_part = false;  // of the state, as Hello
};
struct Progress {
  api::channel::Report report;
};
struct ShardDone {  // a shard of this step is on storage
  int rank = 0;
  std::int64_t generation = 0;
  std::int64_t step = 0;
  std::string file;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  std::string sha256;
  std::string manifest_json;  // of rank 0
};
struct ShardFailed {
  int rank = 0;
  std::int64_t generation = 0;
  std::int64_t step = 0;
  std::string why;
};
struct Leaving {};  // told to go (SIGTERM); the leader says when
struct Exit {       // a process failed; the first cause of the end of this attempt
  api::Failure failure;
};
struct ProcessLost {  // it has ended, with the state that it held, and another may take its place
  api::Failure failure;
};
struct Broken {  // a process has parked by itself: a collective failed under it
  std::int64_t generation = 0;
  std::string why;
  int rank = -1, unreached_rank = -1;  // its way to that one's machine is cut; -1: not known
};
struct Parked {                 // answers Park; until the next commit it holds that much
  std::int64_t generation = 0;  // promised: no process of this member enters it or an older one
  std::vector<Holding> held;    // by local rank
  // One of its processes surely never held the start state of that generation, or a part alone.
  bool has_never_held = false;
  bool has_ended = false;   // one of its processes has trained to the end already
  bool has_rested = false;  // one has not, and will not in that generation
  bool is_writing = false;  // shards are on their way to storage; told again when they are there
};
struct HasApi {};    // the answer to AskApi: it has just read the record
struct Finished {};  // all local processes exited 0, all their shards are reported
struct Left {};      // after a StopGang: processes gone, shards reported, nothing more will come

// ---- leader → member
struct Refused {
  std::string why;
  bool is_final = false;  // the same Join can never be accepted
};
struct Commit {  // the committed record, shown to each member
  api::WorkerGroup group;
  std::string master_address;
  std::uint16_t master_port = 0;
  std::string key;                     // hex; of this generation's data plane
  std::string load_uri;                // folder of the checkpoint to start from, "" = fresh
  int source_rank = -1;                // feeds the ranks that lack the base generation's state
  std::vector<std::string> addresses;  // of every process, by rank; for TensorFlow, MPI, Ray
};
struct Peers {
  std::vector<std::string> addresses;  // of every process, by rank
};
enum class StopReason { kSuspended, kDrained, kFailed, kGone, kStale };
struct StopGang {
  StopReason reason = StopReason::kFailed;
  bool is_saving = false;
  std::string why;
  bool is_program_blamed = false;  // programs that ended by codes of their own are the cause
};
struct Park {
  std::int64_t generation = 0;  // the newest that the leader has read
  bool is_calm = false;         // nothing is broken: programs that are to end may save first
};
struct AskCheckpoint {};
struct AskApi {};  // do you reach the API server? I do not
struct Stand {     // claim the lead: I do not reach the API server, and you do
  std::int64_t term = 0;
};
struct Published {
  std::int64_t step = 0;
};
struct Goodbye {};  // is_finished stands in the record

// ---- both ways
struct Leads {  // the record names another leader, by whom it was read; passed on by the one before
  api::WorkerGroup group;
};
struct Heartbeat {};

using Message =
    std::variant<Join, Ready, Progress, ShardDone, ShardFailed, Leaving, Exit, ProcessLost, Broken,
                 Parked, HasApi, Finished, Left, Refused, Commit, Peers, StopGang, Park,
                 AskCheckpoint, AskApi, Stand, Published, Goodbye, Leads, Heartbeat>;

std::string encode(const Message& message);
// Invalid for text that is no message; NotFound for a type that this version does not know.
Result<Message> decode(const std::string& text);

const char* stop_reason_name(StopReason reason);

}  // namespace pawl::membership
