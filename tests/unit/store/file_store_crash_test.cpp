// Crashes, failures and lost replies at every call of a put.
#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "common/store/file_store.h"
#include "tests/unit/store/memory_file_system.h"

namespace pawl::store {
namespace {

constexpr CrashLoss kLosses[] = {CrashLoss::kNothing, CrashLoss::kUnsynced, CrashLoss::kData,
                                 CrashLoss::kRandom};

struct Process {
  MemoryFileSystem* files = nullptr;  // the store's own
  std::unique_ptr<FileStore> store;
};

Process start(MemoryDisk& disk, long die_at = -1) {
  auto files = std::make_unique<MemoryFileSystem>(disk, die_at);
  Process process{files.get(), nullptr};
  process.store = std::make_unique<FileStore>(std::move(files), "/data");
  return process;
}

// A fresh look at the disk. "-": not there.
std::string seen(MemoryDisk& disk, const std::string& key) {
  const auto bytes = start(disk).store->get(key);
  if (!bytes) return bytes.error().code == Code::kNotFound ? "-" : bytes.error().message;
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

bool is_any_visible(MemoryDisk& disk) { return !start(disk).store->list("")->empty(); }

}  // namespace

TEST_CASE("file_store: a crash at any call of a put leaves the old or the new object, whole",
          "[store]") {
  const std::string old_text(2500, 'o'), new_text(2500, 'n');
  long dying = 0, outcomes = 0;
  for (const bool is_nfs : {false, true}) {
    for (const bool is_replacing : {false, true}) {
      for (const CrashLoss loss : kLosses) {
        for (long die_at = 0;; ++die_at) {
          MemoryDisk disk;
          disk.refuses_no_replace = is_nfs;
          if (is_replacing)
            REQUIRE(start(disk).store->put("a/b/k", bytes_of(old_text), false).has_value());
          const Process process = start(disk, die_at);
          const Status put = process.store->put("a/b/k", bytes_of(new_text), is_replacing);
          const bool is_dead = process.files->is_dead();
          disk.crash(loss, static_cast<std::uint64_t>(die_at));
          const std::string found = seen(disk, "a/b/k");
          INFO("died at " << die_at << ", found " << found.substr(0, 20));
          REQUIRE((found == new_text || found == (is_replacing ? old_text : "-")));
          if (put) REQUIRE(found == new_text);
          // And the next one finds nothing in its way.
          if (found != new_text)
            REQUIRE(start(disk).store->put("a/b/k", bytes_of(new_text), true).has_value());
          ++dying, outcomes += found == new_text ? 1 : 0;
          if (!is_dead) break;
        }
      }
    }
  }
  CHECK(dying > 200);
  CHECK(outcomes > 20);
}

TEST_CASE("file_store: an error at any call of a put is reported, or the object is there",
          "[store]") {
  const char* const calls[] = {
      "open_new", "write",  "sync",        "close",       "stat",
      "link",     "rename", "make_folder", "open_folder", "rename_no_replace"};
  const std::string text(2500, 'n');
  int reported = 0;
  for (const bool is_nfs : {false, true}) {
    for (const char* const call : calls) {
      for (int nth = 1; nth <= 6; ++nth) {
        for (const bool is_done : {false, true}) {
          MemoryDisk disk;
          disk.refuses_no_replace = is_nfs;
          const Process process = start(disk);
          process.files->fail({call, nth, EIO, is_done});
          const Status put = process.store->put("a/k", bytes_of(text), false);
          disk.crash(CrashLoss::kUnsynced);
          INFO(call << " " << nth << (is_done ? " done" : ""));
          if (put) REQUIRE(seen(disk, "a/k") == text);
          if (!put) {
            ++reported;
            CHECK(put.error().message.find(" /") != std::string::npos);
            // A definite failure means that it is not there.
            if (put.error().code == Code::kIo) REQUIRE(seen(disk, "a/k") == "-");
          }
          REQUIRE(process.files->open_files() == 0);
        }
      }
    }
  }
  CHECK(reported > 20);
}

TEST_CASE("file_store: a lost reply to link or rename is told from a taken name", "[store]") {
  for (const char* const call : {"link", "rename_no_replace"}) {
    INFO(call);
    const bool is_link = std::string_view{call} == "link";
    // Done, and the repeated request reports that the name is taken, as NFS does.
    MemoryDisk disk;
    disk.refuses_no_replace = is_link;
    const Process process = start(disk);
    process.files->fail({call, 1, is_link ? EEXIST : ENOENT, true});
    REQUIRE(process.store->put("k", bytes_of("mine"), false).has_value());
    CHECK(seen(disk, "k") == "mine");
    CHECK(disk.all_files() == std::vector<std::string>{"/data/k"});
    // Taken in earnest.
    const Process second = start(disk);
    const Status put = second.store->put("k", bytes_of("other"), false);
    REQUIRE_FALSE(put.has_value());
    CHECK(put.error().code == Code::kAlreadyExists);
    CHECK(seen(disk, "k") == "mine");
    CHECK(disk.all_files() == std::vector<std::string>{"/data/k"});
  }
}

TEST_CASE("file_store: a full disk is one clear error and leaves nothing behind", "[store]") {
  for (std::uint64_t bytes_free = 0; bytes_free < 2500; bytes_free += 499) {
    MemoryDisk disk;
    REQUIRE(start(disk).store->put("a/k", bytes_of("old"), false).has_value());
    disk.bytes_free = bytes_free;
    const Status put = start(disk).store->put("a/k", bytes_of(std::string(2500, 'n')), true);
    REQUIRE_FALSE(put.has_value());
    CHECK(put.error().code == Code::kIo);
    CHECK(put.error().message.find("writing /data/a/k: no space left on the volume") == 0);
    CHECK(seen(disk, "a/k") == "old");
    CHECK(disk.all_files() == std::vector<std::string>{"/data/a/k"});
  }
}

TEST_CASE("file_store: a failed sync is not repeated and kills the put", "[store]") {
  MemoryDisk disk;
  const Process process = start(disk);
  process.files->fail({"sync", 2, EIO, false});  // the first is that of the new folder's parent
  int syncs = 0;
  disk.before_call = [&](const std::string& call) { syncs += call == "sync" ? 1 : 0; };
  const Status put = process.store->put("k", bytes_of("x"), false);
  disk.before_call = nullptr;
  REQUIRE_FALSE(put.has_value());
  CHECK(put.error().code == Code::kIo);
  CHECK(syncs == 2);
  CHECK_FALSE(is_any_visible(disk));
}

TEST_CASE("file_store: a crash at any call of remove_folder leaves the folder whole or invisible",
          "[store]") {
  for (const CrashLoss loss : kLosses) {
    for (long die_at = 0;; ++die_at) {
      MemoryDisk disk;
      for (const char* key : {"f/1", "f/2", "f/3"}) {
        REQUIRE(start(disk).store->put(key, bytes_of(key), false).has_value());
      }
      const Process process = start(disk, die_at);
      const Status removed = process.store->remove_folder("f");
      const bool is_dead = process.files->is_dead();
      disk.crash(loss, static_cast<std::uint64_t>(die_at));
      const std::size_t left = start(disk).store->list("")->size();
      INFO("died at " << die_at << ", left " << left);
      REQUIRE((left == 3 || left == 0));
      if (removed) REQUIRE(left == 0);
      // The next removal clears the rest.
      REQUIRE(start(disk).store->remove_folder("f").has_value());
      REQUIRE(start(disk).store->remove_folder("f").has_value());
      REQUIRE(disk.all_files().empty());
      if (!is_dead) break;
    }
  }
}

}  // namespace pawl::store
