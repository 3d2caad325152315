// Every optimizer in whole runs: bits that do not depend on the number of ranks, checkpoints, and a
// loss that falls.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "common/base/json.h"
#include "tests/unit/trainer/gang.h"

using namespace pawl;
using test::Rank;

namespace {

TrainerConfig config_of(const std::string& kind, const test::Folder& folder) {
  TrainerConfig config = test::small_config(folder.write("text", test::small_text(40'000)));
  config.determinism = "exact";
  config.steps = 30;
  config.optimizer.kind = kind;
  if (kind == "sgd" || kind == "lars") config.optimizer.weight_decay = 1e-4;
  if (kind == "sgd") config.optimizer.learning_rate = 0.3;
  if (kind == "lars") config.optimizer.learning_rate = 0.3;
  if (kind == "lars") config.optimizer.trust = 0.05;
  if (kind == "lamb") config.optimizer.learning_rate = 0.1;
  return config;
}

void order_checkpoint(Rank& rank) { test::order_at(rank, 9, {.is_checkpoint_wanted = true}); }

}  // namespace

TEST_CASE("trainer: each optimizer learns, with the same bits on any number of ranks and resumed",
          "[trainer]") {
  for (const char* kind : {"adamw", "sgd", "lars", "lamb"}) {
    INFO(kind);
    const test::Folder folder;
    const TrainerConfig config = config_of(kind, folder);
    const std::string uri = "file://" + folder.path() + "/checkpoints";
    const auto alone = test::run_gang(config, {});
    REQUIRE(alone[0].outcome);
    CHECK(test::losses_of(alone[0]).back() < 3.5);  // from 5.5
    const auto three = test::run_gang(
        config, {.world_size = 3, .checkpoint_uri = uri, .prepare = order_checkpoint});
    for (const Rank& rank : three) {
      REQUIRE(rank.outcome);
      CHECK(test::is_equal(*rank.arrays, *alone[0].arrays));
    }
    const auto resumed = test::run_gang(
        config, {.world_size = 2, .checkpoint_uri = uri, .load_step = 10, .attempt = 2});
    for (const Rank& rank : resumed) {
      REQUIRE(rank.outcome);
      CHECK(rank.start.optimizer_step == 10);
      CHECK(test::is_equal(*rank.arrays, *alone[0].arrays));
    }
  }
}

TEST_CASE("trainer: a run goes on with another optimizer, whose states begin at zero",
          "[trainer]") {
  const test::Folder folder;
  const std::string uri = "file://" + folder.path() + "/checkpoints";
  const auto first = test::run_gang(config_of("adamw", folder),
                                    {.checkpoint_uri = uri, .prepare = order_checkpoint});
  REQUIRE(first[0].outcome);
  const auto second = test::run_gang(
      config_of("lamb", folder),
      {.checkpoint_uri = uri, .load_step = 10, .attempt = 2, .prepare = [](Rank& rank) {
         CHECK(rank.start.step == 10);
         CHECK(rank.start.optimizer_step == 0);
         for (const auto& state : rank.arrays->states)
           for (const float value : state.span()) REQUIRE(value == 0);
       }});
  REQUIRE(second[0].outcome);
  CHECK(test::losses_of(second[0]).back() < test::losses_of(first[0])[9]);
}

TEST_CASE("trainer: the state says of which optimizer it is, and how many steps that has made",
          "[trainer]") {
  saving::TrainerState state{.step = 7, .config_hash = "c", .model_hash = "m"};
  const auto format = [](const saving::TrainerState& of) {
    return parse_json(saving::encode_state(of))["format"].get<int>();
  };
  CHECK(format(state) == 2);
  state.optimizer_step = 7;
  CHECK(format(state) == 1);  // as it was when AdamW was alone
  CHECK(saving::decode_state(saving::encode_state(state)) == state);
  state.optimizer = "lamb";
  CHECK(format(state) == 2);
  CHECK(saving::decode_state(saving::encode_state(state)) == state);
  state.optimizer_step = 8;  // more than there were
  CHECK(saving::decode_state(saving::encode_state(state))->optimizer_step == 0);
  state.optimizer_step = -1;
  CHECK(saving::decode_state(saving::encode_state(state))->optimizer_step == 0);
}
