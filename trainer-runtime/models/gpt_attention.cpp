// Causal attention, one head of one sample at a time and kScoreRows queries at a time.
#include <algorithm>
#include <cmath>

#include "trainer-runtime/kernels/matmul.h"
#include "trainer-runtime/models/gpt.h"

namespace pawl::models {
namespace {

// A matrix inside a larger one: the head's part of queries, keys, values or their gradients.
template <typename T>
struct Part {
  T* first;
  Index row;
};

}  // namespace

template <typename T>
void Gpt<T>::attention_forward(BlockActivations& a) {
  const Index c = config_.channels, context = config_.context, depth = c / config_.heads;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(depth)));
  for (Index item = 0; item < rows_ / context * config_.heads; ++item) {
    const Index sample = item / config_.heads, head = item % config_.heads;
    const T* q = a.qkv.data() + sample * context * 3 * c + head * depth;
    const T *k = q + c, *v = q + 2 * c;
    T* out = a.attention.data() + sample * context * c + head * depth;
    for (Index first = 0; first < context; first += kScoreRows) {
      const Index rows = std::min(kScoreRows, context - first), keys = first + rows;
      kernels::matmul({.m = rows,
                       .n = keys,
                       .k = depth,
                       .a = q + first * 3 * c,
                       .a_row = 3 * c,
                       .a_column = 1,
                       .b = k,
                       .b_row = 1,
                       .b_column = 3 * c,
                       .c = scores_.data(),
                       .c_row = keys,
                       .is_adding = false,
                       .scratch = gemm_scratch_.data()});
      run_.softmax({rows, first, keys, scale, a.log_sum.data() + item * context + first},
                   scores_.data());
      kernels::matmul({.m = rows,
                       .n = depth,
                       .k = keys,
                       .a = scores_.data(),
                       .a_row = keys,
                       .a_column = 1,
                       .b = v,
                       .b_row = 3 * c,
                       .b_column = 1,
                       .c = out + first * c,
                       .c_row = c,
                       .is_adding = false,
                       .scratch = gemm_scratch_.data()});
    }
  }
}

// d_normal_ is the gradient of the attention's output; d_wide_ becomes that of queries, keys and
// values.
template <typename T>
void Gpt<T>::attention_backward(BlockActivations& a) {
  const Index c = config_.channels, context = config_.context, depth = c / config_.heads;
  const Index blocks = (context + kScoreRows - 1) / kScoreRows;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(depth)));
  T* const scratch = gemm_scratch_.data();
  for (Index item = 0; item < rows_ / context * config_.heads; ++item) {
    const Index sample = item / config_.heads, head = item % config_.heads;
    const Index wide = sample * context * 3 * c + head * depth,
                narrow = sample * context * c + head * depth;
    const Part<const T> q{a.qkv.data() + wide, 3 * c}, k{q.first + c, 3 * c},
        v{q.first + 2 * c, 3 * c};
    const Part<T> dq{d_wide_.data() + wide, 3 * c}, dk{dq.first + c, 3 * c},
        dv{dq.first + 2 * c, 3 * c};
    const T* d_out = d_normal_.data() + narrow;
    run_.row_dots(context, depth, d_out, c, a.attention.data() + narrow, c, delta_.data());
    // From the last block to the first: the last one sees all keys, so its products set dk and dv
    // and the others add.
    for (Index block = blocks; block-- > 0;) {
      const Index first = block * kScoreRows, rows = std::min(kScoreRows, context - first),
                  keys = first + rows;
      const bool is_adding = block + 1 < blocks;
      const kernels::ScoreBlock<T> score_block{rows, first, keys, scale,
                                               a.log_sum.data() + item * context + first};
      T *p = scores_.data(), *ds = d_scores_.data();
      kernels::matmul({.m = rows,
                       .n = keys,
                       .k = depth,
                       .a = q.first + first * q.row,
                       .a_row = q.row,
                       .a_column = 1,
                       .b = k.first,
                       .b_row = 1,
                       .b_column = k.row,
                       .c = p,
                       .c_row = keys,
                       .is_adding = false,
                       .scratch = scratch});
      run_.softmax_again(score_block, p);
      kernels::matmul({.m = rows,
                       .n = keys,
                       .k = depth,
                       .a = d_out + first * c,
                       .a_row = c,
                       .a_column = 1,
                       .b = v.first,
                       .b_row = 1,
                       .b_column = v.row,
                       .c = ds,
                       .c_row = keys,
                       .is_adding = false,
                       .scratch = scratch});
      run_.softmax_backward(score_block, p, delta_.data() + first, ds);
      kernels::matmul({.m = keys,
                       .n = depth,
                       .k = rows,
                       .a = p,
                       .a_row = 1,
                       .a_column = keys,
                       .b = d_out + first * c,
                       .b_row = c,
                       .b_column = 1,
                       .c = dv.first,
                       .c_row = dv.row,
                       .is_adding = is_adding,
                       .scratch = scratch});
      kernels::matmul({.m = rows,
                       .n = depth,
                       .k = keys,
                       .a = ds,
                       .a_row = keys,
                       .a_column = 1,
                       .b = k.first,
                       .b_row = k.row,
                       .b_column = 1,
                       .c = dq.first + first * dq.row,
                       .c_row = dq.row,
                       .is_adding = false,
                       .scratch = scratch});
      kernels::matmul({.m = keys,
                       .n = depth,
                       .k = rows,
                       .a = ds,
                       .a_row = 1,
                       .a_column = keys,
                       .b = q.first + first * q.row,
                       .b_row = q.row,
                       .b_column = 1,
                       .c = dk.first,
                       .c_row = dk.row,
                       .is_adding = is_adding,
                       .scratch = scratch});
    }
  }
}

template void Gpt<float>::attention_forward(BlockActivations&);
template void Gpt<double>::attention_forward(BlockActivations&);
template void Gpt<float>::attention_backward(BlockActivations&);
template void Gpt<double>::attention_backward(BlockActivations&);

}  // namespace pawl::models
