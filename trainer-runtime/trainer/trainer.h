// The training loop of one rank. A step is: prepare, compute and reduce, agree, apply, publish
// (design §5 and §9).
//
// `agree` is one small sum over all ranks, and the only place where anything is decided: whether
// the step is finite, whether to stop, whether to save. Before it nothing has changed; after it
// every rank applies the same update. A step is confirmed when the next agree, or the closing
// barrier, completes; only confirmed steps are reported. One thread.
#pragma once

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/data/permutation.h"
#include "trainer-runtime/optim/noise_scale.h"
#include "trainer-runtime/parallel/dealing.h"
#include "trainer-runtime/parallel/gradient_reducer.h"
#include "trainer-runtime/saving/sink.h"
#include "trainer-runtime/trainer/pulse.h"
#include "trainer-runtime/trainer/session.h"
#include "trainer-runtime/trainer/trace.h"

namespace pawl::trainer {

struct Parts {
  const TrainerConfig& config;
  const data::Dataset& dataset;
  models::Model<float>& model;
  optim::TrainingArrays& arrays;
  collective::Collective& ring;
  saving::CheckpointSink& sink;
  Session& session;
  Pulse& pulse;
  const Clock& clock;
  int checkpoint_seconds = 60;
  std::int64_t generation = 1;
  // Of the generation before, where the start state comes from memory.
  bool is_stored = true;  // the start state is what storage has, or nothing is worth storing yet
  std::optional<SteadyPoint> next_checkpoint = std::nullopt;
  api::channel::Report before = {};  // of the start's step, if this process has made it
  SteadyPoint process_start{};       // for the time to the first step
  std::function<void(const std::string& line)> print = [](const std::string&) {
  };  // for people; rank 0
  // What the complete run leaves behind, on rank 0, before it says done. No other rank waits for
  // it: it may take longer than a collective may.
  std::function<Status()> deliver = [] { return Status{}; };
};

enum class Outcome { kDone, kStopped };

struct Validation {
  double loss = 0;                                // a target, in nats
  std::uint64_t targets = 0;                      // of held-out samples that were predicted
  std::optional<double> accuracy = std::nullopt;  // share of them that were right
};

// Multiples of 2^-20 nats, whose sums are exact in any order up to 2^33 nats: the curve of losses
// does not depend on the number of ranks by more than the gradients do.
double rounded_loss(double loss);

class Trainer {
 public:
  // `start` is what the arrays hold: a loaded checkpoint's state, or one of step 0.
  Trainer(const Parts& parts, const saving::TrainerState& start);
  // Corrupt: the loss is not finite any more. Unavailable: a peer or the launcher is gone.
  Result<Outcome> run();
  Result<Validation> validate();
  std::int64_t step() const { return state_.step; }
  const saving::TrainerState& state() const { return state_; }
  const api::channel::Report& applied() const { return applied_; }
  SteadyPoint next_checkpoint() const { return next_checkpoint_; }

 private:
  // Sums over all ranks; what any rank wants, all do.
  struct Agreement {
    double loss = 0, stops = 0, saves = 0, checkpoints = 0, busy = 0;
    double micro_squares = 0, micro_batches = 0;  // of the noise scale, and how many were looked at
    double square = 0;                            // of the gradient's norm
  };

  Result<Outcome> train();
  Result<double> compute();
  double back_propagate(bool is_first, bool is_last);
  Result<Agreement> agree(double loss);
  Status apply(const Agreement& agreed);
  double square_of_gradient() const;
  Status update(const Agreement& agreed, double norm);
  Status gather_parameters();
  Status publish(const Agreement& agreed);
  Status compare_parameters(bool is_saving);
  void add_note(const std::string& text, std::int64_t step);
  Status save();
  Status sum_residuals();
  Status barrier();
  Status save_and_leave();
  Status finish();
  Status read_samples(std::uint64_t cursor);
  // Where sample number `index` of the micro-batch lies; and the first `samples` of them.
  data::SampleRoom room_of(std::size_t index);
  models::MicroBatch micro_batch(std::size_t samples) const;
  double targets_of_step() const;
  // trainer_validation.cpp
  Status validate_at_end();
  void note_validation(const Validation& validation);
  void add_validation(api::channel::Report& report) const;
  std::string sentence_of(const Validation& validation) const;
  Status report_confirmed(const std::string& note);
  void print_progress();
  template <typename... Values>
  void print(const char* format, Values... values) const;

  Parts parts_;
  const bool is_leader_;
  saving::TrainerState state_;
  data::SampleOrder order_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  device::Buffer<float> gradients_;
  std::unique_ptr<parallel::GradientReducer> reducer_;
  const models::SampleShape shape_;
  std::vector<std::int32_t> inputs_, targets_;  // of a micro-batch
  std::vector<float> features_;
  parallel::Dealing dealing_;
  Trace trace_;
  double learning_rate_ = 0;        // of the last step
  double micro_batch_seconds_ = 0;  // of this rank, in this step; 0: it made none
  double micro_square_ = 0;         // squared norm of what its first one gave to the gradients
  optim::NoiseScale noise_scale_;
  std::vector<double> sums_;  // what agree() sums
  std::string note_;          // for the next report
  std::int64_t saved_step_;   // the newest that was sealed or came from storage; -1: none
  SteadyPoint next_checkpoint_, rate_mark_, printed_{};
  std::int64_t rate_step_;
  api::channel::Report applied_, confirmed_;  // of the last applied, the last confirmed step
};

template <typename... Values>
void Trainer::print(const char* format, Values... values) const {
  std::array<char, 300> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  if (is_leader_) parts_.print(line.data());
}

}  // namespace pawl::trainer
