// A multi-layer perceptron that classifies rows of features: linear layers with GELU (tanh form)
// between them, softmax and cross-entropy at the end. Weights are named and laid out as those of
// PyTorch's nn.Linear, "layers.0.weight" of [outputs, inputs].
#pragma once

#include "trainer-runtime/device/arena.h"
#include "trainer-runtime/models/model.h"

namespace pawl::models {

template <typename T>
class Mlp final : public Model<T> {
 public:
  Mlp(const ModelConfig& config, Index samples_max);
  const std::vector<Tensor>& tensors() const override { return tensors_; }
  Index parameter_count() const override { return parameter_count_; }
  std::size_t activation_bytes() const override { return arena_.bytes(); }
  SampleShape sample_shape() const override { return {0, 1, layers_.front().inputs}; }
  double loss(std::span<const T> parameters, const MicroBatch& batch) override;
  Score score(std::span<const T> parameters, const MicroBatch& batch) override;
  double train(std::span<const T> parameters, std::span<T> gradients, const MicroBatch& batch,
               T scale, const GradientsReady& ready) override;

 private:
  struct Layer {
    Index weight, bias, inputs, outputs;  // the first two are offsets
    std::span<T> before, after;  // the activation; of the last layer `before` alone: the logits
  };
  void add_layer(Index inputs, Index outputs, double initial);
  void plan_activations(Index samples_max);
  void forward(std::span<const T> parameters, const MicroBatch& batch);
  std::span<T> input_of(std::size_t layer) {
    return layer == 0 ? features_ : layers_[layer - 1].after;
  }

  const kernels::Table<T>& run_;
  std::vector<Tensor> tensors_;
  std::vector<Layer> layers_;
  Index parameter_count_ = 0, samples_max_, rows_ = 0;
  device::Arena arena_;
  std::span<T> features_, slopes_, next_slopes_, gemm_scratch_;
};

extern template class Mlp<float>;
extern template class Mlp<double>;

}  // namespace pawl::models
