// Messages between a launcher and a training process over the inherited SOCK_SEQPACKET socket
// (contract.h kEnvChannelFd): one JSON object a packet, field "type" = the struct's name in
// snake_case. Knows nothing of Kubernetes. Order: the process sends Hello; the launcher answers
// Welcome when the generation is committed and all ranks said Hello; training starts. Unknown
// fields and unknown types are ignored, so that both sides can grow.
//
// In place: a process outlives its generation. Told to Park, or when a collective fails under it,
// it ends what it has begun with the others, keeps its state in memory, and says Parked; with that
// it has promised to contribute nothing more. The next Welcome places it in a newer generation,
// with another rank and world size perhaps. All ranks of a Welcome get the start state before any
// of them steps: those that hold (base_generation, start_step) keep theirs, the others are fed by
// source_rank.
//
// Checkpoints: the process asks for buffers with Buffers; the launcher answers with two memfds of
// that size. The process fills a free one with one whole safetensors file (its shard) and sends
// Sealed; the launcher writes it to storage in the background, and sends Released when the buffer
// may be filled again. A checkpoint is published by the leading launcher when every rank's shard of
// that step is on storage and the step is confirmed.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace pawl::api::channel {

// ---- training process → launcher
struct Hello {
  int version = 1;
  int rank = 0;
  std::uint16_t data_port = 0;  // where this rank listens for its peers (0: it needs none)
  std::string config_hash;      // must be equal on all ranks
  // Each rank keeps a part of the state alone, and gives up what it has when it parks: the start
  // state of a generation comes from storage.
  bool holds_part = false;
};
struct Buffers {
  std::uint64_t bytes = 0;  // size of each of the two
};
struct Sealed {
  int buffer = 0;  // 0 or 1
  std::int64_t step = 0;
  std::uint64_t bytes = 0;    // of the file, from the buffer's start
  std::string manifest_json;  // rank 0: the trainer's part of the manifest (cursor, seed, tensors,
                              // …); else ""
};
struct Report {           // rank 0, after each confirmed step
  std::int64_t step = 0;  // the newest confirmed step
  std::int64_t total_steps = 0;
  double loss = 0;
  double samples_per_second = 0, tokens_per_second = 0;
  std::int64_t epoch = 0;
  std::string note;      // one line for people, e.g. the validation result; usually ""
  bool has_loss = true;  // false: it tells none
  // Of the gang, clearly slower than the others, and how many times as long as they it takes; -1:
  // none is.
  int slow_rank = -1;
  double slow_factor = 0;
  // The newest result on held-out data and the run's lowest loss there. -1: there is none; no
  // accuracy.
  std::int64_t validation_step = -1;
  double validation_loss = 0, validation_accuracy = -1;
  std::int64_t best_step = 0;
  double best_loss = 0;
};
struct Done {  // after the closing barrier; the process exits 0 afterwards
  std::int64_t step = 0;
};
struct Parked {                 // by order, or because a collective failed
  std::int64_t generation = 0;  // the newest whose start state it held; 0: it holds nothing
  std::int64_t step = 0;        // the last that it applied
  std::string why;              // of a failed collective, for people; "" by order
  int unreached_rank = -1;      // whose machine answers nothing on the way from here; -1: none
};

// ---- launcher → training process
struct PeerAddress {
  int rank = 0;
  std::string address;  // "10.0.0.1:41001"
};
struct Welcome {
  int rank = 0, world_size = 1, local_rank = 0;
  std::int64_t attempt = 0, generation = 0;
  std::int64_t start_step = 0;     // of the start state; 0: the beginning
  std::string load_uri;            // directory of its checkpoint; "": fresh, or it is in memory
  std::string key;                 // hex; authenticates data-plane connections of this generation
  std::vector<PeerAddress> peers;  // of the ranks before and after this one in the ring, and of 0
  int checkpoint_seconds = 60;
  // Another generation of the same process.
  std::int64_t base_generation = 0;  // whose memory is the start state; 0: it comes from storage
  int source_rank = -1;              // feeds those that lack it; -1: nobody does
  bool can_park = false;             // the launcher knows what Parked means
};
struct BuffersReady {};  // with two file descriptors
struct Released {
  int buffer = 0;
};
struct CheckpointNow {};  // seal a checkpoint of the next confirmed step, then go on
struct Stop {             // finish the step, seal a checkpoint if is_saving, exit kExitRetry
  bool is_saving = true;
};
struct Park {};

using FromProcess = std::variant<Hello, Buffers, Sealed, Report, Done, Parked>;
using ToProcess = std::variant<Welcome, BuffersReady, Released, CheckpointNow, Stop, Park>;

std::string encode(const FromProcess& message);
std::string encode(const ToProcess& message);
// Invalid for text that is no message; a type this side does not know is NotFound: ignore it.
Result<FromProcess> decode_from_process(const std::string& text);
Result<ToProcess> decode_to_process(const std::string& text);

}  // namespace pawl::api::channel
