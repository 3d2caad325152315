// A save that dies at every call in turn, with every kind of loss: loading always gives the newest
// complete one.
#include "tests/unit/checkpoint/fixture.h"

namespace pawl::checkpoint {
namespace {

constexpr store::CrashLoss kLosses[] = {store::CrashLoss::kNothing, store::CrashLoss::kUnsynced,
                                        store::CrashLoss::kData, store::CrashLoss::kRandom};
const CheckpointId kOlder{9, 1, 1, kTag}, kNewer{10, 1, 1, kTag}, kNext{11, 1, 2, kTag};

}  // namespace

TEST_CASE("checkpoint: a crash at any call of a save leaves the newest complete one loadable",
          "[checkpoint]") {
  long crashes = 0, kept = 0;
  for (const bool is_nfs : {false, true}) {
    for (const auto loss : kLosses) {
      for (long die_at = 0;; ++die_at) {
        store::MemoryDisk disk;
        disk.refuses_no_replace = is_nfs;
        REQUIRE(save(*start(disk).store, kOlder).has_value());
        const auto process = start(disk, die_at);
        const auto saved = save(*process.store, kNewer);
        const bool is_dead = process.files->is_dead();
        disk.crash(loss, static_cast<std::uint64_t>(die_at));
        INFO("died at call " << die_at);
        const auto after = start(disk);
        const auto selection = select(*after.store);
        REQUIRE(selection.newest.has_value());
        const auto& found = *selection.newest;
        REQUIRE((found.id == kNewer || (!saved && found.id == kOlder)));
        REQUIRE(verify(*after.store, found.folder, found.manifest).has_value());
        // No part of a save is ever taken for damage.
        REQUIRE(after.store->list_folders("")->back().starts_with("step-"));
        // The next attempt saves, and retention clears what the crash left.
        REQUIRE(save(*after.store, kNext).has_value());
        REQUIRE(newest(*after.store) == folder_of(kNext));
        REQUIRE(retain(*after.store, kJob, 1, kNext).value() == 1);
        REQUIRE(*after.store->list_folders("") == std::vector<std::string>{folder_of(kNext)});
        ++crashes, kept += found.id == kNewer ? 1 : 0;
        if (!is_dead) break;
      }
    }
  }
  CHECK(crashes > 250);
  CHECK(kept > 8);
}

TEST_CASE("checkpoint: the same save repeated after a crash completes it", "[checkpoint]") {
  for (const auto loss : kLosses) {
    for (long die_at = 0;; ++die_at) {
      store::MemoryDisk disk;
      const auto process = start(disk, die_at);
      (void)save(*process.store, kNewer);
      const bool is_dead = process.files->is_dead();
      disk.crash(loss, static_cast<std::uint64_t>(die_at) + 1000);
      const auto again = save(*start(disk).store, kNewer);
      INFO("died at call " << die_at);
      if (!again) REQUIRE(again.error().code == Code::kAlreadyExists);  // it had been complete
      REQUIRE(newest(*start(disk).store) == folder_of(kNewer));
      if (!is_dead) break;
    }
  }
}

TEST_CASE("checkpoint: a crash at any call of retention loses nothing that is kept",
          "[checkpoint]") {
  for (const auto loss : kLosses) {
    for (long die_at = 0;; ++die_at) {
      store::MemoryDisk disk;
      for (std::int64_t step = 1; step <= 4; ++step)
        REQUIRE(save(*start(disk).store, {step, 1, 1}).has_value());
      const auto process = start(disk, die_at);
      (void)retain(*process.store, kJob, 2, {4, 1, 1});
      const bool is_dead = process.files->is_dead();
      disk.crash(loss, static_cast<std::uint64_t>(die_at));
      INFO("died at call " << die_at);
      const auto after = start(disk);
      REQUIRE(newest(*after.store) == "step-00000004-a01-g0001");
      // Half a removal is no damaged checkpoint either.
      REQUIRE(after.store->list_folders("")->back().starts_with("step-"));
      REQUIRE(retain(*after.store, kJob, 2, {4, 1, 1}).value() == 2);
      REQUIRE(after.store->list_folders("")->size() == 2);
      if (!is_dead) break;
    }
  }
}

TEST_CASE("checkpoint: a full disk at any byte of a save is an error, and the older one stays",
          "[checkpoint]") {
  for (std::uint64_t bytes_free = 0;; bytes_free += 131) {
    store::MemoryDisk disk;
    REQUIRE(save(*start(disk).store, kOlder).has_value());
    disk.bytes_free = bytes_free;
    const auto saved = save(*start(disk).store, kNewer);
    const auto after = start(disk);
    CHECK(newest(*after.store) == folder_of(saved ? kNewer : kOlder));
    if (saved) break;
    REQUIRE(saved.error().code == Code::kIo);
    REQUIRE(saved.error().message.find("no space left on the volume") != std::string::npos);
  }
}

TEST_CASE("checkpoint: a writer frozen before any call does no harm when it wakes up later",
          "[checkpoint]") {
  const std::vector<LineagePoint> lineage = {{1, 1, 0}, {2, 2, 9}};
  const CheckpointId current{12, 2, 2};
  for (int frozen_at = 1;; ++frozen_at) {
    store::MemoryDisk disk;
    REQUIRE(save(*start(disk).store, kOlder).has_value());
    const auto frozen = start(disk), successor = start(disk);
    int calls = 0;
    bool was_frozen = false;
    disk.before_call = [&](const std::string&) {
      if (++calls != frozen_at) return;
      disk.before_call = nullptr;
      was_frozen = true;  // meanwhile the next attempt starts from step 9, saves and cleans up
      REQUIRE(save(*successor.store, current).has_value());
      REQUIRE(retain(*successor.store, kJob, 2, current, lineage).has_value());
    };
    (void)save(*frozen.store, kNewer);
    disk.before_call = nullptr;
    if (!was_frozen) break;
    INFO("frozen before call " << frozen_at);
    REQUIRE(newest(*successor.store, lineage) == folder_of(current));
    disk.data_of("/data/" + folder_of(current) + "/manifest.json")->at(0) ^= std::byte{1};
    REQUIRE(newest(*successor.store, lineage) == folder_of(kOlder));
  }
}

}  // namespace pawl::checkpoint
