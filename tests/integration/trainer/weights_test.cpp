// The real program begins with weights of a file, and leaves its model behind.
#include <catch2/catch_test_macros.hpp>

#include "common/api/contract.h"
#include "tests/integration/trainer/gang_fixture.h"
#include "tests/unit/trainer/weights_files.h"

using namespace pawl;
using namespace pawl::test;

namespace {

void write_config(Setup& setup) { setup.folder.write("config.json", format_config(setup.config)); }

int run(const Setup& setup, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"--config", setup.config_path};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Process(arguments, {}, setup.log_path).wait();
}

// "(loss 5.1234 nats" of the validation that ended the newest run.
std::string last_loss(const Setup& setup) {
  const std::string log = setup.log();
  const auto at = log.rfind("(loss ");
  return at == std::string::npos ? "" : log.substr(at, 17);
}

}  // namespace

TEST_CASE("pawl-train: what one run exports another begins with, and needs no more once it saved",
          "[trainer]") {
  Setup setup(12);
  const std::string exported = setup.folder.path() + "/models/first";
  setup.config.export_folder = exported;
  write_config(setup);
  REQUIRE(run(setup) == api::kExitDone);
  CHECK(setup.log().find("exported to " + exported) != std::string::npos);
  const std::string loss = last_loss(setup);

  setup.config.export_folder = "";
  setup.config.model.weights = exported;
  setup.config.steps = 1;
  setup.config.optimizer.learning_rate = 0;
  write_config(setup);
  const std::vector<std::string> saving{"--checkpoint-uri", setup.uri()};
  REQUIRE(run(setup, saving) == api::kExitDone);
  CHECK(last_loss(setup) == loss);

  std::filesystem::remove_all(exported);
  CHECK(run(setup, {"--checkpoint-uri", setup.uri(), "--steps", "3"}) == api::kExitDone);
  CHECK(last_loss(setup) == loss);
  CHECK(run(setup) == api::kExitFatal);
  CHECK(setup.log().find("model.weights: " + exported + ": does not exist") != std::string::npos);
}

TEST_CASE("pawl-train: a run that is complete but for its export exports what it has saved",
          "[trainer]") {
  Setup setup(12);
  write_config(setup);
  const std::vector<std::string> saving{"--checkpoint-uri", setup.uri()};
  REQUIRE(run(setup, saving) == api::kExitDone);
  const std::string loss = last_loss(setup), exported = setup.folder.path() + "/exported";
  setup.config.export_folder = exported;
  write_config(setup);
  REQUIRE(run(setup, saving) == api::kExitDone);
  CHECK(setup.log().find("starting at step 12") != std::string::npos);
  setup.config.export_folder = "";
  setup.config.model.weights = exported;
  setup.config.steps = 1;
  setup.config.optimizer.learning_rate = 0;
  write_config(setup);
  REQUIRE(run(setup) == api::kExitDone);
  CHECK(last_loss(setup) == loss);
}

TEST_CASE("pawl-train: a run that begins again at step 0 begins with its weights again",
          "[trainer]") {
  Setup setup(kForever);
  setup.config.model.weights = setup.folder.write("w", safetensors_of(entries_of(setup.config, 3)));
  write_config(setup);
  auto gang = launch(setup, 1);
  channel::Welcome welcome;
  welcome.world_size = 1;
  welcome.attempt = 1;
  welcome.checkpoint_seconds = 100'000;
  welcome.can_park = true;
  REQUIRE(gang[0]->next<channel::Hello>());
  std::vector<double> losses;
  for (welcome.generation = 1; welcome.generation <= 2; ++welcome.generation) {
    gang[0]->send(welcome);
    const auto report = gang[0]->next<channel::Report>();
    REQUIRE(report);
    CHECK(report->step == 1);
    losses.push_back(report->loss);
    gang[0]->send(channel::Park{});
    REQUIRE(gang[0]->next<channel::Parked>());
  }
  CHECK(losses[0] == losses[1]);
}

TEST_CASE(
    "pawl-train: a folder that cannot be exported to ends the run before its first step, an "
    "export that fails ends it to be run again",
    "[trainer]") {
  Setup setup(3);
  setup.config.export_folder = setup.folder.write("file", "x") + "/below";
  write_config(setup);
  CHECK(run(setup) == api::kExitFatal);
  CHECK(setup.log().find("export: ") != std::string::npos);
  CHECK(setup.log().find("first step") == std::string::npos);

  setup.folder.write("model/model.safetensors/in-the-way", "x");
  setup.config.export_folder = setup.folder.path() + "/model";
  write_config(setup);
  auto gang = launch(setup, 1);
  channel::Welcome welcome;
  welcome.world_size = 1;
  welcome.attempt = welcome.generation = 1;
  welcome.checkpoint_seconds = 100'000;
  welcome.can_park = true;  // it must not: the other ranks of a larger gang are gone
  REQUIRE(gang[0]->next<channel::Hello>());
  gang[0]->send(welcome);
  CHECK_FALSE(gang[0]->next<channel::Done>());
  CHECK(gang[0]->process().wait() == api::kExitRetry);
  CHECK(setup.log().find("pawl-train: export: publishing ") != std::string::npos);
}
