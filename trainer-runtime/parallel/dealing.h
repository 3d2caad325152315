// Which micro-batches of a step a rank makes. Even runs, until one rank is seen to be slower than
// the others (a hotter GPU, a noisy neighbour, an older model): then each gets as many as it makes
// in the same time, so that a step takes what the gang as a whole can do and not what its slowest
// rank can. The global batch stays, and with exact sums every bit of the result (design §5, 14).
//
// Nobody decides for the others: every rank sees the same times, summed by the trainer's agreement,
// and draws the same conclusion from them in the same step. What is known is of one generation. One
// thread; counting a step allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pawl::parallel {

// Items [first, last) of a list.
struct Share {
  std::int64_t first = 0, last = 0;
};
// Contiguous runs whose lengths differ by one at most.
constexpr Share share_of(std::int64_t count, int rank, int world_size) {
  return {count * rank / world_size, count * (rank + 1) / world_size};
}

// How many of `count` items each worker gets, one at least where there are as many, so that the
// last of them is done as early as can be. `seconds`: what one item takes a worker, above zero.
// List scheduling, which is optimal for equal items (Graham, 1969); the lower rank wins a tie.
std::vector<std::int64_t> deal(std::int64_t count, std::span<const double> seconds);

// A rank that takes clearly longer than the others.
struct Straggler {
  int rank = 0;
  double seconds = 0, usual = 0;  // of a micro-batch: its own, and the gang's median
};

class Dealing {
 public:
  static constexpr int kWindow = 16;       // steps whose median counts
  static constexpr double kWorth = 0.9;    // of the time now: what a change has to come below
  static constexpr double kSlower = 1.25;  // times the median: less is nobody's fault

  // is_measured: false for even runs, for ever.
  Dealing(std::int64_t micro_batches, int world_size, bool is_measured);

  Share share(int rank) const;
  // What every rank took for a micro-batch of the step; zero: it made none. True where that ended a
  // window in which the next steps were dealt otherwise or a straggler was found or lost.
  bool count(std::span<const double> seconds);
  // Of the last window. By the robust z-score: 3.5 scaled median absolute deviations above the
  // median (Iglewicz and Hoaglin, 1993), in two windows in a row.
  const std::optional<Straggler>& straggler() const { return straggler_; }
  // "rank 2 is slow: 41.0 ms a micro-batch, usual are 20.1 ms; it makes 2 of 16, rank 0 makes 5".
  std::string sentence() const;

 private:
  std::vector<double> medians();
  bool deal_by(const std::vector<double>& seconds);
  bool look_for_straggler(const std::vector<double>& seconds);

  const std::int64_t micro_batches_;
  const bool is_measured_;
  std::vector<std::int64_t> counts_;     // by rank
  std::vector<double> window_, sorted_;  // [step][rank]; one rank's, while its median is looked for
  int steps_ = 0;                        // in the window
  std::optional<Straggler> suspect_, straggler_;
};

}  // namespace pawl::parallel
