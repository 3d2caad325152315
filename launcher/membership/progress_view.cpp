#include "launcher/membership/progress_view.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

namespace pawl::membership {
namespace {

std::string text_of(double value, int digits) {
  if (!std::isfinite(value)) return std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

}  // namespace

void ProgressView::add(const api::channel::Report& report, Now now) {
  if (value_ && report.step < value_->step) return;
  if (!value_) {
    first_step_ = report.step;
    first_time_ = now.steady;
  }
  api::Progress progress;
  progress.step = report.step;
  progress.total_steps = report.total_steps;
  if (report.total_steps > 0) {
    progress.percent = static_cast<int>(100 * report.step / report.total_steps);
    const std::int64_t done = report.step - first_step_;
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.steady - first_time_);
    if (done > 0)
      progress.eta_seconds = (report.total_steps - report.step) * elapsed.count() / done / 1000;
  }
  progress.loss = text_of(report.loss, 4);
  if (report.samples_per_second > 0)
    progress.samples_per_second = text_of(report.samples_per_second, 1);
  if (report.tokens_per_second > 0)
    progress.tokens_per_second = text_of(report.tokens_per_second, 0);
  progress.epoch = report.epoch;
  progress.time = now.wall;
  value_ = std::move(progress);
}

}  // namespace pawl::membership
