// A gang of ranks as threads over the real TCP ring: whole training runs inside a test.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/trainer/samples.h"
#include "trainer-runtime/collective/ring.h"
#include "trainer-runtime/trainer/trainer.h"

namespace pawl::test {

// Remembers what is reported; orders what the test says for a step.
class RecordingSession final : public trainer::Session {
 public:
  std::function<trainer::Orders(std::int64_t confirmed_step)> orders = [](std::int64_t) {
    return trainer::Orders{};
  };
  std::function<bool()> parking = [] { return false; };
  std::vector<api::channel::Report> reports;
  std::optional<std::int64_t> done_step;

  Result<trainer::Orders> poll() override { return orders(polls_++); }
  bool is_parking() const override { return parking(); }
  Status report(const api::channel::Report& report) override {
    reports.push_back(report);
    return {};
  }
  Status done(std::int64_t step) override {
    done_step = step;
    return {};
  }

 private:
  std::int64_t polls_ = 0;
};

// Everything of one rank, alive until the test has looked at it.
struct Rank {
  std::unique_ptr<models::Model<float>> model;
  std::unique_ptr<optim::TrainingArrays> arrays;
  std::unique_ptr<collective::Collective> ring;
  std::unique_ptr<saving::CheckpointSink> sink;
  RecordingSession session;
  std::vector<std::string> lines;  // what it prints
  saving::TrainerState start;
  Result<trainer::Outcome> outcome = trainer::Outcome::kDone;
};

struct GangOptions {
  int world_size = 1;
  std::string checkpoint_uri;  // "": none
  std::int64_t load_step = 0;  // of attempt 1; 0: fresh
  std::int64_t attempt = 1;
  bool is_stored = true;  // the start
  int pulse_fd = -1;      // of a gang of one
  // What one rank has otherwise than the others.
  std::function<void(TrainerConfig&, int rank)> configure = [](TrainerConfig&, int) {};
  std::function<Status(Rank&)> deliver = [](Rank&) { return Status{}; };
  std::function<void(Rank&)> prepare = [](Rank&) {};
  std::function<void(Rank&)> finished = [](Rank&) {};
};

std::vector<Rank> run_gang(const TrainerConfig& config, const GangOptions& options);
bool is_equal(const optim::TrainingArrays& a, const optim::TrainingArrays& b);
std::vector<double> losses_of(const Rank& rank);
void order_at(Rank& rank, std::int64_t poll, trainer::Orders orders);

}  // namespace pawl::test
