// What the tests of checkpoints share: processes on a disk in memory, and a save of a given number
// of shards.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/store/file_store.h"
#include "tests/unit/store/memory_file_system.h"

namespace pawl::checkpoint {

inline constexpr char kJob[] = "11111111-2222-3333-4444-555555555555";

inline constexpr char kTag[] = "11111111";

struct Process {
  store::MemoryFileSystem* files = nullptr;  // the store's own
  std::unique_ptr<store::FileStore> store;
};

inline Process start(store::MemoryDisk& disk, long die_at = -1) {
  auto files = std::make_unique<store::MemoryFileSystem>(disk, die_at);
  Process process{files.get(), nullptr};
  process.store = std::make_unique<store::FileStore>(std::move(files), "/data");
  return process;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

// Differs by checkpoint and by shard.
inline std::string shard_text(const CheckpointId& id, int index) {
  std::string text;
  while (text.size() < 1500) text += folder_of(id) + "/" + std::to_string(index) + " ";
  return text;
}

inline Manifest manifest_for(const CheckpointId& id, std::vector<ShardInfo> shards) {
  Manifest manifest;
  manifest.id = id;
  manifest.job_uid = kJob;
  manifest.run_id = "run-1";
  manifest.world_size = static_cast<int>(shards.size());
  manifest.trainer_json = "{\"cursor\":12}";
  manifest.shards = std::move(shards);
  return manifest;
}

// All ranks and the leader in one.
inline Result<Manifest> save(store::Store& store, const CheckpointId& id, int count = 2) {
  std::vector<ShardInfo> shards;
  for (int i = 0; i < count; ++i) {
    PAWL_TRY(shard, write_shard(store, id, i, count, bytes_of(shard_text(id, i))));
    shards.push_back(shard);
  }
  return publish(store, manifest_for(id, std::move(shards)));
}

inline Selection select(store::Store& store, const std::vector<LineagePoint>& lineage = {},
                        const std::string& job_uid = kJob) {
  auto selection = select_newest(store, job_uid, lineage);
  if (!selection) FAIL(selection.error().message);
  return *selection;
}

// The folder of the newest, "-" for none.
inline std::string newest(store::Store& store, const std::vector<LineagePoint>& lineage = {}) {
  const auto selection = select(store, lineage);
  return selection.newest ? selection.newest->folder : "-";
}

}  // namespace pawl::checkpoint
