#include "launcher/membership/progress_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

namespace pawl::membership {
namespace {

constexpr std::int64_t kCountMax = 9'007'199'254'740'991;  // of the schema

std::string text_of(double value, int digits) {
  if (!std::isfinite(value)) return std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
  std::array<char, 64> text{};
  // The record's field is short; a diverged loss is not.
  const bool is_huge = std::abs(value) >= 1e15;
  std::snprintf(text.data(), text.size(), is_huge ? "%.*e" : "%.*f", digits, value);
  return text.data();
}

std::optional<api::Validation> validation_of(const api::channel::Report& report) {
  if (report.validation_step < 0) return std::nullopt;
  api::Validation validation{.step = std::min(report.validation_step, kCountMax),
                             .loss = text_of(report.validation_loss, 4),
                             .accuracy = {},
                             .best_step = std::clamp<std::int64_t>(report.best_step, 0, kCountMax),
                             .best_loss = text_of(report.best_loss, 4)};
  if (report.validation_accuracy >= 0) validation.accuracy = text_of(report.validation_accuracy, 4);
  return validation;
}

bool is_same(const std::optional<api::Straggler>& one, const std::optional<api::Straggler>& other) {
  if (!one || !other) return one.has_value() == other.has_value();
  return one->rank == other->rank && one->pod == other->pod;
}

}  // namespace

void cut(api::Progress& progress, std::int64_t step) {
  progress.step = std::min(progress.step, step);
  const auto& validation = progress.validation;
  const bool is_behind = validation && (validation->step > step || validation->best_step > step);
  if (is_behind) progress.validation.reset();
}

void ProgressView::judge(std::optional<api::Straggler> slow, SteadyPoint now) {
  if (!is_same(slow, suspect_)) suspect_since_ = now;
  suspect_ = std::move(slow);
  if (is_same(suspect_, told_) || now - suspect_since_ >= kSlowFor) told_ = suspect_;
}

void ProgressView::add(const api::channel::Report& report, Now now,
                       std::optional<api::Straggler> slow) {
  // What a training process says is input from outside: one number out of range would make the API
  // server refuse every later report.
  const std::int64_t step = std::clamp<std::int64_t>(report.step, 0, kCountMax);
  const std::int64_t total = std::clamp<std::int64_t>(report.total_steps, 0, kCountMax);
  if (value_ && step < value_->step) return;
  if (!value_) {
    first_step_ = step;
    first_time_ = now.steady;
  }
  api::Progress progress;
  progress.step = step;
  progress.total_steps = total;
  if (total > 0) {
    const std::int64_t left = std::max<std::int64_t>(total - step, 0);
    progress.percent =
        static_cast<int>(100.0 * static_cast<double>(total - left) / static_cast<double>(total));
    const std::int64_t done = step - first_step_;
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.steady - first_time_);
    if (done > 0) {
      const double per_step =
          static_cast<double>(elapsed.count()) / 1000 / static_cast<double>(done);
      progress.eta_seconds = static_cast<std::int64_t>(
          std::min(per_step * static_cast<double>(left), static_cast<double>(kCountMax)));
    }
  }
  if (report.has_loss) progress.loss = text_of(report.loss, 4);
  if (report.samples_per_second > 0)
    progress.samples_per_second = text_of(report.samples_per_second, 1);
  if (report.tokens_per_second > 0)
    progress.tokens_per_second = text_of(report.tokens_per_second, 0);
  progress.epoch = std::clamp<std::int64_t>(report.epoch, 0, kCountMax);
  progress.validation = validation_of(report);
  if (slow) slow->factor = text_of(report.slow_factor, 1);
  judge(std::move(slow), now.steady);
  progress.straggler = told_;
  progress.time = now.wall;
  value_ = std::move(progress);
}

}  // namespace pawl::membership
