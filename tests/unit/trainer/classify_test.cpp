// A whole run on a table.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/unit/trainer/gang.h"
#include "trainer-runtime/trainer/same_run.h"

using namespace pawl;
using test::Rank;

namespace {

// Three spirals, which no linear layer tells apart.
std::string spirals() {
  std::string text = "x,y,arm\n";
  for (int i = 0; i < 600; ++i) {
    const int arm = i % 3;
    const double radius = 0.1 + 0.9 * i / 600, angle = 4 * radius + arm * 2 * M_PI / 3;
    text += std::to_string(radius * std::cos(angle)) + "," +
            std::to_string(radius * std::sin(angle)) + "," + std::to_string(arm) + "\n";
  }
  return text;
}

TrainerConfig spiral_config(const test::Folder& folder) {
  TrainerConfig config;
  config.model.kind = "mlp";
  config.model.context = 1;
  config.model.inputs = 2;
  config.model.classes = 3;
  config.model.hidden = {32, 32};
  config.data.kind = "csv";
  config.data.paths = {folder.write("spirals.csv", spirals())};
  config.data.validation_fraction = 0.2;
  config.batch = {60, 10, "even"};
  config.optimizer.learning_rate = 0.01;
  config.optimizer.weight_decay = 0;
  config.steps = 300;
  config.validate_every = 100;
  config.determinism = "exact";
  return config;
}

}  // namespace

TEST_CASE("trainer: an mlp learns from a table, with the same bits on any number of ranks",
          "[trainer]") {
  const test::Folder folder;
  const TrainerConfig config = spiral_config(folder);
  const auto alone = test::run_gang(config, {});
  REQUIRE(alone[0].outcome);
  const std::string& note = alone[0].session.reports.back().note;
  INFO(note);
  const std::size_t at = note.find("accuracy ");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(note.substr(at + 9)) > 97);
  CHECK(note.find("bits/byte") == std::string::npos);
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  const auto three =
      test::run_gang(config, {.world_size = 3, .checkpoint_uri = uri, .prepare = [](Rank& rank) {
                                test::order_at(rank, 99, {.is_checkpoint_wanted = true});
                              }});
  for (const Rank& rank : three) {
    REQUIRE(rank.outcome);
    CHECK(test::is_equal(*rank.arrays, *alone[0].arrays));
  }
  CHECK(three[0].session.reports.back().note == note);
  const auto resumed = test::run_gang(
      config, {.world_size = 2, .checkpoint_uri = uri, .load_step = 100, .attempt = 2});
  for (const Rank& rank : resumed) {
    REQUIRE(rank.outcome);
    CHECK(test::is_equal(*rank.arrays, *alone[0].arrays));
  }
}

TEST_CASE("trainer: reports and checkpoints have the newest result and the best of the run",
          "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = spiral_config(folder);
  config.steps = 60;
  config.validate_every = 10;
  config.validate_batches = 1'000;
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  const auto gang =
      test::run_gang(config, {.world_size = 2, .checkpoint_uri = uri, .prepare = [](Rank& rank) {
                                test::order_at(rank, 44, {.is_checkpoint_wanted = true});
                              }});
  for (const Rank& rank : gang) REQUIRE(rank.outcome);
  const auto& reports = gang[0].session.reports;
  CHECK(reports[5].validation_step == -1);
  std::int64_t newest = -1, best_step = 0;
  double best = 1e9;
  for (const auto& report : reports) {
    if (report.validation_step > newest) {
      newest = report.validation_step;
      CHECK(newest % 10 == 0);
      if (report.validation_loss < best) {
        best = report.validation_loss;
        best_step = newest;
      }
    }
    if (newest < 0) continue;
    CHECK(report.validation_step == newest);
    CHECK(report.validation_accuracy >= 0);
    CHECK(report.best_step == best_step);
    CHECK(report.best_loss == best);
  }
  CHECK(newest == 60);
  const auto resumed = test::run_gang(
      config, {.world_size = 1, .checkpoint_uri = uri, .load_step = 45, .attempt = 2});
  REQUIRE(resumed[0].outcome);
  REQUIRE(resumed[0].start.validated);
  CHECK(resumed[0].start.validated->step == 40);
  REQUIRE(resumed[0].start.best);
  const auto& first = resumed[0].session.reports.front();
  CHECK(first.validation_step == 40);
  CHECK(first.best_loss == resumed[0].start.best->loss);
}

TEST_CASE("trainer: where nothing is held out no score is told", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = spiral_config(folder);
  config.data.validation_fraction = 0;
  config.steps = 20;
  config.validate_every = 5;
  const auto ranks = test::run_gang(config, {});
  REQUIRE(ranks[0].outcome);
  for (const auto& report : ranks[0].session.reports)
    CHECK(report.note.find("validation") == std::string::npos);
}

TEST_CASE("trainer: a sample that one rank alone cannot use ends the run on all", "[trainer]") {
  const test::Folder folder;
  std::string tokens;
  for (int i = 0; i < 8'000; ++i) tokens += {static_cast<char>(i == 3'333 ? 255 : i % 200), '\0'};
  TrainerConfig config = test::small_config(folder.write("tokens", tokens));
  config.data.kind = "tokens";
  config.data.validation_fraction = 0;
  config.model.vocabulary = 200;
  const auto ranks = test::run_gang(config, {.world_size = 3});
  int met = 0;
  for (const Rank& rank : ranks) {
    REQUIRE(!rank.outcome);
    const Error& error = rank.outcome.error();
    INFO(error.message);
    if (error.code == Code::kInvalid) {
      ++met;
      CHECK(error.message.find("/tokens: token 3333 is 255") != std::string::npos);
    } else {
      CHECK(error.code == Code::kUnavailable);
    }
  }
  CHECK(met == 1);
}

TEST_CASE("trainer: a checkpoint of a table that was read in another way is refused", "[trainer]") {
  const test::Folder folder;
  TrainerConfig config = spiral_config(folder);
  const auto dataset = *data::open_dataset(config);
  const saving::TrainerState fresh = trainer::fresh_state(config, *dataset);
  const auto state = saving::decode_state(saving::encode_state(fresh));
  REQUIRE(state);
  CHECK(*state == fresh);
  const auto complaint = [&](const TrainerConfig& other, const saving::TrainerState& of) {
    const Status same = trainer::check_same_run(of, other, *dataset);
    return same ? "" : same.error().message;
  };
  CHECK(complaint(config, *state).empty());
  TrainerConfig other = config;
  other.data.paths = {"/elsewhere"};
  other.data.bad_rows_max = 3;
  other.optimizer.learning_rate = 1;
  CHECK(complaint(other, *state).empty());
  other.data.normalize = "none";
  CHECK(complaint(other, *state) ==
        R"(was trained with data {"kind":"csv","label":"","normalize":"standard"} of digest )" +
            dataset->digest() +
            R"(, and is to go on with {"kind":"csv","label":"","normalize":"none"} of digest )" +
            dataset->digest() + ": the samples would not be the same");
  other = config;
  other.data.label = "x";
  CHECK(complaint(other, *state).find(R"("label":"x")") != std::string::npos);
  saving::TrainerState older = *state;
  older.data_form.clear();
  CHECK(complaint(other, older).empty());
  older.samples += 1;
  CHECK(complaint(config, older).find("in 481 samples; with data.paths") != std::string::npos);
  older.seed += 1;
  CHECK(complaint(config, older).starts_with("is of another seed"));
}

TEST_CASE("trainer: a table with one other number of the same length is another one", "[trainer]") {
  const test::Folder folder;
  const TrainerConfig config = spiral_config(folder);
  const auto dataset = *data::open_dataset(config);
  const saving::TrainerState state = trainer::fresh_state(config, *dataset);
  const std::string hash = trainer::agreed_hash(config, *dataset);
  REQUIRE(dataset->digest().size() == 16);
  std::string text = test::read_whole(config.data.paths[0]);
  text[text.find_last_of("01")] ^= 1;
  std::ofstream(config.data.paths[0]) << text;
  const auto changed = data::open_dataset(config);
  REQUIRE(changed);
  CHECK((*changed)->bytes() == dataset->bytes());
  CHECK(trainer::agreed_hash(config, **changed) != hash);
  const Status same = trainer::check_same_run(state, config, **changed);
  REQUIRE(!same);
  CHECK(same.error().message.find(" of digest " + (*changed)->digest()) != std::string::npos);
}

// What is on the disks of users: these may change only with a version that reads both.
TEST_CASE("trainer: the hashes and the state of an older run of a GPT are known", "[trainer]") {
  TrainerConfig config;
  config.data.paths = {"/x"};
  CHECK(model_hash(config) == "3fe6b308a9f781185bdbac97518783f1f8057abbaa4a6a6368ec267ab5e7440d");
  CHECK(config_hash(config) == "2a513571e67f4bd23821f05901f3009150f7285377be79500101f3a29e3fd4f3");
  const auto state = saving::decode_state(
      R"({"config_hash":"c","corpus_bytes":40000,"cursor":224,"format":1,"model_hash":"m",)"
      R"("optimizer":{"kind":"adamw","step":7},"samples":100,"seed":1,"step":7})");
  REQUIRE(state);
  CHECK(state->step == 7);
  CHECK(state->samples == 100);
  CHECK(state->data_form.empty());
  CHECK(state->optimizer == "adamw");
  CHECK(state->optimizer_step == 7);
}
