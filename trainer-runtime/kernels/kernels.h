// The numerical kernels of the CPU device, as one table of functions per element type. float comes
// in three builds of the same source (SSE2, AVX2, AVX-512), chosen once by the processor that runs
// it; double is the reference build that checks gradients. Every kernel is a pure function of its
// arguments: no allocation, no locks, any thread.
//
// Matrices are row-major. "rows" are tokens, "columns" are channels unless a comment says
// otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pawl::kernels {

using Index = std::int64_t;

// c[m,n] (+)= a[m,k] · b[k,n], where a and b have any strides, so that transposed operands need no
// copy.
template <typename T>
struct Gemm {
  Index m = 0, n = 0, k = 0;
  const T* a = nullptr;
  Index a_row = 0, a_column = 1;
  const T* b = nullptr;
  Index b_row = 0, b_column = 1;
  T* c = nullptr;
  Index c_row = 0;
  bool is_adding = false;
  T* scratch = nullptr;  // gemm_scratch(n) elements
};

inline constexpr Index kGemmDepth = 256;  // of one packed block
inline constexpr Index kGemmRows = 192;   // of one packed block of a

// Elements of scratch for products of up to n columns.
constexpr Index gemm_scratch(Index n) {
  return kGemmDepth * ((n + 63) / 64 * 64) + kGemmDepth * kGemmRows + 2048;
}

template <typename T>
struct LayerNorm {
  Index rows = 0, columns = 0;
  const T* x = nullptr;
  const T* gain = nullptr;
  const T* bias = nullptr;
  T* mean = nullptr;  // rows
  T* rstd = nullptr;  // rows: 1 / sqrt(variance + 1e-5)
};

// One block of query rows of one head: score row i belongs to query first + i and sees keys 0 …
// first + i.
template <typename T>
struct ScoreBlock {
  Index rows = 0, first = 0;
  Index width = 0;  // of a score row in memory; what lies behind the last key is set to 0
  T scale = 0;
  T* log_sum = nullptr;  // rows: log of the softmax's denominator, of the scaled scores
};

template <typename T>
struct Table {
  const char* name = "";
  void (*gemm)(const Gemm<T>&);
  // y = normalised x; fills mean and rstd.
  void (*layernorm)(const LayerNorm<T>&, T* y);
  // dx += …, dgain += …, dbias += …
  void (*layernorm_backward)(const LayerNorm<T>&, const T* dy, T* dx, T* dgain, T* dbias);
  // out = base + bias, row by row; base may be null.
  void (*add_bias)(Index rows, Index columns, const T* base, const T* bias, T* out);
  // pre += bias; out = gelu(pre), the tanh form of GPT-2.
  void (*gelu)(Index rows, Index columns, const T* bias, T* pre, T* out);
  // d *= gelu'(pre); dbias += column sums of d.
  void (*gelu_backward)(Index rows, Index columns, const T* pre, T* d, T* dbias);
  // sum += column sums of d.
  void (*column_sums)(Index rows, Index columns, const T* d, T* sum);
  // Scores become causal softmax probabilities; fills log_sum.
  void (*softmax)(const ScoreBlock<T>&, T* scores);
  // Scores become the same probabilities again, from log_sum.
  void (*softmax_again)(const ScoreBlock<T>&, T* scores);
  // d = p * (d - delta[row]) * scale.
  void (*softmax_backward)(const ScoreBlock<T>&, const T* p, const T* delta, T* d);
  // out[row] = sum over columns of a * b, rows apart by a_row and b_row.
  void (*row_dots)(Index rows, Index columns, const T* a, Index a_row, const T* b, Index b_row,
                   T* out);
  // Logits become d(loss)/d(logits) = (softmax - one at target) * scale, if is_gradient. Returns
  // the sum of the rows' losses in nats.
  double (*cross_entropy)(Index rows, Index classes, const std::int32_t* targets, T scale,
                          bool is_gradient, T* logits);
  // to += from.
  void (*add)(Index count, const T* from, T* to);
};

// The table for the processor that runs this program.
template <typename T>
const Table<T>& table();
// All float tables that this processor can run, the plainest first; for tests and benchmarks.
int table_count();
const Table<float>& table_at(int index);

// ---- isa_exact.cpp: results that must be equal bit by bit on every rank, whatever its processor.

struct AdamW {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  float correction1 = 1, correction2 = 1;  // 1 / (1 - beta^step)
  float gradient_scale = 1;                // from clipping
};

struct Momentum {
  float learning_rate = 0, momentum = 0, weight_decay = 0;  // the latter is added to the gradient
  float gradient_scale = 1;
  bool is_nesterov = false;
};

inline constexpr Index kNormBlock = 4096;

// Sums: fixed blocks of kNormBlock elements, combined in index order in fp64.
struct ExactTable {
  void (*adamw)(Index count, const AdamW& settings, const float* gradient, float* parameter,
                float* moment1, float* moment2);
  // velocity = momentum * velocity + g; parameter -= learning rate * velocity (Nesterov: * (g +
  // momentum * velocity)). No momentum: velocity may be null.
  void (*sgd)(Index count, const Momentum& settings, const float* gradient, float* parameter,
              float* velocity);
  // velocity = momentum * velocity + learning rate * g; parameter -= velocity.
  void (*lars)(Index count, const Momentum& settings, const float* gradient, float* parameter,
               float* velocity);
  // Takes the gradient into the moments. Returns the sum of squares of the direction: AdamW's, and
  // weight decay * parameter.
  double (*lamb_moments)(Index count, const AdamW& settings, const float* gradient,
                         const float* parameter, float* moment1, float* moment2);
  // parameter -= learning rate * direction.
  void (*lamb_step)(Index count, const AdamW& settings, float* parameter, const float* moment1,
                    const float* moment2);
  double (*squared_norm)(Index count, const float* values);
};
const ExactTable& exact();
const ExactTable& exact_at(int index);

}  // namespace pawl::kernels
