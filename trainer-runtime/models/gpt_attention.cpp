// Causal attention, one head of one sample at a time and kScoreRows queries at a time.
#include <algorithm>
#include <cmath>

#include "trainer-runtime/models/gpt.h"
#include "trainer-runtime/models/view.h"

namespace pawl::models {
namespace {

// Queries, keys and values of one head of one sample, or their gradients: columns of one wide row a
// token.
template <typename T>
struct HeadParts {
  View<T> q, k, v;
};

template <typename T>
HeadParts<T> head_parts(T* wide, Index context, Index channels, Index depth) {
  const auto part = [&](Index index) {
    return View<T>{wide + index * channels, context, depth, 3 * channels, 1};
  };
  return {part(0), part(1), part(2)};
}

}  // namespace

template <typename T>
void Gpt<T>::attention_forward(BlockActivations& a) {
  const Index c = config_.channels, context = config_.context, depth = c / config_.heads;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(depth)));
  const Multiplier<T> multiply(gemm_scratch_.data());
  for (Index item = 0; item < rows_ / context * config_.heads; ++item) {
    const Index sample = item / config_.heads, column = item % config_.heads * depth;
    const auto in =
        head_parts<T>(a.qkv.data() + sample * context * 3 * c + column, context, c, depth);
    const View<T> out{a.attention.data() + sample * context * c + column, context, depth, c, 1};
    for (Index first = 0; first < context; first += kScoreRows) {
      const Index rows = std::min(kScoreRows, context - first), keys = first + rows;
      const auto scores = dense(scores_.data(), rows, keys);
      multiply.set(in.q.block(first, rows), in.k.block(0, keys).transposed(), scores);
      run_.softmax({rows, first, keys, scale, a.log_sum.data() + item * context + first},
                   scores.data);
      multiply.set(scores, in.v.block(0, keys), out.block(first, rows));
    }
  }
}

// d_normal_ is the gradient of the attention's output; d_wide_ becomes that of queries, keys and
// values.
template <typename T>
void Gpt<T>::attention_backward(BlockActivations& a) {
  const Index c = config_.channels, context = config_.context, depth = c / config_.heads;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(depth)));
  const Multiplier<T> multiply(gemm_scratch_.data());
  for (Index item = 0; item < rows_ / context * config_.heads; ++item) {
    const Index sample = item / config_.heads, column = item % config_.heads * depth;
    const Index wide = sample * context * 3 * c + column, narrow = sample * context * c + column;
    const auto in = head_parts<T>(a.qkv.data() + wide, context, c, depth);
    const auto d_in = head_parts<T>(d_wide_.data() + wide, context, c, depth);
    const View<T> d_out{d_normal_.data() + narrow, context, depth, c, 1};
    run_.row_dots(context, depth, d_out.data, c, a.attention.data() + narrow, c, delta_.data());
    // From the last block to the first: the last one sees all keys, so its products set the
    // gradients of keys and values, and the others add to them.
    const Index last = (context - 1) / kScoreRows * kScoreRows;
    for (Index first = last; first >= 0; first -= kScoreRows) {
      const Index rows = std::min(kScoreRows, context - first), keys = first + rows;
      const kernels::ScoreBlock<T> block{rows, first, keys, scale,
                                         a.log_sum.data() + item * context + first};
      const auto p = dense(scores_.data(), rows, keys), ds = dense(d_scores_.data(), rows, keys);
      const auto q = in.q.block(first, rows), d = d_out.block(first, rows);
      multiply.set(q, in.k.block(0, keys).transposed(), p);
      run_.softmax_again(block, p.data);
      multiply.set(d, in.v.block(0, keys).transposed(), ds);
      run_.softmax_backward(block, p.data, delta_.data() + first, ds.data);
      const auto accumulate = [&](View<T> left, View<T> right, View<T> to) {
        first == last ? multiply.set(left, right, to) : multiply.add(left, right, to);
      };
      accumulate(p.transposed(), d, d_in.v.block(0, keys));
      accumulate(ds.transposed(), q, d_in.k.block(0, keys));
      multiply.set(ds, in.k.block(0, keys), d_in.q.block(first, rows));
    }
  }
}

template void Gpt<float>::attention_forward(BlockActivations&);
template void Gpt<double>::attention_forward(BlockActivations&);
template void Gpt<float>::attention_backward(BlockActivations&);
template void Gpt<double>::attention_backward(BlockActivations&);

}  // namespace pawl::models
