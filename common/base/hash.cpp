#include "common/base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace pawl {
namespace {

using Chain = std::array<std::uint32_t, 8>;

constexpr Chain kInitialChain = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

alignas(16) constexpr std::uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big_endian(const std::byte* from) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = (word << 8) | std::to_integer<std::uint32_t>(from[i]);
  return word;
}

void compress_portable(Chain& chain, const std::byte* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += 64) {
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = load_big_endian(blocks + 4 * i);
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t s0 =
          std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = chain;
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const Chain added = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) chain[i] += added[i];
  }
}

// ---- CRC32C. The polynomial, bit-reversed.
constexpr std::uint32_t kPolynomial = 0x82f63b78;

// kSlices[k][b]: the CRC of byte b followed by k zero bytes; eight of them handle eight bytes a
// step.
constexpr auto make_slices() {
  std::array<std::array<std::uint32_t, 256>, 8> slices{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    slices[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = slices[k - 1][byte];
      slices[k][byte] = (before >> 8) ^ slices[0][before & 0xff];
    }
  }
  return slices;
}
constexpr auto kSlices = make_slices();

std::uint32_t crc_portable(const std::byte* bytes, std::size_t count, std::uint32_t crc) {
  for (; count >= 8; count -= 8, bytes += 8) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto from_crc = i < 4 ? (crc >> (8 * i)) & 0xff : 0;
      next ^= kSlices[7 - i][from_crc ^ std::to_integer<std::uint32_t>(bytes[i])];
    }
    crc = next;
  }
  for (; count > 0; --count, ++bytes) {
    crc = (crc >> 8) ^ kSlices[0][(crc ^ std::to_integer<std::uint32_t>(*bytes)) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)
struct Processor {
  bool has_sha = false, has_crc32 = false;
};

const Processor& processor() {
  static const Processor found = [] {
    Processor p;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0) return p;
    p.has_crc32 = (c & bit_SSE4_2) != 0;
    const bool has_sse41 = (c & bit_SSE4_1) != 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0)
      p.has_sha = has_sse41 && (b & (1U << 29)) != 0;
    return p;
  }();
  return found;
}

// The instructions keep the chain as ABEF and CDGH. sha256rnds2 does two rounds; four rounds share
// one vector of message words, which the loop renews from the four before it.
__attribute__((target("sha,sse4.1"))) void compress_sha_ni(Chain& chain, const std::byte* blocks,
                                                           std::size_t count) {
  const auto* constants = reinterpret_cast<const __m128i*>(kRoundConstants);
  auto* stored = reinterpret_cast<__m128i*>(chain.data());
  const __m128i to_big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(stored), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(stored + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count > 0; --count, blocks += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    const auto* input = reinterpret_cast<const __m128i*>(blocks);
    __m128i words[4];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __m128i& now = words[i & 3];
      if (i < 4) {
        now = _mm_shuffle_epi8(_mm_loadu_si128(input + i), to_big_endian);
      } else {
        const __m128i last = words[(i + 3) & 3], before_last = words[(i + 2) & 3];
        const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(now, words[(i + 1) & 3]),
                                              _mm_alignr_epi8(last, before_last, 4));
        now = _mm_sha256msg2_epu32(partial, last);
      }
      const __m128i keyed = _mm_add_epi32(now, _mm_load_si128(constants + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(stored, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(stored + 1, _mm_alignr_epi8(dchg, feba, 8));
}

// The crc32 instruction has a latency of three cycles, so three lanes run side by side.
// kAfterLane[i][b]: what byte i of a CRC, of value b, becomes after a lane of zero bytes; it joins
// one lane to the next.
constexpr std::size_t kLane = 2048;
constexpr auto make_after_lane() {
  std::array<std::array<std::uint32_t, 256>, 4> table{};
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = 1U << bit;
    for (std::size_t i = 0; i < kLane; ++i) crc = (crc >> 8) ^ kSlices[0][crc & 0xff];
    for (std::uint32_t value = 0; value < 256; ++value) {
      if ((value >> (bit % 8) & 1) != 0) table[bit / 8][value] ^= crc;
    }
  }
  return table;
}
constexpr auto kAfterLane = make_after_lane();

std::uint64_t after_lane(std::uint64_t crc) {
  return kAfterLane[0][crc & 0xff] ^ kAfterLane[1][(crc >> 8) & 0xff] ^
         kAfterLane[2][(crc >> 16) & 0xff] ^ kAfterLane[3][(crc >> 24) & 0xff];
}

std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t crc_sse42(const std::byte* bytes, std::size_t count,
                                                          std::uint32_t crc) {
  std::uint64_t first = crc;
  for (; count >= 3 * kLane; count -= 3 * kLane, bytes += 3 * kLane) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      first = _mm_crc32_u64(first, load_word(bytes + i));
      second = _mm_crc32_u64(second, load_word(bytes + kLane + i));
      third = _mm_crc32_u64(third, load_word(bytes + 2 * kLane + i));
    }
    first = after_lane(after_lane(first) ^ second) ^ third;
  }
  for (; count >= 8; count -= 8, bytes += 8) first = _mm_crc32_u64(first, load_word(bytes));
  auto result = static_cast<std::uint32_t>(first);
  for (; count > 0; --count, ++bytes) {
    result = _mm_crc32_u8(result, std::to_integer<unsigned char>(*bytes));
  }
  return result;
}
#endif

}  // namespace

Sha256::Sha256([[maybe_unused]] HashPath path)
    : compress_(compress_portable), chain_(kInitialChain) {
#if defined(__x86_64__)
  if (path == HashPath::kFastest && processor().has_sha) compress_ = compress_sha_ni;
#endif
}

void Sha256::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (block_used_ > 0) {
    const std::size_t taken = std::min(bytes.size(), block_.size() - block_used_);
    std::copy_n(bytes.begin(), taken, block_.begin() + static_cast<std::ptrdiff_t>(block_used_));
    block_used_ += taken;
    bytes = bytes.subspan(taken);
    if (block_used_ < block_.size()) return;
    compress_(chain_, block_.data(), 1);
    block_used_ = 0;
  }
  const std::size_t whole = bytes.size() / block_.size();
  if (whole > 0) compress_(chain_, bytes.data(), whole);
  const auto rest = bytes.subspan(whole * block_.size());
  std::copy(rest.begin(), rest.end(), block_.begin());
  block_used_ = rest.size();
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span{text})); }

std::string Sha256::hex_digest() {
  const std::uint64_t bits = total_bytes_ * 8;
  // One bit, zeros up to 8 bytes before the end of a block, and the length in bits, big-endian.
  std::array<std::byte, 72> padding{std::byte{0x80}};
  const std::size_t zeros_end = block_used_ < 56 ? 56 - block_used_ : 120 - block_used_;
  for (std::size_t i = 0; i < 8; ++i) {
    padding[zeros_end + i] = static_cast<std::byte>((bits >> (56 - 8 * i)) & 0xff);
  }
  update(std::span{padding}.first(zeros_end + 8));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint32_t word : chain_) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += kDigits[(word >> shift) & 0xf];
  }
  return hex;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hasher;
  hasher.update(text);
  return hasher.hex_digest();
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc,
                     [[maybe_unused]] HashPath path) {
#if defined(__x86_64__)
  if (path == HashPath::kFastest && processor().has_crc32) {
    return ~crc_sse42(bytes.data(), bytes.size(), ~crc);
  }
#endif
  return ~crc_portable(bytes.data(), bytes.size(), ~crc);
}

}  // namespace pawl
