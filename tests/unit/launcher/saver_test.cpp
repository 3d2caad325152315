#include <sys/epoll.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "common/checkpoint/checkpoint.h"
#include "common/os/seqpacket.h"
#include "launcher/saver/saver.h"
#include "peer_fixture.h"

using namespace pawl;
using namespace pawl::launcher;
using namespace pawl::launcher::test;
using namespace pawl::membership;

namespace {

// Writes everything, and does not know so of some manifests: their folder's sync has failed.
class UnsureStore final : public store::Store {
 public:
  UnsureStore(std::unique_ptr<store::Store> real, int* unsure)
      : real_(std::move(real)), unsure_(unsure) {}
  Status put(const std::string& key, std::span<const std::byte> bytes, bool is_replacing) override {
    PAWL_TRY_VOID(real_->put(key, bytes, is_replacing));
    if (!key.ends_with("manifest.json") || *unsure_ == 0) return {};
    --*unsure_;
    return fail(Code::kOutcomeUnknown, "syncing folder: errno 5");
  }
  Result<std::vector<std::byte>> get(const std::string& key) const override {
    return real_->get(key);
  }
  Status read(const std::string& key, std::uint64_t offset,
              std::span<std::byte> bytes) const override {
    return real_->read(key, offset, bytes);
  }
  Result<store::Entry> stat(const std::string& key) const override { return real_->stat(key); }
  Result<std::vector<store::Entry>> list(const std::string& prefix) const override {
    return real_->list(prefix);
  }
  Result<std::vector<std::string>> list_folders(const std::string& prefix) const override {
    return real_->list_folders(prefix);
  }
  Status remove_folder(const std::string& folder) override { return real_->remove_folder(folder); }
  Status rename_folder(const std::string& from, const std::string& to) override {
    return real_->rename_folder(from, to);
  }
  std::string uri_of(const std::string& key) const override { return real_->uri_of(key); }

 private:
  std::unique_ptr<store::Store> real_;
  int* unsure_;
};

struct Desk {
  explicit Desk(int keep = 2) {
    std::string path = "/tmp/pawl-saver-XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    folder = path;
    inbox = Inbox::create().value();
    poller = Poller::create().value();
    poller->add(inbox->fd(), EPOLLIN, [this](std::uint32_t) { inbox->drain(); });
    saver = std::make_unique<Saver>(
        SaverOptions{"file://" + folder, "job-1", keep,
                     [this](const std::string& uri) -> Result<std::unique_ptr<store::Store>> {
                       PAWL_TRY(real, store::open_store(uri));
                       return std::make_unique<UnsureStore>(std::move(real), &unsure);
                     }},
        inbox,
        SaverEvents{.on_selected = [this](CheckpointSelected one) { selected.push_back(one); },
                    .on_written = [this](ShardWritten one) { written.push_back(one); },
                    .on_published = [this](PublishDone one) { published.push_back(one); },
                    .on_warning = [this](const std::string& what) { warnings.push_back(what); }});
  }
  ~Desk() {
    saver.reset();
    std::filesystem::remove_all(folder);
  }
  void write(std::int64_t step, int rank, int world, const std::string& text,
             std::int64_t generation = 1) {
    os::Fd memory = os::create_memfd("t", 4096).value();
    REQUIRE(::pwrite(memory.get(), text.data(), text.size(), 0) ==
            static_cast<ssize_t>(text.size()));
    const std::size_t before = written.size();
    saver->write({.rank = rank,
                  .world_size = world,
                  .step = step,
                  .attempt = generation,
                  .generation = generation,
                  .bytes = text.size(),
                  .manifest_json = rank == 0 ? "{}" : ""},
                 std::move(memory));
    REQUIRE(run_until(*poller, [&] { return written.size() > before; }));
  }
  void publish(std::int64_t step, std::int64_t generation = 1,
               std::vector<api::LineageEntry> lineage = {{1, 1, 0}}) {
    PublishCheckpoint wanted{.step = step,
                             .attempt = generation,
                             .generation = generation,
                             .world_size = 1,
                             .trainer_json = "{}"};
    wanted.lineage = std::move(lineage);
    wanted.shards = {written.back().shard};
    const std::size_t before = published.size();
    saver->publish(wanted);
    REQUIRE(run_until(*poller, [&] { return published.size() > before; }));
  }
  int folders() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      count += entry.path().filename().string().starts_with("step-") ? 1 : 0;
    return count;
  }
  CheckpointSelected select(const std::vector<api::LineageEntry>& lineage,
                            const std::string& published_uri = "") {
    const std::size_t before = selected.size();
    saver->select({lineage, published_uri});
    REQUIRE(run_until(*poller, [&] { return selected.size() > before; }));
    return selected.back();
  }

  std::string folder;
  std::shared_ptr<Inbox> inbox;
  std::unique_ptr<Poller> poller;
  std::vector<CheckpointSelected> selected;
  std::vector<ShardWritten> written;
  std::vector<PublishDone> published;
  std::vector<std::string> warnings;
  int unsure = 0;  // of the manifests that are written next, on the writer's thread
  std::unique_ptr<Saver> saver;
};

std::string name_of(std::int64_t step) {
  return checkpoint::folder_of({step, 1, 1, checkpoint::job_tag("job-1")});
}

// The smallest safetensors file: no tensors.
const std::string kEmptyFile = std::string{"\x08\0\0\0\0\0\0\0", 8} + "{}      ";

}  // namespace

TEST_CASE("saver: written, published, found again; older ones go", "[launcher]") {
  Desk desk;
  CHECK(desk.select({}).load_uri.empty());
  for (const std::int64_t step : {10, 20, 30}) {
    desk.write(step, 0, 1, kEmptyFile);
    REQUIRE(desk.written.back().error.empty());
    CHECK(desk.written.back().shard.bytes == kEmptyFile.size());
    desk.publish(step);
    REQUIRE(desk.published.back().error.empty());
    CHECK(desk.published.back().checkpoint.digest.starts_with("sha256:"));
  }
  const CheckpointSelected found = desk.select({{1, 1, 0}});
  CHECK(found.step == 30);
  CHECK(found.load_uri == desk.published.back().checkpoint.uri);
  desk.saver.reset();  // after it nothing is under way
  CHECK(desk.folders() == 2);
}

TEST_CASE("saver: older checkpoints are deleted only when the newer one is known to stay",
          "[launcher]") {
  Desk desk{1};
  for (const std::int64_t step : {10, 20, 30}) {
    desk.unsure = step == 20 ? 1 : 0;
    desk.write(step, 0, 1, kEmptyFile);
    desk.publish(step);
    REQUIRE(desk.published.back().error.empty());
    (void)desk.select({});  // comes after the cleaning up
    if (step == 20) {
      CHECK(desk.warnings.size() == 1);
      CHECK(std::filesystem::exists(desk.folder + "/" + name_of(10) + "/manifest.json"));
    }
  }
  CHECK(desk.folders() == 1);
}

TEST_CASE("saver: a publication that is repeated finds its own manifest; another's is refused",
          "[launcher]") {
  Desk desk;
  desk.write(10, 0, 1, kEmptyFile);
  desk.publish(10);
  desk.publish(10);
  CHECK(desk.published.back().error.empty());
  CHECK(desk.published[0].checkpoint.digest == desk.published[1].checkpoint.digest);
  desk.written.back().shard.crc32c ^= 1;
  desk.publish(10);
  CHECK_FALSE(desk.published.back().error.empty());
}

TEST_CASE("saver: what was never finished goes, what is published stays", "[launcher]") {
  Desk desk;
  desk.write(10, 0, 1, kEmptyFile);
  desk.publish(10);
  desk.write(20, 0, 1, kEmptyFile);
  desk.write(30, 0, 1, kEmptyFile);
  desk.saver->discard({.step = 30, .attempt = 1, .generation = 1});
  desk.saver->discard({.step = 10, .attempt = 1, .generation = 1});
  CHECK(desk.select({}).step == 10);
  CHECK(desk.folders() == 2);
  desk.saver->clean_up({.attempt = 2, .generation = 2});
  CHECK(desk.select({}).step == 10);
  CHECK(desk.folders() == 1);
  // Of the first selection: step 20 was there and not published.
  REQUIRE(desk.warnings.size() == 1);
  CHECK(desk.warnings[0].find("was never published") != std::string::npos);
}

TEST_CASE("saver: what a stale writer published does not push out what the run goes on from",
          "[launcher]") {
  Desk desk;  // keeps two
  for (const std::int64_t step : {20, 30}) {
    desk.write(step, 0, 1, kEmptyFile);
    desk.publish(step);
  }
  // Attempt 2 went on from step 20, so step 30 of attempt 1 is off the lineage.
  const std::vector<api::LineageEntry> lineage{{1, 1, 0}, {2, 2, 20}};
  desk.write(25, 0, 1, kEmptyFile, 2);
  desk.publish(25, 2, lineage);
  REQUIRE(desk.published.back().error.empty());
  CHECK(desk.select(lineage).step == 25);  // comes after the cleaning up
  std::filesystem::remove_all(desk.folder + "/step-00000025-a02-g0002-" +
                              checkpoint::job_tag("job-1"));
  CHECK(desk.select(lineage).step == 20);
}

TEST_CASE("saver: a shard without a manifest is no checkpoint; a lineage without it neither",
          "[launcher]") {
  Desk desk;
  desk.write(10, 0, 1, kEmptyFile);
  CHECK(desk.select({{1, 1, 0}}).step == 0);
  desk.publish(10);
  CHECK(desk.select({{1, 1, 0}}).step == 10);
  CHECK(desk.select({{2, 5, 0}}).step == 0);
}

TEST_CASE("saver: storage that is not there is an error, not an empty one", "[launcher]") {
  Desk desk;
  std::filesystem::remove_all(desk.folder);
  std::filesystem::create_symlink("/dev/null", desk.folder);
  CHECK_FALSE(desk.select({}).error.empty());
  desk.write(10, 0, 1, kEmptyFile);
  CHECK_FALSE(desk.written.back().error.empty());
  CHECK(desk.written.back().shard.step == 10);
}

TEST_CASE("saver: a published checkpoint that is not there is an error, and no folder is made",
          "[launcher]") {
  Desk desk;
  std::filesystem::remove_all(desk.folder);
  const std::string published = "file://" + desk.folder + "/step-00000030-a01-g0001";
  CHECK(desk.select({{1, 1, 0}}, published).error.find("is not there") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(desk.folder));
  // A URI that was changed is another place: somebody has chosen it.
  CHECK(desk.select({{1, 1, 0}}, "file:///elsewhere/step-00000030-a01-g0001").error.empty());
}
