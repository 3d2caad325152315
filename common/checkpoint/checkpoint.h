// The checkpoint format and its commit protocol (docs/checkpoints.md): safetensors shards, then a manifest. A checkpoint exists
// if and only if its manifest does, the digests in it match, and its (attempt, generation, step) lies on the lineage. Used
// by launcher (writes), trainer (loads) and CLI (lists). Thread-safe where the Store is.
//
// Folder name: "step-00001200-a02-g0007". Shard name: "shard-00001-of-00004.safetensors". Manifest: "manifest.json".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/store/store.h"

namespace pawl::checkpoint {

struct CheckpointId {
  std::int64_t step = 0, attempt = 0, generation = 0;
  bool operator==(const CheckpointId&) const = default;
};

std::string folder_of(const CheckpointId& id);
std::optional<CheckpointId> parse_folder(const std::string& name);
std::string shard_name(int index, int count);

struct ShardInfo {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  std::string sha256;
  bool operator==(const ShardInfo&) const = default;
};

// One entry for each piece of a logical tensor; pieces of one tensor cover it without gap or overlap.
struct TensorPiece {
  std::string tensor;
  int shard = 0;
  std::uint64_t offset = 0;        // of the piece in the logical tensor, in elements
  std::uint64_t elements = 0;
  bool operator==(const TensorPiece&) const = default;
};

struct Manifest {
  CheckpointId id;
  std::string job_uid, run_id;
  int world_size = 1;
  std::string trainer_json;  // the trainer's own part (cursor, seed, optimizer scalars, config hash), opaque here
  std::vector<ShardInfo> shards;
  std::string digest;  // "sha256:…" over the manifest's other fields; set by encode and decode
};

std::string encode_manifest(const Manifest& manifest);
// Corrupt when the digest does not match.
Result<Manifest> decode_manifest(const std::string& text);

// Step 1, by each rank's launcher: writes and fsyncs a shard. A leftover of the same name is replaced (same id means
// same writer); returns its digests.
Result<ShardInfo> write_shard(store::Store& store, const CheckpointId& id, int index, int count,
                              std::span<const std::byte> bytes);
// Step 2, by the leader alone, when all shards are written and the step is confirmed: the manifest, no-replace.
Result<Manifest> publish(store::Store& store, Manifest manifest);

// A place on the run's history: a checkpoint of (attempt, generation) counts if lineage has that pair and its step is
// ≥ that entry's start step and ≤ the next entry's start step.
struct LineagePoint {
  std::int64_t attempt = 0, generation = 0, start_step = 0;
};

struct Found {
  CheckpointId id;
  std::string folder;
  Manifest manifest;
};
struct Skipped {
  std::string folder, why;
};
struct Selection {
  std::optional<Found> newest;
  std::vector<Skipped> skipped;  // corrupt or incomplete ones that were passed over; corrupt ones are renamed "bad-…"
};

// The newest checkpoint of job_uid that is complete, on the lineage and verified byte by byte; never an error while a
// valid one exists. An empty lineage accepts every checkpoint of job_uid.
Result<Selection> select_newest(store::Store& store, const std::string& job_uid,
                                const std::vector<LineagePoint>& lineage);
Status verify(const store::Store& store, const std::string& folder, const Manifest& manifest);

// Deletes published checkpoints of job_uid beyond the `keep` newest, and unpublished folders with a lower
// (attempt, generation) than `current`. Returns how many are left. Never touches `current` or newer ones.
Result<int> retain(store::Store& store, const std::string& job_uid, int keep, const CheckpointId& current);

}  // namespace pawl::checkpoint
