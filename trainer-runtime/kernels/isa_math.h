// exp and tanh as straight-line code that the compiler turns into vector instructions; included by
// isa.cpp only. float: relative error of exp below 2e-7 in [-87, 88]. double: the C library's, for
// the reference build.
#pragma once

inline float exp_of(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  // x = n ln 2 + r, |r| ≤ ln 2 / 2; adding and taking away 1.5 · 2^23 rounds to the nearest
  // integer.
  const float n = (x * 1.44269504F + 12582912.0F) - 12582912.0F;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto power = (static_cast<std::int32_t>(n) + 127) << 23;
  return p * __builtin_bit_cast(float, power);
}
inline double exp_of(double x) { return __builtin_exp(x); }

// 1 - 2 / (e^2x + 1): exact at both ends because exp_of saturates.
inline float tanh_of(float x) { return 1.0F - 2.0F / (exp_of(2.0F * x) + 1.0F); }
inline double tanh_of(double x) { return __builtin_tanh(x); }
