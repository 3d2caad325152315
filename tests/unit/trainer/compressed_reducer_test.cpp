// Gradients that go around compressed: no part of them is lost, whatever happens to a step.
#include "trainer-runtime/parallel/compressed_reducer.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <algorithm>
#include <barrier>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "common/base/random.h"
#include "tests/unit/trainer/ring_gang.h"
#include "trainer-runtime/collective/link.h"
#include "trainer-runtime/parallel/hand_over.h"

using namespace pawl;
using collective::Collective;
using compress::Kind;
using Gradient = std::vector<float>;
using Totals = std::vector<double>;

namespace {

constexpr std::size_t kGradients = 10'007;
constexpr models::Index kBucket = 4'096;
constexpr std::array kKinds = {Kind::kBf16, Kind::kInt8, Kind::kSign, Kind::kTopK};

// Multiples of 2^-12 below 1: sums of a few of them, and what bf16, sign and top-k leave of them,
// have no more bits than a float.
Gradient gradient_of(int rank, int step) {
  Gradient values(kGradients);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = keyed_random(static_cast<std::uint64_t>(100 * rank + step), i);
    values[i] = static_cast<float>(static_cast<int>(bits % 8191) - 4095) * 0x1p-12F;
  }
  return values;
}

// One rank's.
struct Side {
  Gradient gradients = Gradient(kGradients);
  optim::Residual residual{device::Buffer<float>(kGradients)};
  std::unique_ptr<parallel::GradientReducer> reducer;
  Side(Collective& ring, Kind kind)
      : reducer(parallel::make_compressed_reducer(
            ring, gradients, residual, {.kind = kind, .share = 0.03, .bucket_elements = kBucket})) {
  }
  Gradient kept() const { return {residual.values.span().begin(), residual.values.span().end()}; }
  Status step(const Gradient& mine) {
    gradients = mine;
    reducer->ready(kBucket + 100);
    return reducer->finish();
  }
};

void add_to(Totals& totals, std::span<const float> values) {
  for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += double{values[i]};
}

std::vector<Status> run_all(int world_size, const std::function<Status(Collective&)>& work) {
  if (world_size > 1) return test::RingGang(world_size).run(work);
  return {work(*collective::make_self())};
}

// Of all connections of this process, so far; what TCP had to send again is counted once.
std::uint64_t bytes_sent() {
  std::uint64_t sum = 0;
  for (int fd = 0; fd < 1'024; ++fd) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0)
      sum += info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
  }
  return sum;
}

}  // namespace

TEST_CASE("compressed_reducer: all that was decoded and all that is kept is all that was given",
          "[trainer]") {
  constexpr int kSteps = 6;
  for (const Kind kind : kKinds) {
    for (const int world_size : {1, 2, 3, 5}) {
      INFO("kind " << static_cast<int>(kind) << ", " << world_size << " ranks");
      const auto n = static_cast<std::size_t>(world_size);
      std::vector<std::vector<Gradient>> decoded(n);
      std::vector<Totals> given(n, Totals(kGradients)), kept(n, Totals(kGradients));
      for (const Status& status : run_all(world_size, [&](Collective& ring) -> Status {
             const auto rank = static_cast<std::size_t>(ring.rank());
             Side side(ring, kind);
             for (int step = 0; step < kSteps; ++step) {
               const Gradient mine = gradient_of(ring.rank(), step);
               PAWL_TRY_VOID(side.step(mine));
               side.reducer->commit();
               add_to(given[rank], mine);
               decoded[rank].push_back(side.gradients);
               // As for a checkpoint; the next step begins with the sum.
               if (step == 2) PAWL_TRY_VOID(side.reducer->sum_residuals());
             }
             add_to(kept[rank], side.residual.values.span());
             return {};
           })) {
        REQUIRE(status);
      }
      Totals rest(kGradients);
      for (std::size_t rank = 0; rank < n; ++rank) {
        CHECK(decoded[rank] == decoded[0]);
        for (std::size_t i = 0; i < kGradients; ++i) rest[i] += given[rank][i] - kept[rank][i];
      }
      for (const Gradient& sum : decoded[0])
        for (std::size_t i = 0; i < kGradients; ++i) rest[i] -= double{sum[i]};
      double most = 0;
      for (const double one : rest) most = std::max(most, std::abs(one));
      CHECK(most <= (kind == Kind::kInt8 ? 1e-5 : 0));
    }
  }
}

TEST_CASE("compressed_reducer: a step that is given up leaves what is kept as it was",
          "[trainer]") {
  for (const Kind kind : kKinds) {
    INFO("kind " << static_cast<int>(kind));
    const auto results = test::RingGang(3).run([&](Collective& ring) -> Status {
      Side side(ring, kind);
      PAWL_TRY_VOID(side.step(gradient_of(ring.rank(), 0)));
      side.reducer->commit();
      const Gradient kept = side.kept();
      PAWL_TRY_VOID(side.step(gradient_of(ring.rank(), 1)));
      const Gradient first = side.gradients;
      if (side.kept() != kept) return fail(Code::kCorrupt, "a step that was skipped");
      Gradient bad = gradient_of(ring.rank(), 1);
      if (ring.rank() == 1) bad[5'000] = NAN;
      PAWL_TRY_VOID(side.step(bad));
      if (std::ranges::all_of(side.gradients, [](float v) { return std::isfinite(v); }))
        return fail(Code::kCorrupt, "nobody sees that it is not finite");
      if (side.kept() != kept) return fail(Code::kCorrupt, "a step that is not finite");
      PAWL_TRY_VOID(side.step(gradient_of(ring.rank(), 1)));
      if (side.gradients != first) return fail(Code::kCorrupt, "made again with other bits");
      if (ring.rank() == 2) return {};  // its connections close
      if (side.step(gradient_of(ring.rank(), 2))) return fail(Code::kCorrupt, "without a rank");
      if (side.kept() != kept) return fail(Code::kCorrupt, "a step that broke off");
      if (side.reducer->sum_residuals()) return fail(Code::kCorrupt, "a sum without a rank");
      if (side.kept() != kept || side.residual.is_summed)
        return fail(Code::kCorrupt, "a sum that broke off");
      return {};
    });
    for (const Status& result : results) CHECK((result ? "" : result.error().message) == "");
  }
}

TEST_CASE("compressed_reducer: a rank sends its slots to all others, and no more", "[trainer]") {
  for (const Kind kind : kKinds) {
    for (const int world_size : {2, 3, 5}) {
      std::barrier<> all(world_size);
      std::uint64_t before = 0, after = 0;
      const auto results = test::RingGang(world_size).run([&](Collective& ring) -> Status {
        Side side(ring, kind);
        PAWL_TRY_VOID(ring.barrier());
        all.arrive_and_wait();
        if (ring.rank() == 0) before = bytes_sent();
        all.arrive_and_wait();
        for (int step = 0; step < 3; ++step)
          PAWL_TRY_VOID(side.step(gradient_of(ring.rank(), step)));
        all.arrive_and_wait();
        if (ring.rank() == 0) after = bytes_sent();
        all.arrive_and_wait();
        return {};
      });
      for (const Status& result : results) REQUIRE(result);
      const auto bytes_of = [&](std::uint64_t count) -> std::uint64_t {
        if (kind == Kind::kBf16) return 2 * count;
        if (kind == Kind::kInt8) return 4 * ((count + 255) / 256) + count;
        if (kind == Kind::kSign) return 66 * ((count + 511) / 512);
        return 4 + 8 * static_cast<std::uint64_t>(0.03 * static_cast<double>(count));
      };
      std::uint64_t one = 0;
      for (const auto& bucket : parallel::buckets_of(kGradients, kBucket))
        one += 4 + bytes_of(bucket.count()) + sizeof(collective::Frame);
      const auto n = static_cast<std::uint64_t>(world_size);
      CHECK(after - before == 3 * n * (n - 1) * one);
    }
  }
}

TEST_CASE("compressed_reducer: bytes of another rank that are no frame end the step", "[trainer]") {
  struct Odd final : Collective {
    std::uint32_t said = 0;
    int rank() const override { return 0; }
    int world_size() const override { return 2; }
    collective::Ticket start_all_reduce(std::span<float>, int) override { return {}; }
    collective::Ticket start_all_reduce(std::span<std::int64_t>, int) override { return {}; }
    collective::Ticket start_reduce_scatter(std::span<float>, int) override { return {}; }
    collective::Ticket start_reduce_scatter(std::span<std::int64_t>, int) override { return {}; }
    collective::Ticket start_all_gather(std::span<float>, int) override { return {}; }
    collective::Ticket start_all_gather(std::span<std::byte> slots, int) override {
      const auto theirs = slots.subspan(slots.size() / 2);
      std::memcpy(theirs.data(), &said, sizeof said);
      return {};
    }
    Status wait(collective::Ticket) override { return {}; }
    Status all_reduce(std::span<double>) override { return {}; }
    Status broadcast(std::span<std::byte>, int) override { return {}; }
    void abort(const std::string&) override {}
  } ring;
  for (const Kind kind : kKinds) {
    for (const std::uint32_t said : {0U, 3U, 4'000'000'000U}) {
      ring.said = said;
      Side side(ring, kind);
      const Status status = side.step(gradient_of(0, 0));
      REQUIRE(!status);
      CHECK(status.error().code == Code::kUnavailable);
      CHECK(status.error().message.find("rank 1 sent no gradient for bucket 0: ") == 0);
      CHECK(side.kept() == Gradient(kGradients));
    }
  }
}

TEST_CASE("hand_over: a rank keeps its residual, unless one has the sum of all: then all get that",
          "[trainer]") {
  for (const int summed : {0, 1, 3, 4}) {  // so many of four have the sum
    std::vector<optim::Residual> residuals(4);
    for (int rank = 0; rank < 4; ++rank) {
      auto& one = residuals[static_cast<std::size_t>(rank)];
      one.values = device::Buffer<float>(1'100'001);
      one.is_summed = rank > 3 - summed;
      std::ranges::fill(one.values.span(), one.is_summed ? 10.0F : static_cast<float>(rank));
    }
    const auto results = test::RingGang(4).run([&](Collective& ring) {
      return parallel::hand_over_residual(ring, residuals[static_cast<std::size_t>(ring.rank())]);
    });
    for (const Status& result : results) REQUIRE(result);
    for (int rank = 0; rank < 4; ++rank) {
      const auto& one = residuals[static_cast<std::size_t>(rank)];
      CHECK(one.is_summed == (summed > 0));
      const float expected = summed > 0 ? 10.0F : static_cast<float>(rank);
      CHECK(std::ranges::count(one.values.span(), expected) == 1'100'001);
    }
  }
}
