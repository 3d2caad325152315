// The real program under a launcher's channel, alone, and under torchrun's variables.
#include <fcntl.h>
#include <catch2/catch_test_macros.hpp>

#include "common/api/contract.h"
#include "tests/integration/trainer/gang_fixture.h"

using namespace pawl;
using namespace pawl::test;

TEST_CASE(
    "pawl-train: two processes under a launcher train to the end, seal checkpoints and say done",
    "[trainer]") {
  Setup setup(30);
  auto gang = launch(setup, 2);
  REQUIRE(form(gang));
  std::string note;
  std::int64_t last = 0;
  while (last < 30 || note.empty()) {
    const auto report = gang[0]->next<channel::Report>();
    REQUIRE(report);
    CHECK(report->step >= last);
    CHECK(report->total_steps == 30);
    CHECK(report->tokens_per_second > 0);
    last = report->step;
    note = report->note;
  }
  CHECK(note.find("validation: ") == 0);
  for (auto& one : gang) {
    const auto done = one->next<channel::Done>();
    REQUIRE(done);
    CHECK(done->step == 30);
    CHECK(one->process().wait() == api::kExitDone);
    // Early once, so that bad storage shows at the beginning; then the result.
    REQUIRE(one->sealed().size() == 2);
    CHECK(one->sealed()[0].step == 10);
    CHECK(one->sealed()[1].step == 30);
  }
  CHECK(setup.log().find("bigram entropy") != std::string::npos);
}

TEST_CASE(
    "pawl-train: SIGTERM to one rank makes all finish the step, seal it, and leave with the code "
    "for another try",
    "[trainer]") {
  Setup setup(kForever);
  auto gang = launch(setup, 2);
  REQUIRE(form(gang));
  REQUIRE(train_until(*gang[0], 5));
  // The storage is slow: neither may leave before its shard is safe.
  for (auto& one : gang) one->set_releasing(false);
  gang[1]->process().signal(SIGTERM);
  std::vector<channel::Sealed> sealed;
  for (auto& one : gang) {
    const auto message = one->next<channel::Sealed>();
    REQUIRE(message);
    sealed.push_back(*message);
  }
  CHECK(sealed[0].step == sealed[1].step);
  // The launcher publishes confirmed steps alone.
  CHECK(gang[0]->confirmed() == sealed[0].step);
  CHECK(!sealed[0].manifest_json.empty());
  CHECK(sealed[1].manifest_json.empty());
  auto store = *store::open_store(setup.uri());
  const auto manifest = store_checkpoint(*store, gang);
  for (std::size_t rank = 0; rank < gang.size(); ++rank) {
    gang[rank]->send(channel::Released{sealed[rank].buffer});
    CHECK(gang[rank]->process().wait() == api::kExitRetry);
  }
  // Another world size goes on from there.
  Setup next(sealed[0].step + 3);
  auto one = launch(next, 1);
  REQUIRE(form(one, store->uri_of(checkpoint::folder_of(manifest.id)), manifest.id.step));
  const auto report = one[0]->next<channel::Report>();
  REQUIRE(report);
  CHECK(report->step == manifest.id.step + 1);
  CHECK(one[0]->next<channel::Done>());
  CHECK(one[0]->process().wait() == api::kExitDone);
}

TEST_CASE(
    "pawl-train: a checkpoint that is ordered is sealed while training goes on; a stop without "
    "saving seals nothing",
    "[trainer]") {
  Setup setup(kForever);
  auto gang = launch(setup, 2);
  REQUIRE(form(gang));
  REQUIRE(train_until(*gang[0], 3));
  gang[0]->send(channel::CheckpointNow{});
  const auto first = gang[0]->next<channel::Sealed>();
  const auto second = gang[1]->next<channel::Sealed>();
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->step == second->step);
  REQUIRE(train_until(*gang[0], first->step + 3));
  gang[1]->send(channel::Stop{.is_saving = false});
  for (auto& one : gang) {
    CHECK(one->process().wait() == api::kExitRetry);
    CHECK(!one->next<channel::Done>());
    CHECK(one->sealed().size() == 1);
  }
}

TEST_CASE("pawl-train: when a peer is killed, the other one is a victim and says who it was",
          "[trainer]") {
  Setup setup(kForever);
  auto gang = launch(setup, 2);
  REQUIRE(form(gang));
  REQUIRE(train_until(*gang[0], 3));
  gang[1]->process().signal(SIGKILL);
  CHECK(gang[0]->process().wait() == api::kExitRetry);
  CHECK(setup.log().find("pawl-train: rank 1 at 127.0.0.1:") != std::string::npos);
}

TEST_CASE("pawl-train: without its launcher it ends, before and after the start", "[trainer]") {
  Setup setup(kForever);
  auto waiting = launch(setup, 1);
  REQUIRE(waiting[0]->next<channel::Hello>());
  waiting[0]->close();
  CHECK(waiting[0]->process().wait() == api::kExitRetry);
  auto gang = launch(setup, 1);
  REQUIRE(form(gang));
  REQUIRE(train_until(*gang[0], 2));
  gang[0]->close();
  CHECK(gang[0]->process().wait() == api::kExitRetry);
}

TEST_CASE("pawl-train: a signal while it waits for its gang ends it", "[trainer]") {
  Setup setup(kForever);
  auto gang = launch(setup, 1);
  REQUIRE(gang[0]->next<channel::Hello>());
  gang[0]->process().signal(SIGTERM);
  CHECK(gang[0]->process().wait() == api::kExitRetry);
}

TEST_CASE(
    "pawl-train: a configuration that cannot work ends with the code that nobody retries, and says "
    "why",
    "[trainer]") {
  const Setup setup(5);
  const std::string path = setup.folder.write("bad.json", R"({"model": {"layer": 2}})");
  CHECK(Process({"--config", path}, {}, setup.log_path).wait() == api::kExitFatal);
  CHECK(setup.log().find("bad.json: model.layer is not a field; did you mean \"layers\"?") !=
        std::string::npos);
  CHECK(Process({}, {}, setup.log_path).wait() == api::kExitFatal);
  CHECK(setup.log().find("PAWL_TRAINER_CONFIG") != std::string::npos);
  CHECK(
      Process({}, {{"PAWL_TRAINER_CONFIG", R"({"data": {"paths": ["/no/such"]}})"}}, setup.log_path)
          .wait() == api::kExitFatal);
  CHECK(setup.log().find("/no/such does not exist") != std::string::npos);
}

TEST_CASE(
    "pawl-train: alone it saves at the end and at SIGTERM, and goes on from its newest checkpoint",
    "[trainer]") {
  Setup setup(20);
  const std::vector<std::string> arguments{"--config",  setup.config_path, "--checkpoint-uri",
                                           setup.uri(), "--run-id",        "mine"};
  CHECK(Process(arguments, {}, setup.log_path).wait() == api::kExitDone);
  CHECK(setup.log().find("; 256 of 3968 held-out targets)") != std::string::npos);
  auto longer = arguments;
  longer.insert(longer.end(), {"--steps", "25"});
  CHECK(Process(longer, {}, setup.log_path).wait() == api::kExitDone);
  CHECK(setup.log().find("starting at step 20") != std::string::npos);
  auto store = *store::open_store(setup.uri());
  const auto selected = checkpoint::select_newest(*store, "mine", {});
  REQUIRE(selected);
  REQUIRE(selected->newest);
  CHECK(selected->newest->id == checkpoint::CheckpointId{25, 2, 1, checkpoint::job_tag("mine")});
}

TEST_CASE("pawl-train: a run does not go on with other data", "[trainer]") {
  Setup setup(20);
  const std::vector<std::string> arguments{"--config", setup.config_path, "--checkpoint-uri",
                                           setup.uri()};
  REQUIRE(Process(arguments, {}, setup.log_path).wait() == api::kExitDone);
  setup.folder.write("text", test::small_text(40'400));
  auto longer = arguments;
  longer.insert(longer.end(), {"--steps", "25"});
  CHECK(Process(longer, {}, setup.log_path).wait() == api::kExitFatal);
  CHECK(setup.log().find("was trained on 40000 bytes of data") != std::string::npos);
  CHECK(setup.log().find("there are 40400") != std::string::npos);
}

TEST_CASE("pawl-train: ranks with other data than rank 0 say so in their greeting", "[trainer]") {
  Setup setup(20);
  auto gang = launch(setup, 1);
  const auto first = gang[0]->next<channel::Hello>();
  REQUIRE(first);
  setup.folder.write("text", test::small_text(40'400));
  auto other = launch(setup, 1);
  const auto second = other[0]->next<channel::Hello>();
  REQUIRE(second);
  CHECK(first->config_hash != second->config_hash);
}

TEST_CASE("pawl-train: torchrun's variables make a gang without a launcher", "[trainer]") {
  Setup setup(10);
  // A port that was free a moment ago, as torchrun finds one.
  const auto port = *os::local_port(os::listen_tcp("127.0.0.1", 0)->get());
  std::vector<Process> ranks;
  for (const char* rank : {"2", "1", "0"}) {
    ranks.emplace_back(
        std::vector<std::string>{"--config", setup.config_path, "--checkpoint-uri", setup.uri()},
        std::map<std::string, std::string>{{"RANK", rank},
                                           {"WORLD_SIZE", "3"},
                                           {"MASTER_ADDR", "localhost"},
                                           {"MASTER_PORT", std::to_string(port)}},
        setup.log_path);
  }
  for (Process& rank : ranks) CHECK(rank.wait() == api::kExitDone);
  auto store = *store::open_store(setup.uri());
  const auto selected = checkpoint::select_newest(*store, "run", {});
  REQUIRE(selected);
  REQUIRE(selected->newest);
  CHECK(selected->newest->manifest.world_size == 3);
  CHECK(selected->newest->id.step == 10);
}
