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

// Of f(i) squared: the order of sums is a part of the result.
template <typename F>
inline double sum_of_squares(Index count, const F& f) {
  constexpr Index kLanes = 16;
  double total = 0;
  for (Index first = 0; first < count; first += kNormBlock) {
    const Index length = count - first < kNormBlock ? count - first : kNormBlock;
    float lanes[kLanes] = {};
    const Index whole = length / kLanes * kLanes;
    for (Index i = 0; i < whole; i += kLanes) {
#pragma omp simd
      for (Index lane = 0; lane < kLanes; ++lane) {
        const float value = f(first + i + lane);
        lanes[lane] += value * value;
      }
    }
    double sum = 0;
    for (const float lane : lanes) sum += static_cast<double>(lane);
    for (Index i = whole; i < length; ++i) {
      const float value = f(first + i);
      sum += static_cast<double>(value * value);
    }
    total += sum;
  }
  return total;
}

double squared_norm(Index count, const float* values) {
  return sum_of_squares(count, [values](Index i) { return values[i]; });
}

void sgd(Index count, const Momentum& s, const float* gradient, float* parameter, float* velocity) {
  const auto slope = [&s, gradient, parameter](Index i) {
    return gradient[i] * s.gradient_scale + s.weight_decay * parameter[i];
  };
  if (s.momentum == 0) {
#pragma omp simd
    for (Index i = 0; i < count; ++i) parameter[i] -= s.learning_rate * slope(i);
  } else if (s.is_nesterov) {
#pragma omp simd
    for (Index i = 0; i < count; ++i) {
      const float g = slope(i), v = s.momentum * velocity[i] + g;
      velocity[i] = v;
      parameter[i] -= s.learning_rate * (g + s.momentum * v);
    }
  } else {
#pragma omp simd
    for (Index i = 0; i < count; ++i) {
      const float v = s.momentum * velocity[i] + slope(i);
      velocity[i] = v;
      parameter[i] -= s.learning_rate * v;
    }
  }
}

void lars(Index count, const Momentum& s, const float* gradient, float* parameter,
          float* velocity) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const float g = gradient[i] * s.gradient_scale + s.weight_decay * parameter[i];
    const float v = s.momentum * velocity[i] + s.learning_rate * g;
    velocity[i] = v;
    parameter[i] -= v;
  }
}

inline float lamb_direction(const AdamW& s, float parameter, float moment1, float moment2) {
  const float step =
      moment1 * s.correction1 / (__builtin_sqrtf(moment2 * s.correction2) + s.epsilon);
  return step + s.weight_decay * parameter;
}

double lamb_moments(Index count, const AdamW& s, const float* gradient, const float* parameter,
                    float* moment1, float* moment2) {
  const float keep1 = s.beta1, take1 = 1 - s.beta1, keep2 = s.beta2, take2 = 1 - s.beta2;
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const float g = gradient[i] * s.gradient_scale;
    moment1[i] = keep1 * moment1[i] + take1 * g;
    moment2[i] = keep2 * moment2[i] + take2 * g * g;
  }
  return sum_of_squares(count, [&s, parameter, moment1, moment2](Index i) {
    return lamb_direction(s, parameter[i], moment1[i], moment2[i]);
  });
}

void lamb_step(Index count, const AdamW& s, float* parameter, const float* moment1,
               const float* moment2) {
#pragma omp simd
  for (Index i = 0; i < count; ++i)
    parameter[i] -= s.learning_rate * lamb_direction(s, parameter[i], moment1[i], moment2[i]);
}

}  // namespace

constexpr ExactTable PAWL_ISA_EXACT = {.adamw = adamw,
                                       .sgd = sgd,
                                       .lars = lars,
                                       .lamb_moments = lamb_moments,
                                       .lamb_step = lamb_step,
                                       .squared_norm = squared_norm};

}  // namespace pawl::kernels
