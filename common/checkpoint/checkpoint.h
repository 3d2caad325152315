// The checkpoint format and its commit protocol (docs/checkpoints.md): safetensors shards, then a
// manifest. A checkpoint exists if and only if its manifest does, the digests in it match, and its
// (attempt, generation, step) lies on the lineage. Used by launcher (writes), trainer (loads) and
// CLI (lists). Thread-safe where the Store is.
//
// Folder name: "step-00001200-a02-g0007-1b4e28ba", the last part of the job, so that jobs may share
// a URI; names without it are read. Shard name: "shard-00001-of-00004.safetensors". Manifest:
// "manifest.json".
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
  std::string job = {};  // job_tag() of its UID; "" in names of before there were tags
  bool operator==(const CheckpointId&) const = default;
};

// The first 8 digits of a UID; of a name that is none, those of its SHA-256.
std::string job_tag(const std::string& job_uid);

std::string folder_of(const CheckpointId& id);
std::optional<CheckpointId> parse_folder(const std::string& name);
std::string shard_name(int index, int count);
inline constexpr char kManifestName[] = "manifest.json";
inline constexpr std::uint64_t kManifestBytesMax = 64 << 20;

struct ShardInfo {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  std::string sha256;
  bool operator==(const ShardInfo&) const = default;
};

// Which tensors are in which shard stands in the shards' own headers (safetensors.h), covered by
// the shards' digests; reader.h puts the pieces together again.
struct Manifest {
  CheckpointId id;
  std::string job_uid, run_id;
  int world_size = 1;
  std::string trainer_json;  // the trainer's own part (cursor, seed, optimizer scalars, config
                             // hash), opaque here
  std::vector<ShardInfo> shards;
  std::string digest;  // "sha256:…" over the manifest's other fields; set by publish and decode,
                       // ignored by encode
  bool operator==(const Manifest&) const = default;
};

std::string encode_manifest(const Manifest& manifest);
// Corrupt when the digest does not match.
Result<Manifest> decode_manifest(const std::string& text);

// Step 1, by each rank's launcher: writes and fsyncs a shard. A leftover of the same name is
// replaced (same id means same writer); returns its digests. AlreadyExists when this id is
// published: nothing published is written again.
Result<ShardInfo> write_shard(store::Store& store, const CheckpointId& id, int index, int count,
                              std::span<const std::byte> bytes);
// Step 2, by the leader alone, when all shards are written and the step is confirmed: the manifest,
// no-replace. AlreadyExists when the id is published. After OutcomeUnknown, read_manifest says what
// happened.
Result<Manifest> publish(store::Store& store, Manifest manifest);
// NotFound: not published. Corrupt also when the manifest is not that of its folder. Invalid: a
// newer Pawl's format.
Result<Manifest> read_manifest(const store::Store& store, const std::string& folder);

// Newer means a higher attempt, then generation, then step. Not the step first: after a restart
// from an older checkpoint the new attempt's lower steps are the run, and the higher ones of before
// are abandoned.
bool is_newer(const CheckpointId& a, const CheckpointId& b);

// A place on the run's history: a checkpoint of (attempt, generation) counts if lineage has that
// pair and its step is ≥ that entry's start step and ≤ the start step of every later entry.
struct LineagePoint {
  std::int64_t attempt = 0, generation = 0, start_step = 0;
};
// An empty lineage accepts everything.
bool is_on_lineage(const CheckpointId& id, const std::vector<LineagePoint>& lineage);

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
  std::vector<Skipped> skipped;  // corrupt or incomplete ones that were passed over; corrupt ones
                                 // are renamed "bad-…"
};

// The newest checkpoint of job_uid that is complete, on the lineage and verified byte by byte. What
// is corrupt is passed over. An error when storage failed on a newer one that may be valid: whoever
// took the older one, or none, would cut the newer one off the lineage. An empty lineage accepts
// every checkpoint of job_uid.
//
// `published` is the folder of a checkpoint that is known to have been published, "" for none. If
// it is on the lineage, nothing older is selected, unless it is corrupt, or lies quarantined
// already: it is Unavailable that it is missing, for a volume may not be mounted.
Result<Selection> select_newest(store::Store& store, const std::string& job_uid,
                                const std::vector<LineagePoint>& lineage,
                                const std::string& published = "");
// Reads every shard, 1 MiB at a time. Corrupt: a shard is missing or differs; other codes: it could
// not be read.
Status verify(const store::Store& store, const std::string& folder, const Manifest& manifest);

// Deletes published checkpoints of job_uid beyond the `keep` newest verified ones on the lineage
// (others on no lineage too, but they do not count), its unpublished folders with a lower (attempt,
// generation), or of the same with a lower step, than `current`, and its quarantined ones older
// than all that is kept. Folders with another job's tag are not looked into; unpublished ones
// without a tag are nobody's to delete. Each checkpoint is read back once, and marked so. Returns
// how many are left. Never touches `current` or newer ones. An error comes after everything else
// was tried: something could not be deleted or looked at, nothing worse.
Result<int> retain(store::Store& store, const std::string& job_uid, int keep,
                   const CheckpointId& current, const std::vector<LineagePoint>& lineage = {});

// The unpublished folders that retain removes, and nothing else. A save that failed for want of
// space must not take the space of those that follow. An error comes after everything was tried.
Status remove_unpublished(store::Store& store, const std::string& job_uid,
                          const CheckpointId& current);
// Removes this one, unless it is published: nobody writes to it any more.
Status discard(store::Store& store, const CheckpointId& id);

}  // namespace pawl::checkpoint
