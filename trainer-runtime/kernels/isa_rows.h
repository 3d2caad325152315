// The kernels that work row by row or element by element; included by isa.cpp only, inside its
// namespace.
#pragma once

template <typename T>
void layernorm(const LayerNorm<T>& n, T* y) {
  const Index columns = n.columns;
  for (Index row = 0; row < n.rows; ++row) {
    const T* x = n.x + row * columns;
    T* out = y + row * columns;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < columns; ++i) sum += x[i];
    const T mean = sum / static_cast<T>(columns);
    T squares = 0;
#pragma omp simd reduction(+ : squares)
    for (Index i = 0; i < columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const T rstd = 1 / static_cast<T>(__builtin_sqrt(
                           static_cast<double>(squares / static_cast<T>(columns)) + 1e-5));
#pragma omp simd
    for (Index i = 0; i < columns; ++i) out[i] = (x[i] - mean) * rstd * n.gain[i] + n.bias[i];
    n.mean[row] = mean;
    n.rstd[row] = rstd;
  }
}

template <typename T>
void layernorm_backward(const LayerNorm<T>& n, const T* dy, T* dx, T* dgain, T* dbias) {
  const Index columns = n.columns;
  for (Index row = 0; row < n.rows; ++row) {
    const T* x = n.x + row * columns;
    const T* d = dy + row * columns;
    T* to = dx + row * columns;
    const T mean = n.mean[row], rstd = n.rstd[row];
    T sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (Index i = 0; i < columns; ++i) {
      const T normal = (x[i] - mean) * rstd, scaled = d[i] * n.gain[i];
      sum += scaled;
      dot += scaled * normal;
      dgain[i] += d[i] * normal;
      dbias[i] += d[i];
    }
    sum /= static_cast<T>(columns);
    dot /= static_cast<T>(columns);
#pragma omp simd
    for (Index i = 0; i < columns; ++i) {
      const T normal = (x[i] - mean) * rstd;
      to[i] += rstd * (d[i] * n.gain[i] - sum - normal * dot);
    }
  }
}

template <typename T>
void add_bias(Index rows, Index columns, const T* base, const T* bias, T* out) {
  for (Index row = 0; row < rows; ++row) {
    T* to = out + row * columns;
    if (base == nullptr) {
      for (Index i = 0; i < columns; ++i) to[i] = bias[i];
      continue;
    }
    const T* from = base + row * columns;
#pragma omp simd
    for (Index i = 0; i < columns; ++i) to[i] = from[i] + bias[i];
  }
}

// gelu(x) = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
template <typename T>
constexpr T kGeluScale = static_cast<T>(0.79788456080286535588);
template <typename T>
constexpr T kGeluCube = static_cast<T>(0.044715);

template <typename T>
void gelu(Index rows, Index columns, const T* bias, T* pre, T* out) {
  for (Index row = 0; row < rows; ++row) {
    T* x = pre + row * columns;
    T* to = out + row * columns;
#pragma omp simd
    for (Index i = 0; i < columns; ++i) {
      const T v = x[i] + bias[i];
      x[i] = v;
      to[i] = v / 2 * (1 + tanh_of(kGeluScale<T> * (v + kGeluCube<T> * v * v * v)));
    }
  }
}

template <typename T>
void gelu_backward(Index rows, Index columns, const T* pre, T* d, T* dbias) {
  for (Index row = 0; row < rows; ++row) {
    const T* x = pre + row * columns;
    T* to = d + row * columns;
#pragma omp simd
    for (Index i = 0; i < columns; ++i) {
      const T v = x[i];
      const T t = tanh_of(kGeluScale<T> * (v + kGeluCube<T> * v * v * v));
      const T inner = kGeluScale<T> * (1 + 3 * kGeluCube<T> * v * v);
      to[i] *= (1 + t) / 2 + v / 2 * (1 - t * t) * inner;
      dbias[i] += to[i];
    }
  }
}

template <typename T>
void column_sums(Index rows, Index columns, const T* d, T* sum) {
  for (Index row = 0; row < rows; ++row) {
    const T* from = d + row * columns;
#pragma omp simd
    for (Index i = 0; i < columns; ++i) sum[i] += from[i];
  }
}

template <typename T>
void softmax(const ScoreBlock<T>& block, T* scores) {
  for (Index row = 0; row < block.rows; ++row) {
    T* s = scores + row * block.width;
    const Index keys = block.first + row + 1;
    T top = s[0];
#pragma omp simd reduction(max : top)
    for (Index i = 0; i < keys; ++i) top = s[i] > top ? s[i] : top;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < keys; ++i) {
      s[i] = exp_of((s[i] - top) * block.scale);
      sum += s[i];
    }
    const T inverse = 1 / sum;
#pragma omp simd
    for (Index i = 0; i < keys; ++i) s[i] *= inverse;
    for (Index i = keys; i < block.width; ++i) s[i] = 0;
    block.log_sum[row] =
        top * block.scale + static_cast<T>(__builtin_log(static_cast<double>(sum)));
  }
}

template <typename T>
void softmax_again(const ScoreBlock<T>& block, T* scores) {
  for (Index row = 0; row < block.rows; ++row) {
    T* s = scores + row * block.width;
    const Index keys = block.first + row + 1;
    const T log_sum = block.log_sum[row];
#pragma omp simd
    for (Index i = 0; i < keys; ++i) s[i] = exp_of(s[i] * block.scale - log_sum);
    for (Index i = keys; i < block.width; ++i) s[i] = 0;
  }
}

template <typename T>
void softmax_backward(const ScoreBlock<T>& block, const T* p, const T* delta, T* d) {
  for (Index row = 0; row < block.rows; ++row) {
    const T* from = p + row * block.width;
    T* to = d + row * block.width;
    const T shift = delta[row], scale = block.scale;
#pragma omp simd
    for (Index i = 0; i < block.width; ++i) to[i] = from[i] * (to[i] - shift) * scale;
  }
}

template <typename T>
void row_dots(Index rows, Index columns, const T* a, Index a_row, const T* b, Index b_row, T* out) {
  for (Index row = 0; row < rows; ++row) {
    const T* left = a + row * a_row;
    const T* right = b + row * b_row;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < columns; ++i) sum += left[i] * right[i];
    out[row] = sum;
  }
}

template <typename T>
double cross_entropy(Index rows, Index classes, const std::int32_t* targets, T scale,
                     bool is_gradient, T* logits) {
  double total = 0;
  for (Index row = 0; row < rows; ++row) {
    T* x = logits + row * classes;
    T top = x[0];
#pragma omp simd reduction(max : top)
    for (Index i = 0; i < classes; ++i) top = x[i] > top ? x[i] : top;
    const T at_target = x[targets[row]] - top;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < classes; ++i) {
      x[i] = exp_of(x[i] - top);
      sum += x[i];
    }
    total += __builtin_log(static_cast<double>(sum)) - static_cast<double>(at_target);
    if (!is_gradient) continue;
    const T factor = scale / sum;
#pragma omp simd
    for (Index i = 0; i < classes; ++i) x[i] *= factor;
    x[targets[row]] -= scale;
  }
  return total;
}

template <typename T>
void add(Index count, const T* from, T* to) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) to[i] += from[i];
}
