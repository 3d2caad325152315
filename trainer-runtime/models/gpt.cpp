#include "trainer-runtime/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trainer-runtime/models/view.h"

namespace pawl::models {

template <typename T>
void Gpt<T>::linear(const Linear& layer, const T* in, T* out, bool is_adding) {
  const Multiplier<T> multiply(gemm_scratch_.data());
  const auto x = dense(in, rows_, layer.inputs);
  const auto y = dense(out, rows_, layer.outputs);
  const auto weight = dense(at(layer.weight), layer.inputs, layer.outputs);
  is_adding ? multiply.add(x, weight, y) : multiply.set(x, weight, y);
}

// d_weight += inᵀ · d_out; d_in = d_out · weightᵀ. The bias belongs to the caller, who often has it
// for free.
template <typename T>
void Gpt<T>::linear_backward(const Linear& layer, const T* in, const T* d_out, T* d_in) {
  const Multiplier<T> multiply(gemm_scratch_.data());
  const auto d = dense(d_out, rows_, layer.outputs);
  multiply.add(dense(in, rows_, layer.inputs).transposed(), d,
               dense(gradient(layer.weight), layer.inputs, layer.outputs));
  multiply.set(d, dense(at(layer.weight), layer.inputs, layer.outputs).transposed(),
               dense(d_in, rows_, layer.inputs));
}

template <typename T>
kernels::LayerNorm<T> Gpt<T>::norm(Index gain, Index bias, const T* x, std::span<T> mean,
                                   std::span<T> rstd) {
  return {rows_, config_.channels, x, at(gain), at(bias), mean.data(), rstd.data()};
}

template <typename T>
void Gpt<T>::embed(const MicroBatch& batch) {
  const Index c = config_.channels;
  T* out = activations_.front().input.data();
  for (Index row = 0; row < rows_; ++row) {
    const T* token = at(token_embedding_ + batch.inputs[static_cast<std::size_t>(row)] * c);
    run_.add_bias(1, c, token, at(position_embedding_ + row % config_.context * c), out + row * c);
  }
}

template <typename T>
void Gpt<T>::embed_backward(const MicroBatch& batch) {
  const Index c = config_.channels;
  for (Index row = 0; row < rows_; ++row) {
    const T* d = d_residual_.data() + row * c;
    run_.add(c, d, gradient(token_embedding_ + batch.inputs[static_cast<std::size_t>(row)] * c));
    run_.add(c, d, gradient(position_embedding_ + row % config_.context * c));
  }
}

template <typename T>
void Gpt<T>::block_forward(const BlockTensors& t, BlockActivations& a, std::span<T> output) {
  const Index c = config_.channels;
  run_.layernorm(norm(t.gain1, t.bias1, a.input.data(), a.mean1, a.rstd1), a.normal1.data());
  run_.add_bias(rows_, 3 * c, nullptr, at(t.qkv_bias), a.qkv.data());
  linear({t.qkv_weight, c, 3 * c}, a.normal1.data(), a.qkv.data());
  attention_forward(a);
  run_.add_bias(rows_, c, a.input.data(), at(t.out_bias), a.middle.data());
  linear({t.out_weight, c, c}, a.attention.data(), a.middle.data());
  run_.layernorm(norm(t.gain2, t.bias2, a.middle.data(), a.mean2, a.rstd2), a.normal2.data());
  linear({t.up_weight, c, 4 * c}, a.normal2.data(), a.up.data(), false);
  run_.gelu(rows_, 4 * c, at(t.up_bias), a.up.data(), a.activated.data());
  run_.add_bias(rows_, c, a.middle.data(), at(t.down_bias), output.data());
  linear({t.down_weight, 4 * c, c}, a.activated.data(), output.data());
}

// d_residual_ holds the gradient of the block's output at entry and of its input at exit.
template <typename T>
void Gpt<T>::block_backward(const BlockTensors& t, BlockActivations& a) {
  const Index c = config_.channels;
  T* d = d_residual_.data();
  run_.column_sums(rows_, c, d, gradient(t.down_bias));
  linear_backward({t.down_weight, 4 * c, c}, a.activated.data(), d, d_wide_.data());
  run_.gelu_backward(rows_, 4 * c, a.up.data(), d_wide_.data(), gradient(t.up_bias));
  linear_backward({t.up_weight, c, 4 * c}, a.normal2.data(), d_wide_.data(), d_normal_.data());
  run_.layernorm_backward(norm(t.gain2, t.bias2, a.middle.data(), a.mean2, a.rstd2),
                          d_normal_.data(), d, gradient(t.gain2), gradient(t.bias2));
  run_.column_sums(rows_, c, d, gradient(t.out_bias));
  linear_backward({t.out_weight, c, c}, a.attention.data(), d, d_normal_.data());
  attention_backward(a);  // d_normal_ → d_wide_
  run_.column_sums(rows_, 3 * c, d_wide_.data(), gradient(t.qkv_bias));
  linear_backward({t.qkv_weight, c, 3 * c}, a.normal1.data(), d_wide_.data(), d_normal_.data());
  run_.layernorm_backward(norm(t.gain1, t.bias1, a.input.data(), a.mean1, a.rstd1),
                          d_normal_.data(), d, gradient(t.gain1), gradient(t.bias1));
}

// Output layer and loss, a few rows at a time, so that the logits of a whole micro-batch never
// exist. With is_gradient also d_normal_ and the layer's gradient.
template <typename T>
double Gpt<T>::head(const MicroBatch& batch, T scale, bool is_gradient) {
  const Index c = config_.channels, classes = config_.vocabulary;
  const Multiplier<T> multiply(gemm_scratch_.data());
  double total = 0;
  for (Index first = 0; first < rows_; first += logit_rows_) {
    const Index rows = std::min(logit_rows_, rows_ - first);
    const auto normal = dense(static_cast<const T*>(final_normal_.data()) + first * c, rows, c);
    const auto weight = dense(at(head_), classes, c);
    const auto logits = dense(logits_.data(), rows, classes);
    multiply.set(normal, weight.transposed(), logits);
    total += run_.cross_entropy(rows, classes, batch.targets.data() + first, scale, is_gradient,
                                logits_.data());
    if (!is_gradient) continue;
    multiply.add(logits.transposed(), normal, dense(gradient(head_), classes, c));
    multiply.set(logits, weight, dense(d_normal_.data() + first * c, rows, c));
  }
  return total;
}

template <typename T>
void Gpt<T>::begin(std::span<const T> parameters, const MicroBatch& batch) {
  rows_ = static_cast<Index>(batch.inputs.size());
  PAWL_CHECK(rows_ > 0 && rows_ <= samples_max_ * config_.context && rows_ % config_.context == 0 &&
                 batch.targets.size() == batch.inputs.size(),
             "micro-batch of the wrong size");
  PAWL_CHECK(static_cast<Index>(parameters.size()) == parameter_count_,
             "wrong number of parameters");
  parameters_ = parameters.data();
}

template <typename T>
void Gpt<T>::forward(const MicroBatch& batch) {
  embed(batch);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    block_forward(blocks_[i], activations_[i],
                  i + 1 < blocks_.size() ? activations_[i + 1].input : final_input_);
  }
  run_.layernorm(norm(final_gain_, final_bias_, final_input_.data(), final_mean_, final_rstd_),
                 final_normal_.data());
}

template <typename T>
double Gpt<T>::loss(std::span<const T> parameters, const MicroBatch& batch) {
  begin(parameters, batch);
  forward(batch);
  return head(batch, 0, false);
}

template <typename T>
double Gpt<T>::train(std::span<const T> parameters, std::span<T> gradients, const MicroBatch& batch,
                     T scale, const GradientsReady& ready) {
  begin(parameters, batch);
  gradients_ = gradients.data();
  forward(batch);
  const double total = head(batch, scale, true);
  if (!config_.is_tied) ready(head_);
  std::fill_n(d_residual_.data(), rows_ * config_.channels, T{0});
  run_.layernorm_backward(
      norm(final_gain_, final_bias_, final_input_.data(), final_mean_, final_rstd_),
      d_normal_.data(), d_residual_.data(), gradient(final_gain_), gradient(final_bias_));
  ready(final_gain_);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    block_backward(blocks_[i], activations_[i]);
    ready(blocks_[i].gain1);
  }
  embed_backward(batch);
  ready(0);
  return total;
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace pawl::models
