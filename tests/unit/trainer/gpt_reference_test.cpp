// The GPT model, AdamW and SGD beside PyTorch's fp64 (tests/trainer/gpt_reference.py made the
// file).
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "common/checkpoint/safetensors.h"
#include "trainer-runtime/models/model.h"
#include "trainer-runtime/optim/optimizer.h"

using namespace pawl;

namespace {

constexpr std::size_t kTokens = 32;  // in a batch: two samples of 16

class Reference {
 public:
  Reference() {
    std::ifstream in(PAWL_SOURCE_DIR "/tests/unit/trainer/gpt_reference.safetensors",
                     std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), {});
    REQUIRE(file_.size() > 8);
    std::array<std::byte, 8> prefix{};
    std::memcpy(prefix.data(), file_.data(), prefix.size());
    const std::uint64_t bytes = checkpoint::header_bytes(prefix, file_.size()).value();
    const auto header = checkpoint::parse_header(file_.substr(8, bytes), file_.size()).value();
    for (const checkpoint::StoredPiece& stored : header.pieces)
      pieces_.emplace(stored.piece.tensor.name, stored);
  }
  template <typename T>
  std::vector<T> values(const std::string& name) const {
    INFO(name);
    REQUIRE(pieces_.contains(name));
    const checkpoint::StoredPiece& stored = pieces_.at(name);
    REQUIRE(checkpoint::dtype_bytes(stored.piece.tensor.dtype) == sizeof(T));
    std::vector<T> out(stored.piece.elements);
    std::memcpy(out.data(), file_.data() + stored.begin, out.size() * sizeof(T));
    return out;
  }

 private:
  std::string file_;
  std::map<std::string, checkpoint::StoredPiece> pieces_;
};

struct Batch {
  std::vector<std::int32_t> inputs, targets;
  models::MicroBatch view() const { return {inputs, targets}; }
};

// One of the 20, whose samples have a token more than the context.
Batch batch_of(const std::vector<std::int32_t>& tokens, std::size_t number) {
  Batch out;
  for (std::size_t i = 0; i < kTokens; ++i) {
    const std::size_t at = number * 34 + i / 16 * 17 + i % 16;
    out.inputs.push_back(tokens[at]);
    out.targets.push_back(tokens[at + 1]);
  }
  return out;
}

TrainerConfig config_of(bool is_tied) {
  TrainerConfig config;
  config.model = {.kind = "gpt",
                  .layers = 2,
                  .heads = 4,
                  .channels = 32,
                  .context = 16,
                  .vocabulary = 97,
                  .is_tied = is_tied};
  config.batch = {2, 2};
  return config;
}

template <typename T>
void load(const Reference& reference, const std::vector<models::Tensor>& tensors,
          std::span<T> parameters) {
  for (const models::Tensor& tensor : tensors) {
    const auto values = reference.values<float>("parameters." + tensor.name);
    REQUIRE(std::cmp_equal(values.size(), tensor.elements));
    std::ranges::copy(values, parameters.begin() + tensor.offset);
  }
}

// Of the tensor `got`: distance over length, and the cosine of the angle between.
struct Agreement {
  double distance = 0, cosine = 0;
};
template <typename T>
Agreement compare(std::span<const T> got, const std::vector<float>& wanted) {
  double difference = 0, square = 0, own = 0, product = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double a = got[i], b = wanted[i];
    difference += (a - b) * (a - b);
    square += b * b;
    own += a * a;
    product += a * b;
  }
  return {std::sqrt(difference / square), product / std::sqrt(square * own)};
}

template <typename T>
void check_gradients(const std::string& kind, double distance_max) {
  const Reference reference;
  const auto model = models::make_model<T>(config_of(kind == "tied"));
  const auto count = static_cast<std::size_t>(model->parameter_count());
  std::vector<T> parameters(count), gradients(count);
  load<T>(reference, model->tensors(), parameters);
  const Batch batch = batch_of(reference.values<std::int32_t>("tokens"), 0);
  const double sum =
      model->train(parameters, gradients, batch.view(), T{1} / kTokens, [](models::Index) {});
  double wanted = 0;
  for (const double loss : reference.values<double>(kind + ".token_losses")) wanted += loss;
  CHECK(std::abs(sum / wanted - 1) < distance_max);
  for (const models::Tensor& tensor : model->tensors()) {
    INFO(kind << " " << tensor.name);
    const auto of_torch = reference.values<float>(kind + ".gradients." + tensor.name);
    const auto own = std::span<const T>(gradients).subspan(
        static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.elements));
    const Agreement agreement = compare(own, of_torch);
    CHECK(agreement.distance < distance_max);
    CHECK(agreement.cosine > 0.999999);
  }
}

OptimizerConfig optimizer_of(const std::string& kind) {
  OptimizerConfig config;
  config.kind = kind;
  config.learning_rate = kind == "adamw" ? 1e-2 : 0.1;
  config.weight_decay = kind == "adamw" ? 0.1 : 1e-2;
  config.is_nesterov = true;
  return config;
}

void check_losses(const std::string& kind, const std::string& optimizer_kind) {
  const Reference reference;
  TrainerConfig config = config_of(kind == "tied");
  config.optimizer = optimizer_of(optimizer_kind);
  const auto model = models::make_model<float>(config);
  const auto optimizer = optim::make_optimizer(config.optimizer, model->tensors(),
                                               optim::Ownership(model->parameter_count()));
  optim::TrainingArrays arrays(config, model->parameter_count());
  load<float>(reference, model->tensors(), arrays.parameters.span());
  const auto tokens = reference.values<std::int32_t>("tokens");
  const auto wanted = reference.values<double>(kind + "." + optimizer_kind);
  REQUIRE(wanted.size() == 20);
  std::vector<float> gradients(static_cast<std::size_t>(model->parameter_count()));
  for (std::size_t step = 0; step < wanted.size(); ++step) {
    INFO(kind << " " << optimizer_kind << ", step " << step);
    std::ranges::fill(gradients, 0.0f);
    const double sum =
        model->train(arrays.parameters.span(), gradients, batch_of(tokens, step).view(),
                     1.0f / kTokens, [](models::Index) {});
    CHECK(std::abs(sum / kTokens - wanted[step]) < 1e-5 * wanted[step]);
    double square = 0;
    for (const float value : gradients) square += static_cast<double>(value) * value;
    optimizer->apply({.learning_rate = config.optimizer.learning_rate,
                      .step = static_cast<std::int64_t>(step),
                      .gradient_scale = optim::clip_factor(config.optimizer, std::sqrt(square))},
                     gradients, arrays);
  }
}

}  // namespace

TEST_CASE("gpt reference: loss and gradients are PyTorch's", "[trainer]") {
  for (const char* kind : {"plain", "tied"}) {
    check_gradients<double>(kind, 2e-7);  // the file's gradients are fp32
    check_gradients<float>(kind, 1e-5);
  }
}

TEST_CASE("gpt reference: twenty steps of AdamW and SGD have PyTorch's losses", "[trainer]") {
  for (const char* kind : {"plain", "tied"}) {
    for (const char* optimizer : {"adamw", "sgd"}) check_losses(kind, optimizer);
  }
}
