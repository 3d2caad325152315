// Gradients to compress, and each rank's frame given to all.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "trainer-runtime/compress/compressor.h"

namespace pawl::test {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

// In (-1, 1), each times a power of two down to 2^-spread, as gradients have many sizes.
inline Floats gradients(std::size_t count, std::uint64_t seed, int spread = 12) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(keyed_random(seed, i) >> 11) * 0x1p-52 - 1;
    const auto exponent =
        static_cast<int>(keyed_random(seed, i, 1) % (static_cast<std::uint64_t>(spread) + 1));
    values[i] = static_cast<float>(std::ldexp(unit, -exponent));
  }
  return values;
}

inline double length(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

inline bool has_not_finite(std::span<const float> values) {
  for (const float value : values)
    if (!std::isfinite(value)) return true;
  return false;
}

// Also where they are NaN.
inline bool is_equal(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// No byte longer than the frame, so that a sanitizer sees who reads behind it.
inline Bytes frame_of(compress::Compressor& compressor, const Floats& values, Floats& residual) {
  Bytes room(compressor.frame_bytes_max(static_cast<compress::Index>(values.size())));
  const std::size_t bytes = compressor.encode(values, residual, room);
  return {room.begin(), room.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

}  // namespace pawl::test
