#include "trainer-runtime/parallel/dealing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <queue>
#include <utility>

namespace pawl::parallel {
namespace {

constexpr double kScore = 3.5;      // a robust z-score from which on a value is an outlier
constexpr double kScale = 1.4826;   // from median absolute deviation to standard deviation
constexpr double kSameness = 0.02;  // of the median: equal machines differ by as much

// The lower one of two: of two ranks the faster one is usual.
double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// When the last of them is done.
double time_of(std::span<const std::int64_t> counts, std::span<const double> seconds) {
  double longest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    longest = std::max(longest, static_cast<double>(counts[i]) * seconds[i]);
  return longest;
}

}  // namespace

std::vector<std::int64_t> deal(std::int64_t count, std::span<const double> seconds) {
  const auto workers = static_cast<std::int64_t>(seconds.size());
  double speed = 0;
  for (const double each : seconds) speed += 1 / each;
  // What list scheduling gives each in any case, so that a long list costs no more than a short
  // one: nobody is done before all together could be.
  std::vector<std::int64_t> counts(seconds.size());
  std::int64_t left = count;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double fair = std::floor(static_cast<double>(count) / speed / seconds[i] * (1 - 1e-9));
    counts[i] = std::max<std::int64_t>(static_cast<std::int64_t>(fair), count >= workers ? 1 : 0);
    left -= counts[i];
  }
  using Turn = std::pair<double, std::size_t>;  // when it would be done with one more
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  const auto wait = [&](std::size_t i) {
    turns.emplace(static_cast<double>(counts[i] + 1) * seconds[i], i);
  };
  for (std::size_t i = 0; i < counts.size(); ++i) wait(i);
  for (; left > 0; --left) {
    const std::size_t next = turns.top().second;
    turns.pop();
    counts[next] += 1;
    wait(next);
  }
  // The ones that everybody gets may have been more than there was: from those who are done last.
  for (; left < 0; ++left) {
    std::size_t last = counts.size();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 1 &&
          (last == counts.size() || static_cast<double>(counts[i]) * seconds[i] >
                                        static_cast<double>(counts[last]) * seconds[last]))
        last = i;
    }
    counts[last] -= 1;
  }
  return counts;
}

Dealing::Dealing(std::int64_t micro_batches, int world_size, bool is_measured)
    : micro_batches_(micro_batches),
      is_measured_(is_measured && world_size > 1),
      counts_(static_cast<std::size_t>(world_size)),
      window_(counts_.size() * kWindow) {
  for (int rank = 0; rank < world_size; ++rank) {
    const Share even = share_of(micro_batches, rank, world_size);
    counts_[static_cast<std::size_t>(rank)] = even.last - even.first;
  }
  sorted_.reserve(std::max<std::size_t>(kWindow, counts_.size()));
}

Share Dealing::share(int rank) const {
  Share share;
  for (int i = 0; i < rank; ++i) share.first += counts_[static_cast<std::size_t>(i)];
  share.last = share.first + counts_[static_cast<std::size_t>(rank)];
  return share;
}

bool Dealing::count(std::span<const double> seconds) {
  if (!is_measured_) return false;
  std::ranges::copy(
      seconds, window_.begin() +
                   static_cast<std::ptrdiff_t>(static_cast<std::size_t>(steps_) * counts_.size()));
  if (++steps_ < kWindow) return false;
  steps_ = 0;
  const std::vector<double> usual = medians();
  if (usual.empty()) return false;
  const bool is_dealt = deal_by(usual);
  return look_for_straggler(usual) || is_dealt;
}

// Of each rank over the window; empty where one of them cannot be told: too short for the clock, or
// it had nothing to make.
std::vector<double> Dealing::medians() {
  std::vector<double> medians(counts_.size());
  for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
    sorted_.clear();
    for (std::size_t step = 0; step < kWindow; ++step)
      sorted_.push_back(window_[step * counts_.size() + rank]);
    medians[rank] = median_of(sorted_);
    if (!(medians[rank] > 0) || !std::isfinite(medians[rank])) return {};
  }
  return medians;
}

bool Dealing::deal_by(const std::vector<double>& seconds) {
  std::vector<std::int64_t> best = deal(micro_batches_, seconds);
  if (time_of(best, seconds) > kWorth * time_of(counts_, seconds)) return false;
  counts_ = std::move(best);
  return true;
}

bool Dealing::look_for_straggler(const std::vector<double>& seconds) {
  sorted_ = seconds;
  const double usual = median_of(sorted_);
  for (double& value : sorted_) value = std::abs(value - usual);
  const double spread = std::max(kScale * median_of(sorted_), kSameness * usual);
  const auto slowest = std::ranges::max_element(seconds);
  const bool is_outlier = *slowest > kSlower * usual && *slowest - usual > kScore * spread;
  const std::optional<Straggler> before = std::exchange(
      suspect_, is_outlier ? std::optional(Straggler{static_cast<int>(slowest - seconds.begin()),
                                                     *slowest, usual})
                           : std::nullopt);
  const bool is_sure = suspect_ && before && before->rank == suspect_->rank;
  const bool is_gone = !suspect_ && !before;  // two windows in a row, too
  const std::optional<Straggler> known = straggler_;
  if (is_sure) straggler_ = suspect_;
  if (is_gone) straggler_.reset();
  return straggler_.has_value() != known.has_value() ||
         (straggler_ && straggler_->rank != known->rank);
}

std::string Dealing::sentence() const {
  std::array<char, 200> text{};
  const auto [fewest, most] = std::ranges::minmax(counts_);
  if (!straggler_) {
    std::snprintf(text.data(), text.size(),
                  "micro-batches are dealt by measured speed, %lld to %lld a rank",
                  static_cast<long long>(fewest), static_cast<long long>(most));
  } else {
    std::snprintf(
        text.data(), text.size(),
        "rank %d is slow: %.1f ms a micro-batch, usual are %.1f ms; it makes %lld of %lld, "
        "others up to %lld",
        straggler_->rank, 1e3 * straggler_->seconds, 1e3 * straggler_->usual,
        static_cast<long long>(counts_[static_cast<std::size_t>(straggler_->rank)]),
        static_cast<long long>(micro_batches_), static_cast<long long>(most));
  }
  return text.data();
}

}  // namespace pawl::parallel
