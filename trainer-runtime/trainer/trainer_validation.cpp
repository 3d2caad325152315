// What held-out data says of the model: in the log, in the reports, in the state.
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "trainer-runtime/trainer/trainer.h"

namespace pawl::trainer {

using api::Phase;

double rounded_loss(double loss) {
  constexpr double kUnits = 1 << 20;
  return std::nearbyint(loss * kUnits) / kUnits;
}

// Of the step that is applied: every rank has come here after that, as results are summed over all.
// A loss that is not finite is told in the log alone: no result is worse, and JSON has no word for
// it.
void Trainer::note_validation(const Validation& validation) {
  if (validation.targets == 0 || !std::isfinite(validation.loss)) return;
  state_.validated = {state_.step, validation.loss, validation.accuracy};
  if (!state_.best || validation.loss < state_.best->loss) state_.best = state_.validated;
}

void Trainer::add_validation(api::channel::Report& report) const {
  if (!state_.validated || !state_.best) return;
  report.validation_step = state_.validated->step;
  report.validation_loss = state_.validated->loss;
  report.validation_accuracy = state_.validated->accuracy.value_or(-1);
  report.best_step = state_.best->step;
  report.best_loss = state_.best->loss;
}

Status Trainer::validate_at_end() {
  if (parts_.dataset.held_out_samples() == 0) return {};
  PAWL_TRY(validation, validate());
  note_validation(validation);
  if (!is_leader_) return {};
  std::string text = sentence_of(validation);
  if (const auto bigram = parts_.dataset.bigram_bits()) {
    std::array<char, 100> more{};
    std::snprintf(more.data(), more.size(), ", bigram entropy %.3f bits/byte, %.1f%% below",
                  *bigram, 100 * (1 - validation.loss / std::numbers::ln2 / *bigram));
    text += more.data();
  }
  print("%s (loss %.4f nats; %llu of %llu held-out targets)", text.c_str(), validation.loss,
        static_cast<unsigned long long>(validation.targets),
        static_cast<unsigned long long>(parts_.dataset.held_out_samples() *
                                        static_cast<std::uint64_t>(shape_.targets)));
  return report_confirmed(text);
}

std::string Trainer::sentence_of(const Validation& validation) const {
  std::array<char, 100> text{};
  if (validation.accuracy) {
    std::snprintf(text.data(), text.size(), "validation: loss %.4f, accuracy %.2f%%",
                  validation.loss, 100 * *validation.accuracy);
  } else if (parts_.dataset.has_bytes()) {
    std::snprintf(text.data(), text.size(), "validation: %.3f bits/byte",
                  validation.loss / std::numbers::ln2);
  } else {
    std::snprintf(text.data(), text.size(), "validation: loss %.4f, perplexity %.2f",
                  validation.loss, std::exp(validation.loss));
  }
  return text.data();
}

// Samples at equal distances over those held out, dealt over the ranks.
Result<Validation> Trainer::validate() {
  const auto micro = static_cast<std::uint64_t>(parts_.config.batch.micro);
  const data::ValidationPlan samples =
      data::validation_of(parts_.config, parts_.dataset.held_out_samples());
  const std::uint64_t wanted = samples.count;
  const auto batches = static_cast<std::int64_t>((wanted + micro - 1) / micro);
  const parallel::Share share =
      parallel::share_of(batches, parts_.ring.rank(), parts_.ring.world_size());
  std::array<double, 3> sums{};  // loss, correct, micro-batches in which these were not counted
  for (auto batch = static_cast<std::uint64_t>(share.first);
       batch < static_cast<std::uint64_t>(share.last); ++batch) {
    if (parts_.session.is_parking()) return fail(Code::kUnavailable, "told to park");
    parts_.pulse.enter(Phase::kData);
    const std::uint64_t first = batch * micro, count = std::min(micro, wanted - first);
    for (std::uint64_t i = 0; i < count; ++i)
      PAWL_TRY_VOID(parts_.dataset.read_held_out(samples.sample(first + i), room_of(i)));
    parts_.pulse.enter(Phase::kValidate);
    const models::Score score =
        parts_.model.score(parts_.arrays.parameters.span(), micro_batch(count));
    sums[0] += rounded_loss(score.loss);
    sums[score.correct < 0 ? 2 : 1] += std::abs(static_cast<double>(score.correct));
  }
  parts_.pulse.enter(Phase::kReduce);
  PAWL_TRY_VOID(parts_.ring.all_reduce(sums));
  parts_.pulse.enter(Phase::kOther);
  Validation validation{.targets = wanted * static_cast<std::uint64_t>(shape_.targets)};
  if (validation.targets == 0) return validation;
  const auto targets = static_cast<double>(validation.targets);
  validation.loss = sums[0] / targets;
  if (sums[2] == 0) validation.accuracy = sums[1] / targets;
  return validation;
}

}  // namespace pawl::trainer
