#include "common/store/file_store.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>
#include <thread>

#include "tests/unit/store/memory_file_system.h"
#include "tests/unit/store/temporary_folder.h"

namespace pawl::store {
namespace {

std::string text_of(const Store& store, const std::string& key) {
  const auto bytes = store.get(key);
  if (!bytes) return std::string{"error "} + code_name(bytes.error().code);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

Code code_of(const Status& status) {
  REQUIRE_FALSE(status.has_value());
  return status.error().code;
}

std::vector<std::string> keys_of(const Store& store, const std::string& prefix) {
  std::vector<std::string> keys;
  const auto entries = store.list(prefix);
  REQUIRE(entries.has_value());
  for (const auto& entry : *entries) keys.push_back(entry.key);
  return keys;
}

std::unique_ptr<Store> open_on(std::unique_ptr<FileSystem> files,
                               const std::string& root = "/data/run") {
  auto store = FileStore::open(std::move(files), root);
  REQUIRE(store.has_value());
  return std::move(*store);
}

// The same promises on the real file system, in memory, and where renames cannot refuse to replace.
void on_every_file_system(const std::function<void(Store&)>& test) {
  SECTION("the real one") {
    const TemporaryFolder folder;
    test(*open_on(make_posix_file_system(), folder.path() + "/a/b"));
  }
  SECTION("in memory") {
    MemoryDisk disk;
    test(*open_on(std::make_unique<MemoryFileSystem>(disk)));
  }
  SECTION("in memory, as NFS") {
    MemoryDisk disk;
    disk.refuses_no_replace = true;
    test(*open_on(std::make_unique<MemoryFileSystem>(disk)));
  }
}

}  // namespace

TEST_CASE("file_store: what was put is read back whole and in parts", "[store]") {
  on_every_file_system([](Store& store) {
    const std::string large(300'000, 'x');
    REQUIRE(store.put("a/b/c", bytes_of("hello"), false).has_value());
    REQUIRE(store.put("large", bytes_of(large), false).has_value());
    REQUIRE(store.put("empty", {}, false).has_value());
    CHECK(text_of(store, "a/b/c") == "hello");
    CHECK(text_of(store, "large") == large);
    CHECK(text_of(store, "empty").empty());
    std::string part(3, '\0');
    REQUIRE(store.read("a/b/c", 1, std::as_writable_bytes(std::span{part})).has_value());
    CHECK(part == "ell");
    CHECK(code_of(store.read("a/b/c", 3, std::as_writable_bytes(std::span{part}))) ==
          Code::kCorrupt);
    CHECK(code_of(store.read("none", 0, std::as_writable_bytes(std::span{part}))) ==
          Code::kNotFound);
    CHECK(store.stat("a/b/c")->bytes == 5);
    CHECK(store.stat("a/b").error().code == Code::kNotFound);
    CHECK(store.get("none").error().code == Code::kNotFound);
    CHECK(store.get("a/b").error().code == Code::kNotFound);
  });
}

TEST_CASE("file_store: an object whose bytes lie in several places is one", "[store]") {
  MemoryDisk disk;
  FileStore store(std::make_unique<MemoryFileSystem>(disk), "/data/run");
  const std::vector<std::span<const std::byte>> parts{bytes_of("head"), {}, bytes_of("er, data")};
  REQUIRE(store.put_parts("a/b", parts, false).has_value());
  CHECK(text_of(store, "a/b") == "header, data");
  CHECK(code_of(store.put_parts("a/b", parts, false)) == Code::kAlreadyExists);
  REQUIRE(store.put_parts("a/b", {parts.data(), 1}, true).has_value());
  CHECK(text_of(store, "a/b") == "head");
}

TEST_CASE("file_store: put replaces only when it is told to", "[store]") {
  on_every_file_system([](Store& store) {
    REQUIRE(store.put("k/m", bytes_of("first"), false).has_value());
    CHECK(code_of(store.put("k/m", bytes_of("second"), false)) == Code::kAlreadyExists);
    CHECK(text_of(store, "k/m") == "first");
    REQUIRE(store.put("k/m", bytes_of("third"), true).has_value());
    REQUIRE(store.put("k/new", bytes_of("new"), true).has_value());
    CHECK(text_of(store, "k/m") == "third");
    CHECK(keys_of(store, "") == std::vector<std::string>{"k/m", "k/new"});
  });
}

TEST_CASE("file_store: lists are sorted, by folder, and show nothing unfinished", "[store]") {
  on_every_file_system([](Store& store) {
    for (const char* key : {"b/2", "b/1", "a", "b/c/d", "bb/1"}) {
      REQUIRE(store.put(key, bytes_of(key), false).has_value());
    }
    CHECK(keys_of(store, "") == std::vector<std::string>{"a", "b/1", "b/2", "b/c/d", "bb/1"});
    CHECK(keys_of(store, "b") == std::vector<std::string>{"b/1", "b/2", "b/c/d"});
    CHECK(keys_of(store, "b/") == keys_of(store, "b"));
    CHECK(keys_of(store, "none").empty());
    CHECK(*store.list_folders("") == std::vector<std::string>{"b", "bb"});
    CHECK(*store.list_folders("b") == std::vector<std::string>{"c"});
    CHECK(store.list_folders("none")->empty());
  });
}

TEST_CASE("file_store: folders are renamed without replacing and removed whole", "[store]") {
  on_every_file_system([](Store& store) {
    REQUIRE(store.put("a/x/1", bytes_of("1"), false).has_value());
    REQUIRE(store.put("b/2", bytes_of("2"), false).has_value());
    CHECK(code_of(store.rename_folder("a", "b")) == Code::kAlreadyExists);
    CHECK(code_of(store.rename_folder("none", "c")) == Code::kNotFound);
    REQUIRE(store.rename_folder("a", "c").has_value());
    CHECK(keys_of(store, "") == std::vector<std::string>{"b/2", "c/x/1"});
    REQUIRE(store.remove_folder("c").has_value());
    REQUIRE(store.remove_folder("c").has_value());
    CHECK(keys_of(store, "") == std::vector<std::string>{"b/2"});
    CHECK(*store.list_folders("") == std::vector<std::string>{"b"});
  });
}

TEST_CASE("file_store: removing finishes what a crash left of an earlier removal", "[store]") {
  const TemporaryFolder folder;
  const auto store = open_on(make_posix_file_system(), folder.path());
  std::filesystem::create_directories(folder.path() + "/.trash-1-ab/deep");
  std::ofstream{folder.path() + "/.trash-1-ab/deep/file"} << "old";
  CHECK(keys_of(*store, "").empty());
  REQUIRE(store->remove_folder("whatever").has_value());
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("file_store: keys that could leave the store are refused", "[store]") {
  MemoryDisk disk;
  const auto store = open_on(std::make_unique<MemoryFileSystem>(disk));
  const std::vector<std::string> bad = {"",
                                        "/etc/passwd",
                                        "..",
                                        "a/../b",
                                        "a//b",
                                        "a/",
                                        ".hidden",
                                        "a/.tmp-1",
                                        std::string("a\0b", 3),
                                        "a\nb",
                                        std::string(1025, 'a'),
                                        "a/" + std::string(256, 'b')};
  for (const auto& key : bad) {
    INFO(key);
    CHECK(code_of(store->put(key, {}, true)) == Code::kInvalid);
    CHECK(store->get(key).error().code == Code::kInvalid);
    CHECK(code_of(store->remove_folder(key)) == Code::kInvalid);
    CHECK(code_of(store->rename_folder(key, "b")) == Code::kInvalid);
    CHECK(code_of(store->rename_folder("b", key)) == Code::kInvalid);
  }
  CHECK(disk.all_files().empty());
}

TEST_CASE("file_store: a symbolic link is neither followed nor listed", "[store]") {
  const TemporaryFolder folder;
  const auto store = open_on(make_posix_file_system(), folder.path() + "/s");
  std::ofstream{folder.path() + "/secret"} << "secret";
  std::filesystem::create_directory(folder.path() + "/s");  // looking alone does not make it
  std::filesystem::create_symlink(folder.path() + "/secret", folder.path() + "/s/link");
  std::filesystem::create_directory_symlink(folder.path(), folder.path() + "/s/up");
  CHECK(keys_of(*store, "").empty());
  CHECK(store->list_folders("")->empty());
  CHECK_FALSE(store->get("link").has_value());
  REQUIRE(store->put("d/x", bytes_of("x"), false).has_value());
  std::filesystem::create_directory_symlink(folder.path(), folder.path() + "/s/d/up");
  REQUIRE(store->remove_folder("d").has_value());
  CHECK(std::filesystem::exists(folder.path() + "/secret"));
}

TEST_CASE("open_store: says what to write instead of a URI it cannot use", "[store]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"s3://bucket/run", "s3:// is not supported by this version; use file:///"},
      {"/data", "write file:///absolute/path"},
      {"", "write file:///absolute/path"},
      {"file://host/data", "three slashes"},
      {"file:///", "name a folder"},
      {"file:///a/../b", "\"..\""},
      {"file:///a/..", "\"..\""},
      {"file:///a//b", "empty parts"},
      {"file:///a%20b", "% ? #"},
  };
  for (const auto& [uri, hint] : cases) {
    INFO(uri);
    const auto store = open_store(uri);
    REQUIRE_FALSE(store.has_value());
    CHECK(store.error().code == Code::kInvalid);
    CHECK(store.error().message.find(hint) != std::string::npos);
  }
  const TemporaryFolder folder;
  const auto store = open_store("file://" + folder.path() + "/new/run/");
  REQUIRE(store.has_value());
  CHECK((*store)->uri_of("a/b") == "file://" + folder.path() + "/new/run/a/b");
  // Who only looks makes nothing: a volume may not be mounted yet.
  CHECK((*store)->list_folders("")->empty());
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/new"));
  REQUIRE((*store)->put("a/b", {}, false).has_value());
  CHECK(std::filesystem::exists(folder.path() + "/new/run/a/b"));
  std::ofstream{folder.path() + "/file"} << "x";
  CHECK(open_store("file://" + folder.path() + "/file").error().message.find("is a file") !=
        std::string::npos);
}

TEST_CASE("file_store: of many threads that publish one key, one wins and the object is its",
          "[store]") {
  const TemporaryFolder folder;
  const auto store = open_on(make_posix_file_system(), folder.path());
  for (int round = 0; round < 20; ++round) {
    const std::string key = "r" + std::to_string(round) + "/manifest";
    std::atomic<int> winners = 0, winner = -1;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
          const std::string text(5000, static_cast<char>('a' + i));
          if (store->put(key, bytes_of(text), false)) ++winners, winner = i;
        });
      }
    }
    REQUIRE(winners == 1);
    REQUIRE(text_of(*store, key) == std::string(5000, static_cast<char>('a' + winner)));
  }
}

}  // namespace pawl::store
