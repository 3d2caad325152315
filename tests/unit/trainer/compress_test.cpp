// Frames: what they say and what they leave, bit by bit, on every instruction set; and what is no
// frame.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/unit/trainer/compress_samples.h"

using namespace pawl;
using namespace pawl::test;
using compress::Kind;

namespace {

constexpr std::initializer_list<Kind> kKinds = {Kind::kBf16, Kind::kInt8, Kind::kSign, Kind::kTopK};
constexpr std::initializer_list<std::size_t> kCounts = {1,   2,   15,  16,  31,  32,   33,   255,
                                                        256, 257, 511, 512, 513, 1000, 1024, 9999};
constexpr float kInfinite = std::numeric_limits<float>::infinity();

std::unique_ptr<compress::Compressor> make(Kind kind, double share = 0.05, int table = -1) {
  const int chosen = table < 0 ? kernels::table_count() - 1 : table;
  return compress::make_compressor({.kind = kind,
                                    .count_max = 10000,
                                    .share = share,
                                    .kernels = &compress::kernel_table_at(chosen)});
}

struct Coded {
  Bytes frame;
  Floats whole;              // values + the residual before, in fp32
  Floats residual, decoded;  // afterwards
};

Coded code(compress::Compressor& compressor, const Floats& values, const Floats& residual) {
  Coded coded{{}, values, residual, Floats(values.size())};
  for (std::size_t i = 0; i < values.size(); ++i) coded.whole[i] += residual[i];
  coded.frame = frame_of(compressor, values, coded.residual);
  REQUIRE(compressor.decode_add(coded.frame, coded.decoded));
  return coded;
}

void for_all(const std::function<void(Kind, std::size_t count)>& check) {
  for (const Kind kind : kKinds) {
    for (const std::size_t count : kCounts) {
      INFO("kind " << static_cast<int>(kind) << ", " << count << " elements");
      check(kind, count);
    }
  }
}

float half_precision(float value) {
  int exponent = 0;
  const double fraction = std::frexp(double{value}, &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(fraction * 256), exponent - 8));
}

float ulp(float value) { return std::nextafter(std::abs(value), kInfinite) - std::abs(value); }

void check_sign_block(const Coded& coded, std::size_t first, std::size_t end) {
  double sum = 0;
  for (std::size_t i = first; i < end; ++i) sum += std::abs(double{coded.whole[i]});
  const double mean = sum / static_cast<double>(end - first);
  const float scale = std::abs(coded.decoded[first]);
  CHECK(std::abs(double{scale} - mean) <= mean * 0x1.01p-8);
  for (std::size_t i = first; i < end; ++i) {
    const float whole = coded.whole[i], decoded = coded.decoded[i], residual = coded.residual[i];
    REQUIRE(decoded == (std::signbit(whole) ? -scale : scale));
    REQUIRE(residual == whole - decoded);
    if (std::abs(whole) >= scale / 2) {
      REQUIRE(decoded + residual == whole);
    } else {
      REQUIRE(std::abs(double{decoded} + double{residual} - double{whole}) <= scale * 0x1p-24);
    }
  }
}

void check_int8_block(const Coded& coded, std::size_t first, std::size_t end) {
  float largest = 0;
  for (std::size_t i = first; i < end; ++i) largest = std::max(largest, std::abs(coded.whole[i]));
  for (std::size_t i = first; i < end; ++i) {
    REQUIRE(std::abs(coded.residual[i]) <= largest / 127 * 0.50001F);
    REQUIRE(std::abs(coded.decoded[i] + coded.residual[i] - coded.whole[i]) <= ulp(coded.whole[i]));
  }
}

void check_top(const Coded& coded) {
  float least_said = kInfinite, most_kept = 0;
  for (std::size_t i = 0; i < coded.whole.size(); ++i) {
    REQUIRE(coded.decoded[i] + coded.residual[i] == coded.whole[i]);
    const bool is_said = coded.decoded[i] != 0;
    REQUIRE((is_said ? coded.residual[i] == 0 : coded.residual[i] == coded.whole[i]));
    if (is_said) least_said = std::min(least_said, std::abs(coded.decoded[i]));
    most_kept = std::max(most_kept, std::abs(coded.residual[i]));
  }
  CHECK(least_said >= most_kept);
}

std::size_t entries_of(const Bytes& frame) {
  std::uint32_t entries = 0;
  std::memcpy(&entries, frame.data(), 4);
  return entries;
}

void put(Bytes& frame, std::size_t at, std::uint32_t value) {
  std::memcpy(frame.data() + at, &value, 4);
}

// Refused, and nothing is added.
void check_corrupt(const compress::Compressor& compressor, const Bytes& frame, std::size_t count) {
  Floats sum(count, 1);
  const Status status = compressor.decode_add(frame, sum);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == Code::kCorrupt);
  CHECK(sum == Floats(count, 1));
}

}  // namespace

TEST_CASE("compress: what is decoded and the new residual make up values and the old residual",
          "[trainer]") {
  for_all([](Kind kind, std::size_t count) {
    const Coded coded = code(*make(kind), gradients(count, count), gradients(count, count + 1, 9));
    const std::size_t block = kind == Kind::kInt8   ? compress::kInt8Block
                              : kind == Kind::kSign ? compress::kSignBlock
                                                    : count;
    for (std::size_t first = 0; first < count; first += block) {
      const std::size_t end = std::min(count, first + block);
      if (kind == Kind::kInt8) check_int8_block(coded, first, end);
      if (kind == Kind::kSign) check_sign_block(coded, first, end);
    }
    if (kind == Kind::kTopK) check_top(coded);
    for (std::size_t i = 0; kind == Kind::kBf16 && i < count; ++i) {
      REQUIRE(coded.decoded[i] == half_precision(coded.whole[i]));
      REQUIRE(coded.decoded[i] + coded.residual[i] == coded.whole[i]);
    }
  });
}

TEST_CASE("compress: a frame has the bytes that its format says", "[trainer]") {
  for_all([](Kind kind, std::size_t count) {
    const auto compressor = make(kind);
    const Coded coded = code(*compressor, gradients(count, 3), Floats(count));
    const std::size_t entries = std::max<std::size_t>(count / 20, 1);
    const std::size_t bytes = kind == Kind::kBf16   ? 2 * count
                              : kind == Kind::kInt8 ? (count + 255) / 256 * 4 + count
                              : kind == Kind::kSign ? (count + 511) / 512 * 66
                                                    : 4 + 8 * entries;
    CHECK(compressor->frame_bytes_max(static_cast<compress::Index>(count)) == bytes);
    if (kind == Kind::kTopK) {
      CHECK(coded.frame.size() == 4 + 8 * entries_of(coded.frame));
      CHECK(entries_of(coded.frame) <= entries);
      CHECK(entries_of(coded.frame) >= entries / 2);
    } else {
      CHECK(coded.frame.size() == bytes);
    }
  });
}

TEST_CASE("compress: every instruction set makes the same bits, wherever a frame lies",
          "[trainer]") {
  for_all([](Kind kind, std::size_t count) {
    const Floats values = gradients(count, 5), before = gradients(count, 6);
    const Coded want = code(*make(kind, 0.05, 0), values, before);
    for (int table = 1; table < kernels::table_count(); ++table) {
      const auto compressor = make(kind, 0.05, table);
      const Coded got = code(*compressor, values, before);
      CHECK(got.frame == want.frame);
      CHECK(is_equal(got.residual, want.residual));
      Bytes shifted(want.frame.size() + 1);
      std::ranges::copy(want.frame, shifted.begin() + 1);
      Floats sum = values, want_sum = values;
      REQUIRE(compressor->decode_add(std::span(shifted).subspan(1), sum));
      for (std::size_t i = 0; i < count; ++i) want_sum[i] += want.decoded[i];
      CHECK(sum == want_sum);
    }
  });
}

TEST_CASE("compress: a frame that is cut, too long or of another bucket is refused", "[trainer]") {
  for_all([](Kind kind, std::size_t count) {
    const auto compressor = make(kind);
    const Bytes frame = code(*compressor, gradients(count, 7), Floats(count)).frame;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{4},
                                    frame.size() / 2, frame.size() - 1}) {
      if (bytes < frame.size())
        check_corrupt(*compressor, {frame.begin(), frame.begin() + static_cast<int>(bytes)}, count);
    }
    Bytes longer = frame;
    for (int more = 0; more < 70; ++more) {
      longer.push_back(std::byte{0});
      check_corrupt(*compressor, longer, count);
    }
    if (kind == Kind::kBf16 || kind == Kind::kInt8) check_corrupt(*compressor, frame, count + 1);
    check_corrupt(*compressor, frame, 0);
  });
}

TEST_CASE("compress: a frame of nothing", "[trainer]") {
  for (const Kind kind : kKinds) {
    const auto compressor = make(kind);
    Floats none;
    const Bytes frame = frame_of(*compressor, none, none);
    CHECK(frame.size() == (kind == Kind::kTopK ? 4U : 0U));
    CHECK(compressor->decode_add(frame, none));
  }
}

TEST_CASE("compress: indices out of range or out of order, and signs of no element, are refused",
          "[trainer]") {
  const auto top = make(Kind::kTopK);
  const Bytes good = code(*top, gradients(1000, 8), Floats(1000)).frame;
  REQUIRE(entries_of(good) >= 3);
  for (const std::uint32_t index : {1000U, 1001U, 0x7fffffffU, 0xffffffffU}) {
    for (const std::size_t at : {std::size_t{4}, 4 * entries_of(good)}) {
      Bytes bad = good;
      put(bad, at, index);
      check_corrupt(*top, bad, 1000);
    }
  }
  Bytes doubled = good;
  std::memcpy(doubled.data() + 8, doubled.data() + 4, 4);
  check_corrupt(*top, doubled, 1000);
  for (const std::uint32_t entries : {0U, 1U, 51U, 0x20000000U, 0xffffffffU}) {
    Bytes bad = good;
    put(bad, 0, entries);
    check_corrupt(*top, bad, 1000);
  }
  // More than its share, and otherwise well-formed.
  const Bytes more = code(*make(Kind::kTopK, 0.5), gradients(1000, 8), Floats(1000)).frame;
  check_corrupt(*top, more, 1000);

  const auto sign = make(Kind::kSign);
  Bytes signs = code(*sign, gradients(600, 8), Floats(600)).frame;
  signs.back() |= std::byte{0x80};
  check_corrupt(*sign, signs, 600);
}

TEST_CASE("compress: any bytes of the right size are read within bounds", "[trainer]") {
  Random random(9);
  for_all([&](Kind kind, std::size_t count) {
    const auto compressor = make(kind);
    Bytes frame(compressor->frame_bytes_max(static_cast<compress::Index>(count)));
    for (int round = 0; round < 5; ++round) {
      for (std::byte& byte : frame) byte = static_cast<std::byte>(random.next());
      if (kind == Kind::kTopK) put(frame, 0, static_cast<std::uint32_t>(frame.size() / 8));
      Floats sum(count);
      const Status status = compressor->decode_add(frame, sum);
      if (kind == Kind::kBf16 || kind == Kind::kInt8) CHECK(status);
    }
  });
}

TEST_CASE("compress: what is not finite is seen after decoding, and not in the next step",
          "[trainer]") {
  const float quiet = std::numeric_limits<float>::quiet_NaN();
  for_all([&](Kind kind, std::size_t count) {
    for (const float bad : {quiet, -quiet, std::bit_cast<float>(0x7f800001U), kInfinite,
                            std::bit_cast<float>(0xffffffffU), -kInfinite}) {
      for (const std::size_t place : {std::size_t{0}, count / 2, count - 1}) {
        const auto compressor = make(kind);
        Floats values = gradients(count, 10);
        values[place] = bad;
        const Coded coded = code(*compressor, values, gradients(count, 11));
        CHECK_FALSE(std::isfinite(coded.decoded[place]));
        CHECK_FALSE(has_not_finite(coded.residual));
        const Coded next = code(*compressor, gradients(count, 12), coded.residual);
        CHECK_FALSE(has_not_finite(next.decoded));
      }
    }
    // More than fit in a frame of top-k; and a sum that is none, of numbers that are.
    for (const float bad : {quiet, std::bit_cast<float>(0x7fffffffU)}) {
      const Coded coded = code(*make(kind), Floats(count, bad), Floats(count));
      CHECK(has_not_finite(coded.decoded));
      CHECK_FALSE(has_not_finite(coded.residual));
    }
    const Coded large = code(*make(kind), Floats(count, 3e38F), Floats(count, 3e38F));
    CHECK(has_not_finite(large.decoded));
    CHECK_FALSE(has_not_finite(large.residual));
  });
}

TEST_CASE("compress: bf16 rounds what lies in the middle to even", "[trainer]") {
  const Floats values = {1 + 0x1p-8F, 1 + 0x3p-8F, -1 - 0x1p-8F, 1 + 0x1.0002p-8F, 0x1.fep0F};
  const Floats want = {1, 1 + 0x1p-6F, -1, 1 + 0x1p-7F, 0x1.fep0F};
  CHECK(code(*make(Kind::kBf16), values, Floats(values.size())).decoded == want);
}

TEST_CASE("compress: the smallest numbers are sent or kept", "[trainer]") {
  for (const Kind kind : kKinds) {
    INFO("kind " << static_cast<int>(kind));
    for (const float size : {0x1p-149F, 0x1p-126F, 0x1p-100F, 0x1p-99F}) {
      Floats values = gradients(1000, 13, 3);
      for (float& value : values) value *= size;
      const Coded coded = code(*make(kind), values, Floats(1000));
      for (std::size_t i = 0; i < values.size(); ++i) {
        REQUIRE(std::abs(coded.decoded[i] + coded.residual[i] - values[i]) <=
                std::max(ulp(values[i]), 0x1p-24F * std::abs(coded.decoded[i])));
      }
    }
  }
}

TEST_CASE("compress: top-k takes the largest whatever their order, the first of equals",
          "[trainer]") {
  constexpr std::size_t kCount = 1000, kEntries = 50;
  Floats rising(kCount), falling(kCount), equal(kCount, -2), coarse = gradients(kCount, 14, 0);
  std::iota(rising.begin(), rising.end(), 1.0F);
  std::iota(falling.rbegin(), falling.rend(), 1.0F);
  for (float& value : coarse) value = std::nearbyint(value * 8);
  for (const Floats& values : {rising, falling, equal, coarse, gradients(kCount, 15)}) {
    std::vector<std::size_t> order(kCount);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return std::abs(values[a]) > std::abs(values[b]);
    });
    Floats want(kCount);
    for (std::size_t i = 0; i < kEntries; ++i) want[order[i]] = values[order[i]];
    CHECK(code(*make(Kind::kTopK), values, Floats(kCount)).decoded == want);
  }
}

TEST_CASE("compress: top-k of many elements that a sample does not show", "[trainer]") {
  constexpr std::size_t kCount = 10000, kEntries = 100;
  Floats few(kCount), rising(kCount);
  for (const std::size_t i : {0, 77, 4999, 9999}) few[i] = -3;
  const Coded sparse = code(*make(Kind::kTopK, 0.01), few, Floats(kCount));
  CHECK(sparse.decoded == few);
  CHECK(entries_of(sparse.frame) == 4);
  CHECK(code(*make(Kind::kTopK, 0.01), Floats(kCount), Floats(kCount)).frame.size() == 4);
  std::iota(rising.begin(), rising.end(), 1.0F);
  const Coded coded = code(*make(Kind::kTopK, 0.01), rising, Floats(kCount));
  CHECK(entries_of(coded.frame) == kEntries);
  CHECK(std::ranges::all_of(coded.decoded, [](float value) { return value == 0 || value > 9900; }));
}
