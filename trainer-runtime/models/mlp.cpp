#include "trainer-runtime/models/mlp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer-runtime/models/view.h"

namespace pawl::models {

template <typename T>
Mlp<T>::Mlp(const ModelConfig& config, Index samples_max)
    : run_(kernels::table<T>()), samples_max_(samples_max) {
  Index inputs = config.inputs;
  for (const Index outputs : config.hidden) {
    add_layer(inputs, outputs, std::sqrt(2.0 / static_cast<double>(inputs)));
    inputs = outputs;
  }
  add_layer(inputs, config.classes, 1 / std::sqrt(static_cast<double>(inputs)));
  plan_activations(samples_max);
}

template <typename T>
void Mlp<T>::add_layer(Index inputs, Index outputs, double initial) {
  const std::string prefix = "layers." + std::to_string(layers_.size()) + ".";
  const Index weight = parameter_count_, bias = weight + inputs * outputs;
  tensors_.push_back(
      {prefix + "weight", {outputs, inputs}, weight, inputs * outputs, true, initial, 0});
  tensors_.push_back({prefix + "bias", {outputs}, bias, outputs, false, 0, 0});
  layers_.push_back({weight, bias, inputs, outputs, {}, {}});
  parameter_count_ = bias + outputs;
}

template <typename T>
void Mlp<T>::plan_activations(Index samples_max) {
  std::vector<std::pair<std::span<T>*, Index>> requests{
      {&features_, samples_max * layers_.front().inputs}};
  Index widest = layers_.front().inputs;
  for (Layer& layer : layers_) {
    requests.emplace_back(&layer.before, samples_max * layer.outputs);
    if (&layer != &layers_.back()) requests.emplace_back(&layer.after, samples_max * layer.outputs);
    widest = std::max(widest, layer.outputs);
  }
  for (auto* span : {&slopes_, &next_slopes_}) requests.emplace_back(span, samples_max * widest);
  requests.emplace_back(&gemm_scratch_, kernels::gemm_scratch(widest));
  std::size_t bytes = 0;
  for (const auto& [span, elements] : requests)
    bytes += device::aligned(static_cast<std::size_t>(elements) * sizeof(T));
  arena_ = device::Arena(bytes);
  for (const auto& [span, elements] : requests)
    *span = arena_.take<T>(static_cast<std::size_t>(elements));
}

template <typename T>
void Mlp<T>::forward(std::span<const T> parameters, const MicroBatch& batch) {
  rows_ = static_cast<Index>(batch.targets.size());
  PAWL_CHECK(rows_ > 0 && rows_ <= samples_max_ &&
                 static_cast<Index>(batch.features.size()) == rows_ * layers_.front().inputs,
             "micro-batch of the wrong size");
  PAWL_CHECK(static_cast<Index>(parameters.size()) == parameter_count_,
             "wrong number of parameters");
  std::ranges::copy(batch.features, features_.begin());
  const Multiplier<T> multiply(gemm_scratch_.data());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const auto x = dense(static_cast<const T*>(input_of(i).data()), rows_, layer.inputs);
    const auto weight = dense(parameters.data() + layer.weight, layer.outputs, layer.inputs);
    const auto y = dense(layer.before.data(), rows_, layer.outputs);
    const T* bias = parameters.data() + layer.bias;
    if (i + 1 == layers_.size()) {
      run_.add_bias(rows_, layer.outputs, nullptr, bias, y.data);
      multiply.add(x, weight.transposed(), y);
    } else {
      multiply.set(x, weight.transposed(), y);
      run_.gelu(rows_, layer.outputs, bias, y.data, layer.after.data());
    }
  }
}

template <typename T>
double Mlp<T>::loss(std::span<const T> parameters, const MicroBatch& batch) {
  forward(parameters, batch);
  const Layer& last = layers_.back();
  return run_.cross_entropy(rows_, last.outputs, batch.targets.data(), 0, false,
                            last.before.data());
}

template <typename T>
Score Mlp<T>::score(std::span<const T> parameters, const MicroBatch& batch) {
  forward(parameters, batch);
  const Layer& last = layers_.back();
  Score score{.correct = 0};
  for (Index row = 0; row < rows_; ++row) {
    const T* logits = last.before.data() + row * last.outputs;
    const auto likeliest = std::max_element(logits, logits + last.outputs) - logits;
    score.correct += likeliest == batch.targets[static_cast<std::size_t>(row)] ? 1 : 0;
  }
  score.loss =
      run_.cross_entropy(rows_, last.outputs, batch.targets.data(), 0, false, last.before.data());
  return score;
}

template <typename T>
double Mlp<T>::train(std::span<const T> parameters, std::span<T> gradients, const MicroBatch& batch,
                     T scale, const GradientsReady& ready) {
  forward(parameters, batch);
  const Multiplier<T> multiply(gemm_scratch_.data());
  T* logits = layers_.back().before.data();
  const double total =
      run_.cross_entropy(rows_, layers_.back().outputs, batch.targets.data(), scale, true, logits);
  T* d = logits;
  run_.column_sums(rows_, layers_.back().outputs, d, gradients.data() + layers_.back().bias);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    const auto slopes = dense(static_cast<const T*>(d), rows_, layer.outputs);
    const auto x = dense(static_cast<const T*>(input_of(i).data()), rows_, layer.inputs);
    multiply.add(slopes.transposed(), x,
                 dense(gradients.data() + layer.weight, layer.outputs, layer.inputs));
    ready(layer.weight);
    if (i == 0) break;
    const Layer& below = layers_[i - 1];
    T* d_below = d == slopes_.data() ? next_slopes_.data() : slopes_.data();
    multiply.set(slopes, dense(parameters.data() + layer.weight, layer.outputs, layer.inputs),
                 dense(d_below, rows_, layer.inputs));
    run_.gelu_backward(rows_, below.outputs, below.before.data(), d_below,
                       gradients.data() + below.bias);
    d = d_below;
  }
  return total;
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace pawl::models
