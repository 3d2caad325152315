// The compressors' arithmetic, compiled once for each instruction set under the rules of
// kernels/isa_exact.cpp: no fused multiply-add, sums in an order that is written here, internal
// linkage, no inline function of the standard library.
#include "trainer-runtime/compress/kernels.h"

namespace pawl::compress {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little-endian");

// Numbers inside a frame, which may lie anywhere.
using WireFloat [[gnu::aligned(1), gnu::may_alias]] = float;
using Wire32 [[gnu::aligned(1), gnu::may_alias]] = std::uint32_t;
using Wire16 [[gnu::aligned(1), gnu::may_alias]] = std::uint16_t;

constexpr Index kLanes = 16;  // of a sum; a part of its result
constexpr std::uint32_t kNanBits = 0x7fc00000;

inline std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline Key key_of(float value) { return static_cast<Key>(bits_of(value) & 0x7fffffffU); }
inline Index smaller(Index a, Index b) { return a < b ? a : b; }

// Rounds to nearest even. A NaN stays one, also where its upper half alone would be infinity.
inline std::uint32_t bf16_of(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return key_of(value) > kInfinity ? (bits >> 16) | 0x40U : rounded;
}

void bf16_encode(Index count, const float* values, float* residual, std::byte* frame) {
  Wire16* const out = reinterpret_cast<Wire16*>(frame);
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const float old = residual[i], sent = values[i] + old;
    const std::uint32_t half = bf16_of(sent);
    const float rest = sent - float_of(half << 16);
    out[i] = static_cast<std::uint16_t>(half);
    residual[i] = key_of(rest) < kInfinity ? rest : old;
  }
}

void bf16_add(Index count, const std::byte* frame, float* sum) {
  const Wire16* const in = reinterpret_cast<const Wire16*>(frame);
#pragma omp simd
  for (Index i = 0; i < count; ++i) sum[i] += float_of(static_cast<std::uint32_t>(in[i]) << 16);
}

// c = a + b; returns the largest key.
inline Key add_into(Index count, const float* a, const float* b, float* c) {
  Key largest = 0;
#pragma omp simd reduction(max : largest)
  for (Index i = 0; i < count; ++i) {
    const float value = a[i] + b[i];
    c[i] = value;
    largest = key_of(value) > largest ? key_of(value) : largest;
  }
  return largest;
}

// Below it, 127 / (the largest of a block) is not a float; such a block is left to the residual.
constexpr float kInt8Least = 0x1p-100F;

void int8_encode(Index count, const float* values, float* residual, std::byte* frame) {
  const Index blocks = (count + kInt8Block - 1) / kInt8Block;
  WireFloat* scales = reinterpret_cast<WireFloat*>(frame);
  std::uint8_t* out = reinterpret_cast<std::uint8_t*>(frame) + blocks * 4;
  float c[kInt8Block];
  for (Index first = 0; first < count; first += kInt8Block) {
    const Index length = smaller(kInt8Block, count - first);
    const Key largest_key = add_into(length, values + first, residual + first, c);
    const float largest = float_of(static_cast<std::uint32_t>(largest_key));
    const bool is_finite = largest_key < kInfinity, is_said = is_finite && largest >= kInt8Least;
    const float scale = is_said ? largest / 127 : 0, inverse = is_said ? 127 / largest : 0;
    *scales++ = is_finite ? scale : float_of(kNanBits);
    if (!is_finite) {
      __builtin_memset(out + first, 0, static_cast<std::size_t>(length));
      continue;
    }
    // Added to a small number, it leaves the nearest integer in the lowest bits.
    constexpr float kRounder = 0x1.8p23F;
    float* const rest = residual + first;
    std::uint8_t* const to = out + first;
#pragma omp simd
    for (Index i = 0; i < length; ++i) {
      const float shifted = c[i] * inverse + kRounder;
      to[i] = static_cast<std::uint8_t>(bits_of(shifted));
      rest[i] = c[i] - (shifted - kRounder) * scale;
    }
  }
}

void int8_add(Index count, const std::byte* frame, float* sum) {
  const Index blocks = (count + kInt8Block - 1) / kInt8Block;
  const WireFloat* scales = reinterpret_cast<const WireFloat*>(frame);
  const signed char* in = reinterpret_cast<const signed char*>(frame) + blocks * 4;
  for (Index first = 0; first < count; first += kInt8Block) {
    const Index length = smaller(kInt8Block, count - first);
    const float scale = *scales++;
    const signed char* const from = in + first;
    float* const to = sum + first;
#pragma omp simd
    for (Index i = 0; i < length; ++i) to[i] += static_cast<float>(from[i]) * scale;
  }
}

// Of absolute values.
inline float mean_size(Index count, const float* values) {
  float lanes[kLanes] = {};
  const Index whole = count / kLanes * kLanes;
  for (Index i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (Index lane = 0; lane < kLanes; ++lane) lanes[lane] += __builtin_fabsf(values[i + lane]);
  }
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  for (Index i = whole; i < count; ++i) sum += static_cast<double>(__builtin_fabsf(values[i]));
  return static_cast<float>(sum / static_cast<double>(count));
}

void sign_encode(Index count, const float* values, float* residual, std::byte* frame) {
  const Index blocks = (count + kSignBlock - 1) / kSignBlock;
  Wire16* scales = reinterpret_cast<Wire16*>(frame);
  Wire32* out = reinterpret_cast<Wire32*>(frame + blocks * 2);
  float c[kSignBlock];
  for (Index first = 0; first < count; first += kSignBlock, out += kSignWords) {
    const Index length = smaller(kSignBlock, count - first);
    for (Index i = length; i < kSignBlock; ++i) c[i] = 0;
    add_into(length, values + first, residual + first, c);
    const std::uint32_t half = bf16_of(mean_size(length, c));
    const std::uint32_t scale = half << 16;
    const bool is_finite = static_cast<Key>(scale) < kInfinity;
    *scales++ = is_finite ? static_cast<std::uint16_t>(half) : std::uint16_t{kNanBits >> 16};
    std::uint32_t words[kSignWords] = {};
    for (Index bit = 0; bit < 32; ++bit) {
#pragma omp simd
      for (Index word = 0; word < kSignWords; ++word)
        words[word] |= bits_of(c[bit * kSignWords + word]) >> 31 << bit;
    }
    for (Index word = 0; word < kSignWords; ++word) out[word] = words[word];
    if (!is_finite) continue;
    float* const rest = residual + first;
#pragma omp simd
    for (Index i = 0; i < length; ++i)
      rest[i] = c[i] - float_of(scale | (bits_of(c[i]) & 0x80000000U));
  }
}

void sign_add(Index count, const std::byte* frame, float* sum) {
  const Index blocks = (count + kSignBlock - 1) / kSignBlock;
  const Wire16* scales = reinterpret_cast<const Wire16*>(frame);
  const Wire32* in = reinterpret_cast<const Wire32*>(frame + blocks * 2);
  for (Index first = 0; first < count; first += kSignBlock, in += kSignWords) {
    const std::uint32_t scale = static_cast<std::uint32_t>(*scales++) << 16;
    std::uint32_t words[kSignWords];
    for (Index word = 0; word < kSignWords; ++word) words[word] = in[word];
    for (Index bit = 0; bit < 32; ++bit) {
      float* const to = sum + first + bit * kSignWords;
      const Index length = smaller(kSignWords, count - first - bit * kSignWords);
      const auto add = [&](Index word) {
        to[word] += float_of(scale ^ (words[word] >> bit << 31));
      };
      if (length == kSignWords) {
#pragma omp simd
        for (Index word = 0; word < kSignWords; ++word) add(word);
      } else {
        for (Index word = 0; word < length; ++word) add(word);
      }
    }
  }
}

Key accumulate(Index count, const float* from, float* to) { return add_into(count, from, to, to); }

Key largest_key(Index count, const float* values) {
  Key largest = 0;
#pragma omp simd reduction(max : largest)
  for (Index i = 0; i < count; ++i)
    largest = key_of(values[i]) > largest ? key_of(values[i]) : largest;
  return largest;
}

// One bit for each element of a group.
struct GroupBits {
  std::uint32_t bit[kSearchGroup];
};
constexpr GroupBits make_group_bits() {
  GroupBits bits{};
  for (Index i = 0; i < kSearchGroup; ++i) bits.bit[i] = 1U << i;
  return bits;
}
constexpr GroupBits kGroupBits = make_group_bits();

void search(Search& s) {
  Index found = s.found, next = s.next;
  while (next < s.count && found + kSearchGroup <= s.capacity) {
    const float* const values = s.values + next;
    const Key threshold = s.threshold;
    std::uint32_t hits = 0;
    if (s.count - next >= kSearchGroup) {
#pragma omp simd reduction(| : hits)
      for (Index i = 0; i < kSearchGroup; ++i)
        hits |= key_of(values[i]) >= threshold ? kGroupBits.bit[i] : 0;
    } else {
      for (Index i = 0; i < s.count - next; ++i)
        hits |= key_of(values[i]) >= threshold ? kGroupBits.bit[i] : 0;
    }
    for (; hits != 0; hits &= hits - 1)
      s.indices[found++] = static_cast<std::uint32_t>(next + __builtin_ctz(hits));
    next = smaller(s.count, next + kSearchGroup);
  }
  s.found = found;
  s.next = next;
}

void drop_not_finite(Index count, float* values) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) values[i] = key_of(values[i]) < kInfinity ? values[i] : 0;
}

#include "trainer-runtime/compress/isa_low_rank.inc"

}  // namespace

constexpr KernelTable PAWL_ISA_COMPRESS = {.bf16_encode = bf16_encode,
                                           .int8_encode = int8_encode,
                                           .sign_encode = sign_encode,
                                           .bf16_add = bf16_add,
                                           .int8_add = int8_add,
                                           .sign_add = sign_add,
                                           .accumulate = accumulate,
                                           .largest_key = largest_key,
                                           .search = search,
                                           .drop_not_finite = drop_not_finite,
                                           .times_right = times_right,
                                           .times_left = times_left,
                                           .add_product = add_product,
                                           .subtract_product = subtract_product,
                                           .dot = dot,
                                           .add_scaled = add_scaled};

}  // namespace pawl::compress
