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

struct Desk {
  explicit Desk(int keep = 2) {
    std::string path = "/tmp/pawl-saver-XXXXXX";
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    folder = path;
    inbox = Inbox::create().value();
    poller = Poller::create().value();
    poller->add(inbox->fd(), EPOLLIN, [this](std::uint32_t) { inbox->drain(); });
    saver = std::make_unique<Saver>(
        SaverOptions{"file://" + folder, "job-1", keep}, inbox,
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
  std::unique_ptr<Saver> saver;
};

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
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(desk.folder)) {
    folders += entry.path().filename().string().starts_with("step-") ? 1 : 0;
  }
  CHECK(folders == 2);
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
