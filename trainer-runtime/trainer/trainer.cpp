#include "trainer-runtime/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "common/base/hash.h"
#include "trainer-runtime/optim/guard.h"
#include "trainer-runtime/optim/schedule.h"
#include "trainer-runtime/parallel/digests.h"
#include "trainer-runtime/parallel/make_reducer.h"

namespace pawl::trainer {
namespace {

using api::Phase;
using std::chrono::duration;
using std::chrono::seconds;

constexpr double kProgressSeconds = 1;
// Numbers in front of the ranks' times in what agree() sums.
constexpr std::size_t kDecisions = 7;
// A new run saves early once: storage that cannot be written shows in seconds, not after the first
// hour, and a loss in the first minutes does not begin at zero.
constexpr std::int64_t kFirstSavedStep = 10;

double seconds_between(SteadyPoint from, SteadyPoint to) {
  return duration<double>(to - from).count();
}

}  // namespace

Trainer::Trainer(const Parts& parts, const saving::TrainerState& start)
    : parts_(parts),
      is_leader_(parts.ring.rank() == 0),
      state_(start),
      order_(parts.dataset.training_samples(), parts.config.seed),
      optimizer_(
          optim::make_optimizer(parts.config.optimizer, parts.model.tensors(), parts.arrays.owned)),
      gradients_(parts.arrays.parameters.size()),
      shape_(parts.model.sample_shape()),
      dealing_(parts.config.batch.global / parts.config.batch.micro, parts.ring.world_size(),
               parts.config.batch.dealing == "measured"),
      trace_(parts.config.trace,
             {.generation = parts.generation, .start_step = start.step, .print = parts.print},
             parts.ring, parts.clock),
      noise_scale_(parts.config.batch.micro, parts.config.batch.global),
      sums_(kDecisions + static_cast<std::size_t>(parts.ring.world_size()) +
            (parts.config.is_sharded() ? parallel::norm_blocks(gradients_.size()) : 0)),
      saved_step_(parts.is_stored ? start.step : -1),
      rate_step_(start.step) {
  const auto numbers = [&](models::Index of_sample) {
    return static_cast<std::size_t>(parts.config.batch.micro * of_sample);
  };
  reducer_ =
      parallel::make_reducer(parts.config, parts.ring, gradients_.span(), parts.arrays.residual);
  inputs_.resize(numbers(shape_.inputs));
  targets_.resize(numbers(shape_.targets));
  features_.resize(numbers(shape_.features));
  if (parts.before.step == start.step) applied_ = parts.before;
  applied_.step = confirmed_.step = start.step;
}

Result<Outcome> Trainer::train() {
  rate_mark_ = parts_.clock.steady_now();
  // Frequent recoveries do not put it off for ever.
  next_checkpoint_ =
      parts_.next_checkpoint.value_or(rate_mark_ + seconds(parts_.checkpoint_seconds));
  while (state_.step < parts_.config.steps) {
    trace_.begin_step(state_.step + 1);
    PAWL_TRY(loss, compute());
    PAWL_TRY(agreed, agree(loss));
    PAWL_TRY_VOID(apply(agreed));
    PAWL_TRY_VOID(publish(agreed));
    trace_.end_step();
    if (agreed.stops > 0) {
      if (agreed.saves > 0 && parts_.sink.is_saving()) PAWL_TRY_VOID(save_and_leave());
      return Outcome::kStopped;
    }
  }
  PAWL_TRY_VOID(finish());
  return Outcome::kDone;
}

data::SampleRoom Trainer::room_of(std::size_t index) {
  const auto part = [index](auto& all, models::Index of_sample) {
    const auto count = static_cast<std::size_t>(of_sample);
    return std::span(all).subspan(index * count, count);
  };
  return {part(inputs_, shape_.inputs), part(targets_, shape_.targets),
          part(features_, shape_.features)};
}

models::MicroBatch Trainer::micro_batch(std::size_t samples) const {
  const auto part = [samples](const auto& all, models::Index of_sample) {
    return std::span(all).first(samples * static_cast<std::size_t>(of_sample));
  };
  return {part(inputs_, shape_.inputs), part(targets_, shape_.targets),
          part(features_, shape_.features)};
}

double Trainer::targets_of_step() const {
  return static_cast<double>(parts_.config.batch.global * shape_.targets);
}

Status Trainer::read_samples(std::uint64_t cursor) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(parts_.config.batch.micro); ++i)
    PAWL_TRY_VOID(parts_.dataset.read_training(order_.sample(cursor + i), room_of(i)));
  return {};
}

// One micro-batch, whose samples are there: its loss.
double Trainer::back_propagate(bool is_first, bool is_last) {
  const auto scale = static_cast<float>(1 / targets_of_step());
  auto end = static_cast<models::Index>(gradients_.size());
  bool is_backward = false;
  const auto ready = [&](models::Index first) {
    if (std::exchange(is_backward, true)) {
      parts_.pulse.beat();
    } else {
      parts_.pulse.enter(Phase::kBackward);
    }
    // Before they are summed with those of others.
    if (is_first)
      micro_square_ += kernels::exact().squared_norm(end - first, gradients_.data() + first);
    end = first;
    if (is_last) reducer_->ready(first);
  };
  if (is_first) micro_square_ = 0;
  parts_.pulse.enter(Phase::kForward);
  const double loss = parts_.model.train(
      parts_.arrays.parameters.span(), gradients_.span(),
      micro_batch(static_cast<std::size_t>(parts_.config.batch.micro)), scale, ready);
  if (!is_last) reducer_->end_micro_batch();
  return rounded_loss(loss);
}

// This rank's part of the step's micro-batches. Every token counts the same, so gradients and
// losses of all micro-batches are sums that are divided once, by the tokens of the whole step: the
// losses by agree().
Result<double> Trainer::compute() {
  const BatchConfig& batch = parts_.config.batch;
  const parallel::Share share = dealing_.share(parts_.ring.rank());
  const SteadyPoint begin = parts_.clock.steady_now();
  std::fill(gradients_.span().begin(), gradients_.span().end(), 0.0F);
  double loss = 0;
  for (std::int64_t micro = share.first; micro < share.last; ++micro) {
    if (parts_.session.is_parking()) return fail(Code::kUnavailable, "told to park");
    parts_.pulse.enter(Phase::kData, state_.step + 1);
    PAWL_TRY_VOID(read_samples(state_.cursor + static_cast<std::uint64_t>(micro * batch.micro)));
    loss += back_propagate(micro == share.first, micro + 1 == share.last);
  }
  const auto made = static_cast<double>(share.last - share.first);
  micro_batch_seconds_ = made > 0 ? seconds_between(begin, parts_.clock.steady_now()) / made : 0;
  parts_.pulse.enter(Phase::kReduce, state_.step + 1);
  const Status summed = reducer_->finish();
  const bool is_corrupt = !summed && summed.error().code == Code::kCorrupt;
  if (is_corrupt) loss = std::numeric_limits<double>::quiet_NaN();  // for all ranks to see
  if (!summed && !is_corrupt) return tl::make_unexpected(summed.error());
  return loss;
}

Result<Trainer::Agreement> Trainer::agree(double loss) {
  trace_.enter("agree");
  PAWL_TRY(orders, parts_.session.poll());
  const bool is_first = saved_step_ == 0 && state_.step + 1 == kFirstSavedStep;
  const bool is_due = is_leader_ && (is_first || parts_.clock.steady_now() >= next_checkpoint_);
  const std::array<double, kDecisions> mine{loss,
                                            orders.is_stopping ? 1.0 : 0.0,
                                            orders.is_saving ? 1.0 : 0.0,
                                            is_due || orders.is_checkpoint_wanted ? 1.0 : 0.0,
                                            parts_.sink.is_ready() ? 0.0 : 1.0,
                                            micro_batch_seconds_ > 0 ? micro_square_ : 0.0,
                                            micro_batch_seconds_ > 0 ? 1.0 : 0.0};
  // Each rank's time in a place of its own: a sum with zeros is exact, so that all see the same.
  const auto ranks = static_cast<std::size_t>(parts_.ring.world_size());
  const std::span<double> times = std::span(sums_).subspan(kDecisions, ranks);
  std::ranges::fill(sums_, 0);
  std::ranges::copy(mine, sums_.begin());
  times[static_cast<std::size_t>(parts_.ring.rank())] = micro_batch_seconds_;
  // So are the blocks of the norm, each of which has one owner.
  if (parts_.config.is_sharded()) {
    parallel::put_squares(gradients_.span(), parts_.arrays.owned,
                          std::span(sums_).subspan(kDecisions + ranks));
  }
  PAWL_TRY_VOID(parts_.ring.all_reduce(sums_));
  confirmed_ = applied_;  // everybody has come here, so everybody applied the step before
  if (dealing_.count(times)) add_note(dealing_.sentence(), state_.step + 1);
  return Agreement{
      sums_[0] / targets_of_step(), sums_[1], sums_[2], sums_[3], sums_[4], sums_[5], sums_[6],
      square_of_gradient()};
}

double Trainer::square_of_gradient() const {
  if (!parts_.config.is_sharded()) {
    const auto count = static_cast<models::Index>(gradients_.size());
    return kernels::exact().squared_norm(count, gradients_.data());
  }
  double square = 0;
  const auto ranks = static_cast<std::size_t>(parts_.ring.world_size());
  for (const double block : std::span(sums_).subspan(kDecisions + ranks)) square += block;
  return square;
}

Status Trainer::apply(const Agreement& agreed) {
  parts_.pulse.enter(Phase::kOptimizer);
  const double norm = std::sqrt(agreed.square);
  const optim::Judgement judgement =
      optim::judge(parts_.config.guard, agreed.loss, norm, state_.guard);
  if (judgement.verdict == optim::Verdict::kFail) {
    return fail(Code::kCorrupt,
                "Diverged: step " + std::to_string(state_.step + 1) + " has " + judgement.why +
                    "; a lower optimizer.learning_rate or a longer warm-up may help");
  }
  learning_rate_ = optim::learning_rate(parts_.config, state_.step, state_.cursor);
  if (judgement.verdict == optim::Verdict::kGood) {
    PAWL_TRY_VOID(update(agreed, norm));
  } else {
    add_note(judgement.why, state_.step + 1);
  }
  state_.step += 1;
  state_.cursor += static_cast<std::uint64_t>(parts_.config.batch.global);
  applied_.step = state_.step;
  applied_.total_steps = parts_.config.steps;
  applied_.loss = agreed.loss;
  applied_.epoch = static_cast<std::int64_t>(order_.epoch(state_.cursor));
  return {};
}

Status Trainer::update(const Agreement& agreed, double norm) {
  // What a micro-batch gives is divided by the targets of the whole step.
  const double passes = static_cast<double>(parts_.config.batch.global / parts_.config.batch.micro);
  // A gradient that was compressed has another norm.
  if (agreed.micro_batches > 0 && !parts_.config.is_compressed())
    noise_scale_.add(agreed.micro_squares / agreed.micro_batches * passes * passes, norm * norm);
  optimizer_->apply(
      {learning_rate_, state_.optimizer_step, optim::clip_factor(parts_.config.optimizer, norm)},
      gradients_.span(), parts_.arrays);
  reducer_->commit();
  state_.optimizer_step += 1;
  return gather_parameters();
}

// Each rank has changed what it owns.
Status Trainer::gather_parameters() {
  if (!parts_.config.is_sharded()) return {};
  parts_.pulse.enter(Phase::kReduce);
  collective::Ticket last;
  int index = 0;
  const std::span<float> all = parts_.arrays.parameters.span();
  for (const auto& [first, end] : reducer_->buckets()) {
    const auto part =
        all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
    last = parts_.ring.start_all_gather(part, index++);
  }
  return parts_.ring.wait(last);
}

void Trainer::add_note(const std::string& text, std::int64_t step) {
  print("step %lld: %s", static_cast<long long>(step), text.c_str());
  note_ += (note_.empty() ? "" : "; ") + text;
}

Status Trainer::publish(const Agreement& agreed) {
  parts_.pulse.enter(Phase::kOther);
  const SteadyPoint now = parts_.clock.steady_now();
  if (const double elapsed = seconds_between(rate_mark_, now);
      elapsed >= 1 || applied_.tokens_per_second == 0) {
    const auto samples =
        static_cast<double>((state_.step - rate_step_) * parts_.config.batch.global);
    applied_.samples_per_second = samples / std::max(elapsed, 1e-9);
    applied_.tokens_per_second = applied_.samples_per_second * static_cast<double>(shape_.targets);
    rate_mark_ = now;
    rate_step_ = state_.step;
  }
  const bool is_validated =
      parts_.config.validate_every > 0 && state_.step % parts_.config.validate_every == 0 &&
      state_.step < parts_.config.steps && parts_.dataset.held_out_samples() > 0;
  if (is_validated) {
    PAWL_TRY(validation, validate());
    note_validation(validation);
    add_note(sentence_of(validation), state_.step);
  }
  PAWL_TRY_VOID(report_confirmed(note_));
  if (!is_leader_ || confirmed_.total_steps > 0) note_.clear();  // it is told with the next one
  print_progress();
  // Skipped, not queued, while a rank's storage is behind: the next step asks again.
  const bool is_saving = agreed.checkpoints > 0 && agreed.busy == 0 && agreed.stops == 0;
  PAWL_TRY_VOID(compare_parameters(is_saving));
  if (!is_saving) return {};
  PAWL_TRY_VOID(sum_residuals());
  return save();
}

Status Trainer::report_confirmed(const std::string& note) {
  if (!is_leader_ || confirmed_.total_steps == 0) return {};
  confirmed_.note = note;
  const auto& straggler = dealing_.straggler();
  confirmed_.slow_rank = straggler ? straggler->rank : -1;
  confirmed_.slow_factor = straggler ? straggler->seconds / straggler->usual : 0;
  add_validation(confirmed_);
  return parts_.session.report(confirmed_);
}

// Before a checkpoint on the way, too: the attempt that follows begins with what was equal.
Status Trainer::compare_parameters(bool is_saving) {
  const std::int64_t every = parts_.config.guard.digest_every;
  const bool is_due = every > 0 && (is_saving || state_.step % every == 0);
  if (!is_due || parts_.ring.world_size() == 1) return {};
  const auto bytes = std::as_bytes(std::as_const(parts_.arrays.parameters).span());
  const std::string digest = std::to_string(crc32c(bytes));
  parts_.pulse.enter(Phase::kReduce);
  PAWL_TRY(digests, parts_.ring.all_gather(digest));
  parts_.pulse.enter(Phase::kOther);
  return parallel::compare_digests(digests);
}

void Trainer::print_progress() {
  if (!is_leader_) return;
  const SteadyPoint now = parts_.clock.steady_now();
  const bool is_first = printed_ == SteadyPoint{};
  if (is_first) {
    print("first step %.3f s after the start of the process",
          seconds_between(parts_.process_start, now));
  } else if (parts_.config.log_every > 0 ? applied_.step % parts_.config.log_every != 0
                                         : seconds_between(printed_, now) < kProgressSeconds) {
    return;
  }
  printed_ = now;
  std::array<char, 40> bits{};  // to compare two runs by
  if (parts_.config.is_exact()) std::snprintf(bits.data(), bits.size(), " (%a)", applied_.loss);
  std::array<char, 60> noise{};
  if (const auto samples = noise_scale_.samples())
    std::snprintf(noise.data(), noise.size(), ", noise scale %.3g samples", *samples);
  print("step %lld/%lld loss %.4f%s learning rate %.2e, %.0f tokens/s%s%s",
        static_cast<long long>(applied_.step), static_cast<long long>(parts_.config.steps),
        applied_.loss, bits.data(), learning_rate_, applied_.tokens_per_second,
        trace_.exposed().c_str(), noise.data());
}

Status Trainer::save() {
  if (saved_step_ == state_.step) return {};
  parts_.pulse.enter(Phase::kSnapshot);
  PAWL_TRY_VOID(parts_.sink.seal(state_, parts_.arrays));
  parts_.pulse.enter(Phase::kOther);
  saved_step_ = state_.step;
  next_checkpoint_ = parts_.clock.steady_now() + seconds(parts_.checkpoint_seconds);
  return {};
}

// What is saved is the same whoever saves it, and this run goes on with it as one that loads it.
Status Trainer::sum_residuals() {
  parts_.pulse.enter(Phase::kReduce);
  PAWL_TRY_VOID(reducer_->sum_residuals());
  parts_.pulse.enter(Phase::kOther);
  return {};
}

Status Trainer::barrier() {
  parts_.pulse.enter(Phase::kReduce);
  PAWL_TRY_VOID(parts_.ring.barrier());
  parts_.pulse.enter(Phase::kOther);
  return {};
}

// Only confirmed steps are published, and no later reduction will confirm this one: a barrier does.
Status Trainer::save_and_leave() {
  PAWL_TRY_VOID(barrier());
  confirmed_ = applied_;
  PAWL_TRY_VOID(report_confirmed(""));
  PAWL_TRY_VOID(sum_residuals());
  PAWL_TRY_VOID(parts_.sink.drain());
  PAWL_TRY_VOID(save());
  return parts_.sink.drain();
}

// The closing barrier confirms the last step; its checkpoint goes to storage while the held-out
// text is tried. A rank whose storage is behind, so that it has to wait for room, does so after the
// last collective: the others would take it for dead.
Status Trainer::finish() {
  if (parts_.sink.is_saving()) PAWL_TRY_VOID(sum_residuals());
  PAWL_TRY_VOID(barrier());
  confirmed_ = applied_;
  PAWL_TRY_VOID(report_confirmed(""));
  if (parts_.sink.is_saving() && parts_.sink.is_ready()) PAWL_TRY_VOID(save());
  PAWL_TRY_VOID(validate_at_end());
  PAWL_TRY_VOID(parts_.sink.drain());
  if (parts_.sink.is_saving()) PAWL_TRY_VOID(save());
  PAWL_TRY_VOID(parts_.sink.drain());
  if (is_leader_) PAWL_TRY_VOID(parts_.deliver());
  return parts_.session.done(state_.step);
}

}  // namespace pawl::trainer
