#include "trainer-runtime/optim/schedule.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>
#include <vector>

using namespace pawl;
using optim::learning_rate;

namespace {

TrainerConfig hundred_steps(const std::string& kind) {
  TrainerConfig config;
  config.steps = 100;
  config.schedule.kind = kind;
  config.schedule.warmup_steps = 10;
  config.optimizer.learning_rate = 2;
  return config;
}

// Of a run whose batch never changed.
double at(const TrainerConfig& config, std::int64_t step) {
  return learning_rate(config, step, static_cast<std::uint64_t>(step * config.batch.global));
}

bool is_near(double a, double b) { return std::abs(a - b) < 1e-12; }

}  // namespace

TEST_CASE("schedule: warms up, peaks, never rises again, and ends at the final fraction",
          "[trainer]") {
  for (const char* kind : {"cosine", "linear", "wsd", "constant"}) {
    INFO(kind);
    const TrainerConfig config = hundred_steps(kind);
    CHECK(at(config, 0) == 0.2);
    CHECK(at(config, 9) == 2);
    CHECK(at(config, 10) == 2);
    CHECK(is_near(at(config, 99), kind == std::string("constant") ? 2 : 0.2));
    for (std::int64_t step = 10; step < 99; ++step) CHECK(at(config, step + 1) <= at(config, step));
  }
}

TEST_CASE("schedule: each curve is its own", "[trainer]") {
  TrainerConfig config = hundred_steps("linear");
  config.schedule.warmup_steps = 0;
  config.steps = 101;
  CHECK(is_near(at(config, 50), 2 * (0.1 + 0.9 * 0.5)));
  config.schedule.kind = "cosine";
  CHECK(is_near(at(config, 25), 2 * (0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2)));
  config.schedule.kind = "wsd";
  config.schedule.decay_fraction = 0.4;
  CHECK(at(config, 60) == 2);
  CHECK(is_near(at(config, 80), 2 * (0.1 + 0.9 * 0.5)));
  config.schedule.decay_fraction = 1;
  CHECK(is_near(at(config, 50), 2 * (0.1 + 0.9 * 0.5)));
}

TEST_CASE(
    "schedule: a warm-up in tokens is that in steps, and takes as long when the batch changes",
    "[trainer]") {
  for (const char* kind : {"cosine", "linear", "wsd", "constant"}) {
    const TrainerConfig steps = hundred_steps(kind);
    TrainerConfig tokens = steps;
    tokens.schedule.warmup_steps = 77;  // not read
    tokens.schedule.warmup_tokens = 10 * steps.batch.global * steps.model.context;
    for (std::int64_t step = 0; step < 100; ++step)
      CHECK(is_near(at(tokens, step), at(steps, step)));
    // From step 4 on with twice the batch: three more steps of that, not six.
    const auto samples = static_cast<std::uint64_t>(4 * steps.batch.global);
    tokens.batch.global *= 2;
    const auto batch = static_cast<std::uint64_t>(tokens.batch.global);
    CHECK(is_near(learning_rate(tokens, 4, samples), 2 * 0.6));
    CHECK(is_near(learning_rate(tokens, 6, samples + 2 * batch), 2));
    CHECK(is_near(learning_rate(tokens, 7, samples + 3 * batch), 2));
    const double last = learning_rate(tokens, 99, samples + 95 * batch);
    CHECK(is_near(last, kind == std::string("constant") ? 2 : 0.2));
  }
}

TEST_CASE("schedule: after a warm-up in tokens another batch does not raise the rate, nor jump",
          "[trainer]") {
  for (const char* kind : {"cosine", "linear", "wsd"}) {
    for (const std::int64_t change : {15, 50, 85, 98}) {
      for (const std::int64_t batch : {1, 8, 64, 4096}) {
        INFO(kind << " at step " << change << " to " << batch);
        TrainerConfig config = hundred_steps(kind);
        config.schedule.warmup_tokens = 10 * config.batch.global * config.model.context;
        double before = 2;
        std::uint64_t samples = 0;
        for (std::int64_t step = 0; step < 100; ++step) {
          if (step == change) config.batch.global = batch;
          const double now = learning_rate(config, step, samples);
          if (step > 10) CHECK(now <= before + 1e-12);
          if (step > 10) CHECK(before - now < 0.3);
          before = now;
          samples += static_cast<std::uint64_t>(config.batch.global);
        }
        CHECK(is_near(before, 0.2));
      }
    }
  }
}

TEST_CASE("schedule: the learning rate follows the batch by the rule that is chosen", "[trainer]") {
  TrainerConfig config;
  config.batch.global = 32;
  config.optimizer.learning_rate = 0.1;
  config.optimizer.scaling_batch = 8;
  CHECK(optim::peak_learning_rate(config) == 0.1);
  config.optimizer.scaling = "linear";
  CHECK(is_near(optim::peak_learning_rate(config), 0.4));
  config.optimizer.scaling = "sqrt";
  CHECK(is_near(optim::peak_learning_rate(config), 0.2));
  CHECK(is_near(learning_rate(config, 0, 0), 0.2 / 20));
}
