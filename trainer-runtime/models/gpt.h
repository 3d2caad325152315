// GPT-2's block structure with hand-written gradients (model.h). Of attention only the output and
// one number a row are kept: backward computes the probabilities again, block by block, so memory
// grows with the context, not with its square.
#pragma once

#include "trainer-runtime/device/arena.h"
#include "trainer-runtime/models/model.h"

namespace pawl::models {

inline constexpr Index kScoreRows = 64;                  // queries whose scores exist at one time
inline constexpr Index kLogitElements = Index{1} << 17;  // logits that exist at one time, about

template <typename T>
class Gpt final : public Model<T> {
 public:
  Gpt(const ModelConfig& config, Index samples_max);
  const std::vector<Tensor>& tensors() const override { return tensors_; }
  Index parameter_count() const override { return parameter_count_; }
  std::size_t activation_bytes() const override { return arena_.bytes(); }
  SampleShape sample_shape() const override { return {config_.context, config_.context}; }
  double loss(std::span<const T> parameters, const MicroBatch& batch) override;
  double train(std::span<const T> parameters, std::span<T> gradients, const MicroBatch& batch,
               T scale, const GradientsReady& ready) override;

 private:
  // Offsets of a block's tensors in the flat array.
  struct BlockTensors {
    Index gain1, bias1, qkv_weight, qkv_bias, out_weight, out_bias;
    Index gain2, bias2, up_weight, up_bias, down_weight, down_bias;
  };
  // What backward needs of a block's forward pass.
  struct BlockActivations {
    std::span<T> input, normal1, mean1, rstd1, qkv, log_sum, attention;
    std::span<T> middle, normal2, mean2, rstd2, up, activated;
  };
  // A linear layer: out = in · weight. Biases are added by the steps around it.
  struct Linear {
    Index weight, inputs, outputs;
  };

  Index add_tensor(std::string name, std::vector<Index> shape, double initial, double constant);
  void plan_tensors();
  void plan_activations();

  void begin(std::span<const T> parameters, const MicroBatch& batch);
  void forward(const MicroBatch& batch);
  void block_forward(const BlockTensors& t, BlockActivations& a, std::span<T> output);
  void block_backward(const BlockTensors& t, BlockActivations& a);
  void attention_forward(BlockActivations& a);
  void attention_backward(BlockActivations& a);
  double head(const MicroBatch& batch, T scale, bool is_gradient);
  void embed(const MicroBatch& batch);
  void embed_backward(const MicroBatch& batch);
  void linear(const Linear& layer, const T* in, T* out, bool is_adding = true);
  void linear_backward(const Linear& layer, const T* in, const T* d_out, T* d_in);
  kernels::LayerNorm<T> norm(Index gain, Index bias, const T* x, std::span<T> mean,
                             std::span<T> rstd);
  const T* at(Index offset) const { return parameters_ + offset; }
  T* gradient(Index offset) { return gradients_ + offset; }

  ModelConfig config_;
  Index samples_max_, rows_ = 0, parameter_count_ = 0;  // rows: tokens of the current micro-batch
  const kernels::Table<T>& run_;
  std::vector<Tensor> tensors_;
  Index token_embedding_ = 0, position_embedding_ = 0, final_gain_ = 0, final_bias_ = 0, head_ = 0;
  std::vector<BlockTensors> blocks_;
  device::Arena arena_;
  std::vector<BlockActivations> activations_;
  std::span<T> final_input_, final_normal_, final_mean_, final_rstd_, logits_;
  std::span<T> d_residual_, d_normal_, d_wide_, scores_, d_scores_, delta_, gemm_scratch_;
  Index logit_rows_ = 0;
  const T* parameters_ = nullptr;
  T* gradients_ = nullptr;
};

extern template class Gpt<float>;
extern template class Gpt<double>;

}  // namespace pawl::models
