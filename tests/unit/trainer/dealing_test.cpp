#include "trainer-runtime/parallel/dealing.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "common/base/random.h"

using namespace pawl;
using parallel::Dealing;

namespace {

using Counts = std::vector<std::int64_t>;

Counts counts_of(const Dealing& dealing, int world_size) {
  Counts counts;
  std::int64_t next = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    const parallel::Share share = dealing.share(rank);
    CHECK(share.first == next);
    next = share.last;
    counts.push_back(share.last - share.first);
  }
  return counts;
}

double time_of(const Counts& counts, const std::vector<double>& seconds) {
  double longest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    longest = std::max(longest, static_cast<double>(counts[i]) * seconds[i]);
  return longest;
}

// The shortest time in which all can be made, by trying every way.
double best_time(std::int64_t count, const std::vector<double>& seconds, std::size_t from = 0) {
  if (from + 1 == seconds.size()) return static_cast<double>(count) * seconds[from];
  double best = 1e300;
  for (std::int64_t own = 0; own <= count; ++own)
    best = std::min(best, std::max(static_cast<double>(own) * seconds[from],
                                   best_time(count - own, seconds, from + 1)));
  return best;
}

// A window of these times; whether something changed.
bool window_of(Dealing& dealing, const std::vector<double>& seconds) {
  bool is_changed = false;
  for (int step = 0; step < Dealing::kWindow; ++step) is_changed = dealing.count(seconds);
  return is_changed;
}

}  // namespace

TEST_CASE("dealing: no other deal is done earlier, and everybody gets one", "[trainer]") {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> seconds(2 + random.below(3));
    for (double& each : seconds) each = 0.01 * static_cast<double>(1 + random.below(40));
    const auto count = static_cast<std::int64_t>(random.below(14));
    const Counts counts = parallel::deal(count, seconds);
    CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == count);
    const bool is_for_all = count >= static_cast<std::int64_t>(seconds.size());
    const double best = best_time(count, seconds);
    // One for everybody may cost more than the best deal, and then it takes what the slowest takes.
    const double slowest = *std::ranges::max_element(seconds);
    CHECK(time_of(counts, seconds) <= (is_for_all ? std::max(best, slowest) : best) + 1e-12);
    if (is_for_all) CHECK(*std::ranges::min_element(counts) >= 1);
  }
  CHECK(parallel::deal(16, std::vector{1.0, 1.0, 2.0, 1.0}) == Counts{5, 5, 2, 4});
  CHECK(parallel::deal(4, std::vector{1.0, 1.0, 100.0, 1.0}) == Counts{1, 1, 1, 1});
  const Counts many = parallel::deal(1'000'000, std::vector{1.0, 3.0});
  CHECK(many == Counts{750'000, 250'000});
}

TEST_CASE("dealing: a slow rank gets less, is named, and gets its part back when it is well",
          "[trainer]") {
  Dealing dealing(16, 4, true);
  CHECK(counts_of(dealing, 4) == Counts{4, 4, 4, 4});
  const std::vector slow{0.020, 0.020, 0.041, 0.020}, well{0.020, 0.020, 0.020, 0.020};
  CHECK_FALSE(window_of(dealing, well));
  CHECK(window_of(dealing, slow));
  CHECK(counts_of(dealing, 4) == Counts{5, 5, 2, 4});
  CHECK_FALSE(dealing.straggler());  // once may be chance
  CHECK(dealing.sentence() == "micro-batches are dealt by measured speed, 2 to 5 a rank");
  CHECK(window_of(dealing, slow));
  REQUIRE(dealing.straggler());
  CHECK(dealing.sentence() ==
        "rank 2 is slow: 41.0 ms a micro-batch, usual are 20.0 ms; it makes 2 of 16, others up to "
        "5");
  CHECK_FALSE(window_of(dealing, slow));
  CHECK(window_of(dealing, well));
  CHECK(counts_of(dealing, 4) == Counts{4, 4, 4, 4});
  CHECK(dealing.straggler());
  CHECK(window_of(dealing, well));
  CHECK_FALSE(dealing.straggler());
}

TEST_CASE("dealing: noise, a single slow step and what cannot be told change nothing",
          "[trainer]") {
  Random random(7);
  Dealing dealing(64, 8, true);
  for (int step = 0; step < 2'000; ++step) {
    std::vector<double> seconds(8);
    for (double& each : seconds)
      each = 0.010 * (1 + 0.1 * static_cast<double>(random.below(1'000)) / 1'000);
    if (step % 20 == 3) seconds[random.below(8)] *= 50;
    CHECK_FALSE(dealing.count(seconds));
  }
  Dealing idle(2, 3, true);  // more ranks than micro-batches
  CHECK_FALSE(window_of(idle, {0.02, 0, 0.09}));
  CHECK(counts_of(idle, 3) == Counts{0, 1, 1});
  Dealing even(16, 4, false);
  CHECK_FALSE(window_of(even, {0.02, 0.02, 0.2, 0.02}));
  CHECK(counts_of(even, 4) == Counts{4, 4, 4, 4});
}
