#include <cerrno>

#include "tests/unit/checkpoint/fixture.h"

namespace pawl::checkpoint {
namespace {

std::vector<std::string> folders_of(const store::Store& store) {
  return store.list_folders("").value();
}

}  // namespace

TEST_CASE("retain: keeps the newest, by number and attempt", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (const CheckpointId& id :
       {CheckpointId{99'999'999, 1, 1}, {100'000'000, 1, 1}, {7, 1, 1}, {50, 2, 2}, {60, 2, 2}}) {
    REQUIRE(save(*process.store, id).has_value());
  }
  CHECK(retain(*process.store, kJob, 3, {60, 2, 2}).value() == 3);
  CHECK(folders_of(*process.store) == std::vector<std::string>{"step-00000050-a02-g0002",
                                                               "step-00000060-a02-g0002",
                                                               "step-100000000-a01-g0001"});
  CHECK(retain(*process.store, kJob, 0, {60, 2, 2}).value() == 1);  // at least one
  CHECK(newest(*process.store) == "step-00000060-a02-g0002");
}

TEST_CASE("retain: what is off the lineage does not count, and goes when enough is on it",
          "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  const std::vector<LineagePoint> lineage = {{1, 1, 0}, {2, 2, 9}};
  for (const CheckpointId& id :
       {CheckpointId{8, 1, 1}, {9, 1, 1}, {10, 1, 1}, {11, 1, 1}, {12, 2, 2}, {1, 3, 3}}) {
    REQUIRE(save(*process.store, id).has_value());
  }
  CHECK(retain(*process.store, kJob, 4, {12, 2, 2}, lineage).value() == 6);
  CHECK(retain(*process.store, kJob, 2, {12, 2, 2}, lineage).value() == 3);
  CHECK(folders_of(*process.store) == std::vector<std::string>{"step-00000001-a03-g0003",
                                                               "step-00000009-a01-g0001",
                                                               "step-00000012-a02-g0002"});
}

TEST_CASE("retain: counts verified ones only", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (std::int64_t step = 1; step <= 6; ++step)
    REQUIRE(save(*process.store, {step, 1, 1}).has_value());
  for (const int bad : {5, 6}) {
    disk.data_of("/data/" + folder_of({bad, 1, 1}) + "/" + shard_name(0, 2))->at(9) ^= std::byte{1};
  }
  CHECK(retain(*process.store, kJob, 2, {6, 1, 1}).value() ==
        4);  // two good, and two bad that do not count
  CHECK(folders_of(*process.store).front() == "step-00000003-a01-g0001");
  CHECK(newest(*process.store) == "step-00000004-a01-g0001");
  CHECK(retain(*process.store, kJob, 2, {6, 1, 1}).value() == 2);
}

TEST_CASE("retain: deletes nothing while too few are verified", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (std::int64_t step = 1; step <= 4; ++step)
    REQUIRE(save(*process.store, {step, 1, 1}).has_value());
  for (std::int64_t step = 2; step <= 4; ++step) {
    disk.data_of("/data/" + folder_of({step, 1, 1}) + "/" + shard_name(0, 2))->at(9) ^=
        std::byte{1};
  }
  CHECK(retain(*process.store, kJob, 1, {4, 1, 1}).value() == 4);
  CHECK(newest(*process.store) == "step-00000001-a01-g0001");
}

TEST_CASE("retain: never touches the current one, newer ones and other jobs'", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (std::int64_t step = 1; step <= 4; ++step)
    REQUIRE(save(*process.store, {step, 2, 2}).has_value());
  REQUIRE(write_shard(*process.store, {1, 2, 2}, 0, 2, {}).error().code == Code::kAlreadyExists);
  CHECK(retain(*process.store, "another-uid", 1, {9, 9, 9}).value() == 0);
  CHECK(folders_of(*process.store).size() == 4);
  CHECK(retain(*process.store, kJob, 1, {2, 2, 2}).value() == 3);
  CHECK(folders_of(*process.store).front() == "step-00000002-a02-g0002");
}

// What lies behind the current one of this generation goes, too: a save that found the disk full
// would keep the room that the next ones need.
TEST_CASE("retain: unpublished leftovers go, but for what this generation may be writing",
          "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  REQUIRE(save(*process.store, {10, 2, 3}).has_value());
  for (const CheckpointId& id : {CheckpointId{99, 1, 9, kTag},
                                 {5, 2, 2, kTag},
                                 {4, 2, 3, kTag},
                                 {11, 2, 3, kTag},
                                 {1, 3, 4, kTag},
                                 {2, 1, 1, "0ddba11f"},
                                 {3, 1, 1}}) {
    REQUIRE(write_shard(*process.store, id, 0, 2, bytes_of("part")).has_value());
  }
  CHECK(retain(*process.store, kJob, 3, {10, 2, 3, kTag}).value() == 1);
  CHECK(folders_of(*process.store) ==
        std::vector<std::string>{"step-00000001-a03-g0004-11111111",
                                 "step-00000002-a01-g0001-0ddba11f",  // another job is saving
                                 "step-00000003-a01-g0001",           // nobody knows whose
                                 "step-00000010-a02-g0003", "step-00000011-a02-g0003-11111111"});
}

TEST_CASE("retain: a new generation clears what earlier ones left, before its first save",
          "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  REQUIRE(save(*process.store, {10, 1, 1, kTag}).has_value());
  REQUIRE(save(*process.store, {10, 1, 1}).has_value());
  const CheckpointId other{7, 1, 1, "0ddba11f"}, own{0, 2, 2, kTag};
  for (const CheckpointId& id : {CheckpointId{20, 1, 1, kTag}, {5, 2, 2, kTag}, other})
    REQUIRE(write_shard(*process.store, id, 0, 2, bytes_of("part")).has_value());
  REQUIRE(remove_unpublished(*process.store, kJob, own).has_value());
  CHECK(folders_of(*process.store) ==
        std::vector<std::string>{"step-00000005-a02-g0002-11111111", folder_of(other),
                                 "step-00000010-a01-g0001", "step-00000010-a01-g0001-11111111"});
}

TEST_CASE("discard: takes what is not published, and nothing else", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  const CheckpointId good{10, 1, 1, kTag}, half{20, 1, 1, kTag};
  REQUIRE(save(*process.store, good).has_value());
  REQUIRE(write_shard(*process.store, half, 0, 2, bytes_of("part")).has_value());
  for (const CheckpointId& id : {good, half, CheckpointId{30, 1, 1, kTag}})
    CHECK(discard(*process.store, id).has_value());
  CHECK(folders_of(*process.store) == std::vector<std::string>{folder_of(good)});
  const auto reader = start(disk);
  reader.files->fail({"stat", 1, EIO});  // it may be published
  CHECK_FALSE(discard(*reader.store, good).has_value());
  CHECK(folders_of(*process.store).size() == 1);
}

TEST_CASE("retain: jobs that share a place do not see each other", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  const std::string other_job = "22222222-2222-3333-4444-555555555555";
  const auto save_for = [&](const std::string& job, const CheckpointId& id) {
    const auto shard = write_shard(*process.store, id, 0, 1, bytes_of(job)).value();
    Manifest manifest = manifest_for(id, {shard});
    manifest.job_uid = job;
    REQUIRE(publish(*process.store, manifest).has_value());
  };
  // The same steps, attempts and generations.
  for (std::int64_t step = 1; step <= 3; ++step) {
    save_for(kJob, {step, 1, 1, kTag});
    save_for(other_job, {step, 1, 1, job_tag(other_job)});
  }
  CHECK(retain(*process.store, kJob, 1, {3, 1, 1, kTag}).value() == 1);
  CHECK(folders_of(*process.store) == std::vector<std::string>{"step-00000001-a01-g0001-22222222",
                                                               "step-00000002-a01-g0001-22222222",
                                                               "step-00000003-a01-g0001-11111111",
                                                               "step-00000003-a01-g0001-22222222"});
  CHECK(select(*process.store).newest->folder == "step-00000003-a01-g0001-11111111");
  const Selection theirs = select(*process.store, {}, other_job);
  CHECK(theirs.newest->folder == "step-00000003-a01-g0001-22222222");
  CHECK(theirs.skipped.empty());
  // Two jobs whose UIDs begin alike: the manifest holds the whole one.
  CHECK_FALSE(select(*process.store, {}, "11111111-0000").newest.has_value());
  CHECK(retain(*process.store, "11111111-0000", 1, {9, 9, 9, kTag}).value() == 0);
  CHECK(folders_of(*process.store).size() == 4);
}

TEST_CASE("retain: reads each checkpoint back once", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (std::int64_t step = 1; step <= 3; ++step)
    REQUIRE(save(*process.store, {step, 1, 1}).has_value());
  int opened = 0;
  disk.before_call = [&](const std::string& call) { opened += call == "open_read" ? 1 : 0; };
  REQUIRE(retain(*process.store, kJob, 3, {3, 1, 1}).value() == 3);
  const int first = opened;
  REQUIRE(retain(*process.store, kJob, 3, {3, 1, 1}).value() == 3);
  disk.before_call = nullptr;
  CHECK(opened - first == 6);  // a manifest and a mark each
  CHECK(first > 6);
}

TEST_CASE("retain: a quarantined one goes when all that is kept is newer", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (std::int64_t step = 1; step <= 3; ++step)
    REQUIRE(save(*process.store, {step, 1, 1}).has_value());
  disk.data_of("/data/step-00000002-a01-g0001/manifest.json")->at(0) ^= std::byte{1};
  disk.data_of("/data/step-00000003-a01-g0001/manifest.json")->at(0) ^= std::byte{1};
  REQUIRE(newest(*process.store) == "step-00000001-a01-g0001");
  REQUIRE(retain(*process.store, kJob, 1, {1, 1, 1}).value() == 1);
  CHECK(folders_of(*process.store).size() == 3);
  REQUIRE(save(*process.store, {3, 1, 1}).has_value());
  REQUIRE(retain(*process.store, kJob, 1, {3, 1, 1}).value() == 1);
  CHECK(folders_of(*process.store) ==
        std::vector<std::string>{"bad-step-00000003-a01-g0001", "step-00000003-a01-g0001"});
}

TEST_CASE("retain: one folder that cannot be removed does not keep the others", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (std::int64_t step = 1; step <= 4; ++step)
    REQUIRE(save(*process.store, {step, 1, 1}).has_value());
  const auto cleaner = start(disk);
  cleaner.files->fail(
      {"rename", 3, EACCES});  // the first two are of the marks of the two that stay
  const auto left = retain(*cleaner.store, kJob, 2, {4, 1, 1});
  REQUIRE_FALSE(left.has_value());
  CHECK(left.error().code == Code::kForbidden);
  CHECK(folders_of(*process.store) == std::vector<std::string>{"step-00000002-a01-g0001",
                                                               "step-00000003-a01-g0001",
                                                               "step-00000004-a01-g0001"});
}

}  // namespace pawl::checkpoint
