// Which checkpoint is loaded, and what happens to those that cannot be.
#include <cerrno>

#include "common/base/hash.h"
#include "tests/unit/checkpoint/fixture.h"

namespace pawl::checkpoint {
namespace {

std::string why(const Selection& selection, const std::string& folder) {
  for (const auto& skipped : selection.skipped) {
    if (skipped.folder == folder) return skipped.why;
  }
  return "";
}

}  // namespace

TEST_CASE("select: steps are numbers, not text", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  CHECK(newest(*process.store) == "-");
  for (const std::int64_t step : {9, 99'999'999, 10, 100'000'000, 8}) {
    REQUIRE(save(*process.store, {step, 1, 1}).has_value());
  }
  CHECK(newest(*process.store) == "step-100000000-a01-g0001");
}

TEST_CASE("select: a later attempt's lower step is newer", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (const CheckpointId& id : {CheckpointId{100, 1, 1}, {60, 2, 1}, {50, 2, 2}, {999, 1, 200}}) {
    REQUIRE(save(*process.store, id).has_value());
  }
  CHECK(newest(*process.store) == "step-00000050-a02-g0002");
}

TEST_CASE("select: only what is on the lineage counts", "[checkpoint]") {
  // Generation 1 went to 100 at least; generation 2 began there; generation 3 had to go back to 80.
  const std::vector<LineagePoint> lineage = {{1, 1, 0}, {1, 2, 100}, {2, 3, 80}};
  const std::vector<std::pair<CheckpointId, bool>> cases = {
      {{0, 1, 1}, true},    {{80, 1, 1}, true},  {{81, 1, 1}, false},   {{100, 1, 1}, false},
      {{100, 1, 2}, false}, {{80, 2, 3}, true},  {{5000, 2, 3}, true},  {{79, 2, 3}, false},
      {{10, 1, 3}, false},  {{10, 2, 1}, false}, {{9999, 1, 1}, false}, {{9999, 3, 4}, false},
  };
  for (const auto& [id, is_on] : cases) {
    INFO(folder_of(id));
    CHECK(is_on_lineage(id, lineage) == is_on);
    CHECK(is_on_lineage(id, {}));
  }
}

TEST_CASE("select: a stale attempt that publishes late is never selected", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  const std::vector<LineagePoint> lineage = {{1, 1, 0}, {2, 2, 50}};
  REQUIRE(save(*process.store, {50, 1, 1}).has_value());
  REQUIRE(save(*process.store, {60, 2, 2}).has_value());
  // A frozen writer of attempt 1 wakes up and completes its step 100, and a process nobody knows
  // writes attempt 3.
  REQUIRE(save(*process.store, {100, 1, 1}).has_value());
  REQUIRE(save(*process.store, {200, 3, 3}).has_value());
  CHECK(newest(*process.store, lineage) == "step-00000060-a02-g0002");
  disk.data_of("/data/step-00000060-a02-g0002/" + shard_name(0, 2))->at(5) ^= std::byte{1};
  CHECK(newest(*process.store, lineage) == "step-00000050-a01-g0001");
  // They are left alone: not ours to judge.
  CHECK(why(select(*process.store, lineage), "step-00000100-a01-g0001") ==
        "is not on this run's lineage");
}

TEST_CASE("select: names with a job's tag and names of before are one order", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  REQUIRE(save(*process.store, {10, 1, 1}).has_value());
  REQUIRE(save(*process.store, {20, 1, 1, kTag}).has_value());
  CHECK(newest(*process.store) == "step-00000020-a01-g0001-11111111");
  REQUIRE(save(*process.store, {30, 1, 1}).has_value());
  CHECK(newest(*process.store) == "step-00000030-a01-g0001");
  // A tag is that of the manifest's job.
  const CheckpointId foreign{40, 1, 1, "22222222"};
  REQUIRE(save(*process.store, foreign).has_value());
  CHECK(read_manifest(*process.store, folder_of(foreign)).error().code == Code::kCorrupt);
  CHECK(newest(*process.store) == "step-00000030-a01-g0001");
}

TEST_CASE("checkpoint: a folder's name says step, attempt, generation and job", "[checkpoint]") {
  const CheckpointId id{1200, 2, 7, "1b4e28ba"};
  CHECK(folder_of(id) == "step-00001200-a02-g0007-1b4e28ba");
  CHECK(parse_folder(folder_of(id)) == id);
  CHECK(parse_folder("step-00001200-a02-g0007") == CheckpointId{1200, 2, 7});
  for (const char* name : {"step-00001200-a02-g0007-", "step-00001200-a02-g0007-1b4e28b",
                           "step-00001200-a02-g0007-1B4E28BA", "step-00001200-a02-g0007-1b4e28ba0",
                           "step-00001200-a02-g0007-1b4e28ba-2", "step-1200-a2-g7-1b4e28ba"}) {
    CHECK_FALSE(parse_folder(name).has_value());
  }
  CHECK(job_tag("1b4e28ba-2fa1-11d2-883f-0016d3cca427") == "1b4e28ba");
  CHECK(job_tag("run").size() == 8);
  CHECK(job_tag("run") != job_tag("run2"));
}

TEST_CASE("select: another job's checkpoints are not adopted", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  REQUIRE(save(*process.store, {50, 1, 1}).has_value());
  const auto selection = select(*process.store, {}, "another-uid");
  CHECK_FALSE(selection.newest.has_value());
  CHECK(why(selection, "step-00000050-a01-g0001").find("belongs to another job") == 0);
  CHECK(newest(*process.store) == "step-00000050-a01-g0001");
}

TEST_CASE("select: every flipped bit is found, the older one is used and the bad one put aside",
          "[checkpoint]") {
  const CheckpointId older{10, 1, 1}, newer{20, 1, 1};
  const std::string folder = folder_of(newer);
  const std::vector<std::string> files = {shard_name(0, 2), shard_name(1, 2), kManifestName};
  Random random{7};
  for (int round = 0; round < 200; ++round) {
    store::MemoryDisk disk;
    const auto process = start(disk);
    REQUIRE(save(*process.store, older).has_value());
    REQUIRE(save(*process.store, newer).has_value());
    const std::string& file = files[static_cast<std::size_t>(round) % files.size()];
    auto& data = *disk.data_of("/data/" + folder + "/" + file);
    const std::size_t at = random.below(data.size());
    data[at] ^= static_cast<std::byte>(1U << random.below(8));
    INFO(file << ", byte " << at);
    const auto selection = select(*process.store);
    REQUIRE(selection.newest.has_value());
    REQUIRE(selection.newest->id == older);
    REQUIRE(why(selection, folder).find("renamed to bad-" + folder) != std::string::npos);
    REQUIRE(*process.store->list_folders("") ==
            std::vector<std::string>{"bad-" + folder, folder_of(older)});
    REQUIRE(process.files->open_files() == 0);
  }
}

TEST_CASE("select: a missing, short or long shard is found", "[checkpoint]") {
  for (const int change : {0, 1, 2}) {
    store::MemoryDisk disk;
    const auto process = start(disk);
    REQUIRE(save(*process.store, {10, 1, 1}).has_value());
    REQUIRE(save(*process.store, {20, 1, 1}).has_value());
    const std::string path = "/data/step-00000020-a01-g0001/" + shard_name(1, 2);
    if (change == 0) REQUIRE(process.files->remove_file(path) == 0);
    if (change == 1) disk.data_of(path)->pop_back();
    if (change == 2) disk.data_of(path)->push_back(std::byte{0});
    CHECK(newest(*process.store) == "step-00000010-a01-g0001");
  }
}

TEST_CASE("select: a folder under another checkpoint's name is not believed", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  REQUIRE(save(*process.store, {10, 1, 1}).has_value());
  REQUIRE(save(*process.store, {20, 1, 1}).has_value());
  REQUIRE(process.store->rename_folder("step-00000020-a01-g0001", "step-00000030-a01-g0001")
              .has_value());
  CHECK(newest(*process.store) == "step-00000010-a01-g0001");
}

TEST_CASE("select: a second bad one of the same name finds a name too", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  for (int round = 0; round < 3; ++round) {
    REQUIRE(save(*process.store, {20, 1, 1}).has_value());
    disk.data_of("/data/step-00000020-a01-g0001/manifest.json")->at(3) ^= std::byte{1};
    CHECK(newest(*process.store) == "-");
  }
  CHECK(*process.store->list_folders("") ==
        std::vector<std::string>{"bad-step-00000020-a01-g0001", "bad-step-00000020-a01-g0001-2",
                                 "bad-step-00000020-a01-g0001-3"});
}

TEST_CASE("select: a newer format is passed over and kept", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  REQUIRE(save(*process.store, {10, 1, 1}).has_value());
  const std::string body = "{\n \"formatVersion\": 2";
  const std::string text = body + ",\n \"digest\": \"sha256:" + sha256_hex(body) + "\"\n}\n";
  REQUIRE(process.store->put("step-00000020-a01-g0001/manifest.json", bytes_of(text), false)
              .has_value());
  const auto selection = select(*process.store);
  CHECK(selection.newest->id == CheckpointId{10, 1, 1});
  CHECK(why(selection, "step-00000020-a01-g0001").find("written by a newer Pawl") !=
        std::string::npos);
  CHECK(process.store->list_folders("")->size() == 2);
}

// An older one instead would be a step back of the run, and cut the newer one off the lineage for
// good.
TEST_CASE("select: storage errors hide nothing: an older one, or none, is not the answer",
          "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  REQUIRE(save(*process.store, {10, 1, 1}).has_value());
  REQUIRE(save(*process.store, {20, 1, 1}).has_value());
  // One failing read or stat at a time.
  for (const char* const call : {"open_read", "read", "stat"}) {
    for (int nth = 1; nth <= 12; ++nth) {
      const auto reader = start(disk);
      reader.files->fail({call, nth, EIO});
      const auto selection = select_newest(*reader.store, kJob, {});
      INFO(call << " " << nth);
      if (selection) {
        REQUIRE(selection->newest->id == CheckpointId{20, 1, 1});
      } else {
        REQUIRE(selection.error().code == Code::kIo);
      }
      REQUIRE(process.store->list_folders("")->size() ==
              2);  // and an error of storage quarantines nothing
    }
  }
  // All of them.
  const auto reader = start(disk);
  for (int nth = 1; nth <= 50; ++nth) reader.files->fail({"open_read", nth, EIO});
  const auto selection = select_newest(*reader.store, kJob, {});
  REQUIRE_FALSE(selection.has_value());
  CHECK(selection.error().code == Code::kIo);
  CHECK(newest(*process.store) == "step-00000020-a01-g0001");
}

TEST_CASE("select: what the record says was published is not silently gone", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  const CheckpointId older{10, 1, 1}, newer{20, 1, 1};
  const std::string published = folder_of(newer);
  const std::vector<LineagePoint> lineage = {{1, 1, 0}};
  const auto pick = [&](const std::vector<LineagePoint>& on) {
    return select_newest(*process.store, kJob, on, published);
  };
  SECTION("the volume is not mounted") {
    CHECK(pick(lineage).error().code == Code::kUnavailable);
    CHECK(pick({}).error().message.find("is its volume mounted?") != std::string::npos);
    CHECK(process.store->list_folders("")->empty());
  }
  SECTION("only an older one is there, or its manifest is gone") {
    REQUIRE(save(*process.store, older).has_value());
    CHECK_FALSE(pick(lineage).has_value());
    REQUIRE(write_shard(*process.store, newer, 0, 2, bytes_of("part")).has_value());
    CHECK_FALSE(pick(lineage).has_value());
    // A run that went on from step 10 has left it behind.
    CHECK(pick({{1, 1, 0}, {2, 2, 10}})->newest->id == older);
    // A person has decided.
    REQUIRE(process.store->put("bad-" + published + "/lost", {}, false).has_value());
    CHECK(pick(lineage)->newest->id == older);
  }
  SECTION("it is there, or a newer one") {
    REQUIRE(save(*process.store, newer).has_value());
    CHECK(pick(lineage)->newest->id == newer);
    REQUIRE(save(*process.store, {30, 1, 1}).has_value());
    CHECK(pick(lineage)->newest->id == CheckpointId{30, 1, 1});
  }
  SECTION("it is corrupt: passed over, also by those who look after a crash") {
    REQUIRE(save(*process.store, older).has_value());
    REQUIRE(save(*process.store, newer).has_value());
    disk.data_of("/data/" + published + "/" + shard_name(0, 2))->at(5) ^= std::byte{1};
    for (int look = 0; look < 3; ++look) CHECK(pick(lineage)->newest->id == older);
  }
}

TEST_CASE("select: a bad one that cannot be renamed is passed over all the same", "[checkpoint]") {
  store::MemoryDisk disk;
  const auto process = start(disk);
  REQUIRE(save(*process.store, {10, 1, 1}).has_value());
  REQUIRE(save(*process.store, {20, 1, 1}).has_value());
  disk.data_of("/data/step-00000020-a01-g0001/manifest.json")->at(3) ^= std::byte{1};
  const auto reader = start(disk);
  reader.files->fail({"rename_no_replace", 1, EROFS});
  const auto selection = select(*reader.store);
  CHECK(selection.newest->id == CheckpointId{10, 1, 1});
  CHECK(why(selection, "step-00000020-a01-g0001").find("not renamed") != std::string::npos);
}

}  // namespace pawl::checkpoint
