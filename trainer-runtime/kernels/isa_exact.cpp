// Results that every rank computes for itself and that must be equal bit by bit on all of them.
// Compiled like isa.cpp, once for each instruction set, but without fused multiply-add:
// element-wise arithmetic is then correctly rounded whatever the vector width, and the order of
// sums is fixed here, so that ranks on different processors do not drift apart.
#include "trainer-runtime/kernels/isa_tables.h"

namespace pawl::kernels {
namespace {

void adamw(Index count, const AdamW& s, const float* gradient, float* parameter, float* moment1,
           float* moment2) {
  const float keep1 = s.beta1, take1 = 1 - s.beta1, keep2 = s.beta2, take2 = 1 - s.beta2;
  const float decay = 1 - s.learning_rate * s.weight_decay;
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const float g = gradient[i] * s.gradient_scale;
    const float m = keep1 * moment1[i] + take1 * g;
    const float v = keep2 * moment2[i] + take2 * g * g;
    moment1[i] = m;
    moment2[i] = v;
    const float step = m * s.correction1 / (__builtin_sqrtf(v * s.correction2) + s.epsilon);
    parameter[i] = parameter[i] * decay - s.learning_rate * step;
  }
}

double squared_norm(Index count, const float* values) {
  constexpr Index kLanes = 16;
  double total = 0;
  for (Index first = 0; first < count; first += kNormBlock) {
    const Index length = count - first < kNormBlock ? count - first : kNormBlock;
    const float* block = values + first;
    float lanes[kLanes] = {};
    const Index whole = length / kLanes * kLanes;
    for (Index i = 0; i < whole; i += kLanes) {
#pragma omp simd
      for (Index lane = 0; lane < kLanes; ++lane) lanes[lane] += block[i + lane] * block[i + lane];
    }
    double sum = 0;
    for (const float lane : lanes) sum += static_cast<double>(lane);
    for (Index i = whole; i < length; ++i) sum += static_cast<double>(block[i] * block[i]);
    total += sum;
  }
  return total;
}

}  // namespace

constexpr ExactTable PAWL_ISA_EXACT = {.adamw = adamw, .squared_norm = squared_norm};

}  // namespace pawl::kernels
