// Which tensors the model has, where they lie, and how much memory its activations take.
#include <algorithm>
#include <cmath>

#include "common/base/random.h"
#include "trainer-runtime/models/gpt.h"
#include "trainer-runtime/models/mlp.h"

namespace pawl::models {

template <typename T>
Gpt<T>::Gpt(const ModelConfig& config, Index samples_max)
    : config_(config), samples_max_(samples_max), run_(kernels::table<T>()) {
  plan_tensors();
  plan_activations();
}

template <typename T>
Index Gpt<T>::add_tensor(std::string name, std::vector<Index> shape, double initial,
                         double constant) {
  Index elements = 1;
  for (const Index side : shape) elements *= side;
  const Index offset = parameter_count_;
  const bool is_matrix = shape.size() > 1;
  tensors_.push_back(
      {std::move(name), std::move(shape), offset, elements, is_matrix, initial, constant});
  parameter_count_ += elements;
  return offset;
}

template <typename T>
void Gpt<T>::plan_tensors() {
  const Index c = config_.channels;
  const double plain = 0.02,
               residual = plain / std::sqrt(2.0 * static_cast<double>(config_.layers));
  token_embedding_ = add_tensor("transformer.wte.weight", {config_.vocabulary, c}, plain, 0);
  position_embedding_ = add_tensor("transformer.wpe.weight", {config_.context, c}, plain, 0);
  for (Index layer = 0; layer < config_.layers; ++layer) {
    const std::string prefix = "transformer.h." + std::to_string(layer) + ".";
    BlockTensors t{};
    t.gain1 = add_tensor(prefix + "ln_1.weight", {c}, 0, 1);
    t.bias1 = add_tensor(prefix + "ln_1.bias", {c}, 0, 0);
    t.qkv_weight = add_tensor(prefix + "attn.c_attn.weight", {c, 3 * c}, plain, 0);
    t.qkv_bias = add_tensor(prefix + "attn.c_attn.bias", {3 * c}, 0, 0);
    t.out_weight = add_tensor(prefix + "attn.c_proj.weight", {c, c}, residual, 0);
    t.out_bias = add_tensor(prefix + "attn.c_proj.bias", {c}, 0, 0);
    t.gain2 = add_tensor(prefix + "ln_2.weight", {c}, 0, 1);
    t.bias2 = add_tensor(prefix + "ln_2.bias", {c}, 0, 0);
    t.up_weight = add_tensor(prefix + "mlp.c_fc.weight", {c, 4 * c}, plain, 0);
    t.up_bias = add_tensor(prefix + "mlp.c_fc.bias", {4 * c}, 0, 0);
    t.down_weight = add_tensor(prefix + "mlp.c_proj.weight", {4 * c, c}, residual, 0);
    t.down_bias = add_tensor(prefix + "mlp.c_proj.bias", {c}, 0, 0);
    blocks_.push_back(t);
  }
  final_gain_ = add_tensor("transformer.ln_f.weight", {c}, 0, 1);
  final_bias_ = add_tensor("transformer.ln_f.bias", {c}, 0, 0);
  head_ = config_.is_tied ? token_embedding_
                          : add_tensor("lm_head.weight", {config_.vocabulary, c}, plain, 0);
}

template <typename T>
void Gpt<T>::plan_activations() {
  const Index c = config_.channels, rows = samples_max_ * config_.context;
  const Index score_rows = std::min<Index>(config_.context, kScoreRows);
  logit_rows_ = std::min(rows, std::max<Index>(16, kLogitElements / config_.vocabulary));
  const auto widest = std::max({4 * c, config_.vocabulary, config_.context});
  struct Request {
    std::span<T>* target;
    Index elements;
  };
  std::vector<Request> requests;
  activations_.resize(blocks_.size());
  for (BlockActivations& a : activations_) {
    for (auto* span : {&a.input, &a.normal1, &a.attention, &a.middle, &a.normal2}) {
      requests.push_back({span, rows * c});
    }
    for (auto* span : {&a.mean1, &a.rstd1, &a.mean2, &a.rstd2}) requests.push_back({span, rows});
    requests.push_back({&a.log_sum, rows * config_.heads});
    requests.push_back({&a.qkv, rows * 3 * c});
    for (auto* span : {&a.up, &a.activated}) requests.push_back({span, rows * 4 * c});
  }
  for (auto* span : {&final_input_, &final_normal_, &d_residual_, &d_normal_}) {
    requests.push_back({span, rows * c});
  }
  for (auto* span : {&final_mean_, &final_rstd_}) requests.push_back({span, rows});
  for (auto* span : {&scores_, &d_scores_})
    requests.push_back({span, score_rows * config_.context});
  requests.push_back({&delta_, config_.context});
  requests.push_back({&d_wide_, rows * 4 * c});
  requests.push_back({&logits_, logit_rows_ * config_.vocabulary});
  requests.push_back({&gemm_scratch_, kernels::gemm_scratch(widest)});
  std::size_t bytes = 0;
  for (const Request& request : requests) {
    bytes += device::aligned(static_cast<std::size_t>(request.elements) * sizeof(T));
  }
  arena_ = device::Arena(bytes);
  for (const Request& request : requests) {
    *request.target = arena_.take<T>(static_cast<std::size_t>(request.elements));
  }
}

// A normal number would need a logarithm and a cosine an element, and both differ between C
// libraries. The sum of four 16-bit uniform numbers has the same mean and variance, is as good a
// start, and is exact.
template <typename T>
void initialise(const std::vector<Tensor>& tensors, std::uint64_t seed, std::span<T> parameters) {
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const Tensor& tensor = tensors[index];
    T* to = parameters.data() + tensor.offset;
    if (tensor.initial == 0) {
      std::fill(to, to + tensor.elements, static_cast<T>(tensor.constant));
      continue;
    }
    const std::uint64_t key = keyed_random(seed, 0x696e6974, index);
    const double scale = tensor.initial / (65536.0 / std::sqrt(3.0));
    for (Index i = 0; i < tensor.elements; ++i) {
      const std::uint64_t bits = mix64(key + static_cast<std::uint64_t>(i));
      const auto sum = static_cast<std::int64_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                                 (bits >> 32 & 0xffff) + (bits >> 48));
      to[i] = static_cast<T>(static_cast<double>(sum - 131070) * scale);
    }
  }
}

template <typename T>
std::unique_ptr<Model<T>> make_model(const TrainerConfig& config) {
  if (config.model.kind == "mlp") return std::make_unique<Mlp<T>>(config.model, config.batch.micro);
  return std::make_unique<Gpt<T>>(config.model, config.batch.micro);
}

template Gpt<float>::Gpt(const ModelConfig&, Index);
template Gpt<double>::Gpt(const ModelConfig&, Index);
template Index Gpt<float>::add_tensor(std::string, std::vector<Index>, double, double);
template Index Gpt<double>::add_tensor(std::string, std::vector<Index>, double, double);
template void Gpt<float>::plan_tensors();
template void Gpt<double>::plan_tensors();
template void Gpt<float>::plan_activations();
template void Gpt<double>::plan_activations();
template void initialise(const std::vector<Tensor>&, std::uint64_t, std::span<float>);
template void initialise(const std::vector<Tensor>&, std::uint64_t, std::span<double>);
template std::unique_ptr<Model<float>> make_model(const TrainerConfig&);
template std::unique_ptr<Model<double>> make_model(const TrainerConfig&);

}  // namespace pawl::models
