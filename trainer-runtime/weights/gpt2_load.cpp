#include "trainer-runtime/weights/gpt2_load.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "trainer-runtime/weights/gpt2_files.h"

namespace pawl::weights {
namespace {

using checkpoint::Dtype;

constexpr std::size_t kElementsAtOnce = std::size_t{1} << 20;

template <typename T>
std::string shape_text(const std::vector<T>& shape) {
  std::string text;
  for (const T side : shape) text += (text.empty() ? "" : ", ") + std::to_string(side);
  return "[" + text + "]";
}

std::string count(std::int64_t number) { return std::to_string(number); }

// IEEE 754's half precision; every number of it is a float.
float from_half(std::uint16_t half) {
  const std::uint32_t exponent = (half >> 10) & 31U, fraction = half & 1023U;
  const std::uint32_t sign = static_cast<std::uint32_t>(half >> 15) << 31;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const std::uint32_t widened = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (widened << 23) | (fraction << 13));
}

float from_bfloat(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

float from_double(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return std::abs(value) <= kMost ? static_cast<float>(value) : NAN;
}

template <typename From, typename Convert>
void convert_all(const std::vector<std::byte>& bytes, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    out[i] = convert(value);
  }
}

class Loader {
 public:
  Loader(const ModelConfig& config, const std::vector<models::Tensor>& tensors, StoredModel stored)
      : config_(config), tensors_(tensors), stored_(std::move(stored)) {}

  // Of everything, before anything is read.
  Status check() const;
  Status fill(std::span<float> parameters);

 private:
  const StoredTensor* find(const std::string& name) const {
    const auto found = stored_.tensors.find(name);
    return found == stored_.tensors.end() ? nullptr : &found->second;
  }
  const models::Tensor* wanted(const std::string& name) const {
    const auto found = std::ranges::find(tensors_, name, &models::Tensor::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  const std::string& path_of(const StoredTensor& tensor) const {
    return stored_.files[tensor.file].path();
  }
  Status check_unknown() const;
  Status check_missing() const;
  Status check_one(const StoredTensor& stored, const models::Tensor& wanted) const;
  std::string remedy(const std::string& name, const std::vector<std::uint64_t>& shape) const;
  // Elements [first, first + out.size()) of the tensor.
  Status read(const StoredTensor& tensor, std::uint64_t first, std::span<float> out);
  Status check_tied_head(const StoredTensor& head, std::span<const float> embedding);

  const ModelConfig& config_;
  const std::vector<models::Tensor>& tensors_;
  const StoredModel stored_;
  std::vector<std::byte> bytes_;
};

Status Loader::check() const {
  PAWL_TRY_VOID(check_unknown());
  PAWL_TRY_VOID(check_missing());
  for (const auto& [name, stored] : stored_.tensors) {
    // A tied model has no output layer of its own; the file's is of the embedding's shape.
    const models::Tensor* mine = wanted(name == kHead ? kTokenEmbedding : name);
    PAWL_CHECK(mine != nullptr, "an unknown tensor was not found");
    PAWL_TRY_VOID(check_one(stored, *mine));
  }
  return {};
}

Status Loader::check_unknown() const {
  for (const auto& [name, stored] : stored_.tensors) {
    if (name == kHead || wanted(name) != nullptr) continue;
    const checkpoint::Tensor& tensor = stored.place.piece.tensor;
    const std::string has =
        "has the tensor \"" + tensor.name + "\" " + shape_text(tensor.shape) + ", ";
    if (block_of(name) < config_.layers) return wrong(path_of(stored), has + "which no GPT-2 has");
    std::int64_t layers = 0;
    for (const auto& [other, unused] : stored_.tensors)
      layers = std::max(layers, block_of(other) + 1);
    return wrong(path_of(stored), has + "but model.layers is " + count(config_.layers) +
                                      "; set model.layers: " + count(layers));
  }
  return {};
}

Status Loader::check_missing() const {
  std::int64_t layers = 0;
  for (const auto& [name, stored] : stored_.tensors) layers = std::max(layers, block_of(name) + 1);
  for (const models::Tensor& tensor : tensors_) {
    if (tensor.name == kHead || find(tensor.name) != nullptr) continue;
    const std::string lacks =
        "has no tensor \"" + tensor.name + "\" " + shape_text(tensor.shape) + ", ";
    const bool is_beyond = layers > 0 && block_of(tensor.name) >= layers;
    return wrong(
        config_.weights,
        lacks + (is_beyond ? "as it has " + count(layers) + " blocks and model.layers is " +
                                 count(config_.layers) + "; set model.layers: " + count(layers)
                           : "which GPT-2 has"));
  }
  return {};
}

Status Loader::check_one(const StoredTensor& stored, const models::Tensor& mine) const {
  const checkpoint::Tensor& tensor = stored.place.piece.tensor;
  std::vector<std::uint64_t> shape(mine.shape.begin(), mine.shape.end());
  // Positions that no sample reaches are left out.
  if (mine.name == kPositionEmbedding && !tensor.shape.empty())
    shape[0] = std::max(shape[0], tensor.shape[0]);
  if (tensor.shape != shape) {
    return wrong(path_of(stored), "the tensor \"" + tensor.name + "\" is " +
                                      shape_text(tensor.shape) + ", the model's is " +
                                      shape_text(mine.shape) + "; " +
                                      remedy(mine.name, tensor.shape));
  }
  for (const Dtype known : {Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kF64}) {
    if (tensor.dtype == known) return {};
  }
  return wrong(path_of(stored), "the tensor \"" + tensor.name + "\" is of " +
                                    checkpoint::dtype_name(tensor.dtype) +
                                    "; it has to be of F32, F16, BF16 or F64");
}

// Embeddings show what the file's model is; where they fit, nothing can be set.
std::string Loader::remedy(const std::string& name, const std::vector<std::uint64_t>& shape) const {
  const StoredTensor* embedding = find(kTokenEmbedding);
  const auto& table = embedding->place.piece.tensor.shape;
  const auto channels = static_cast<std::uint64_t>(config_.channels);
  if (table.size() == 2 && table[1] != channels)
    return "set model.channels: " + std::to_string(table[1]);
  if (table.size() == 2 && table[0] != static_cast<std::uint64_t>(config_.vocabulary))
    return "set model.vocabulary: " + std::to_string(table[0]);
  if (name == kPositionEmbedding && shape.size() == 2 && shape[1] == channels)
    return "set model.context to at most " + std::to_string(shape[0]);
  return "no GPT-2 of model.channels: " + std::to_string(channels) + " has such a one";
}

Status Loader::read(const StoredTensor& tensor, std::uint64_t first, std::span<float> out) {
  const InputFile& file = stored_.files[tensor.file];
  const Dtype dtype = tensor.place.piece.tensor.dtype;
  const std::uint64_t size = checkpoint::dtype_bytes(dtype);
  if (dtype == Dtype::kF32)
    return file.read(tensor.place.begin + first * size, std::as_writable_bytes(out));
  while (!out.empty()) {
    const std::span<float> now = out.first(std::min(out.size(), kElementsAtOnce));
    bytes_.resize(now.size() * size);
    PAWL_TRY_VOID(file.read(tensor.place.begin + first * size, bytes_));
    if (dtype == Dtype::kF16) {
      convert_all<std::uint16_t>(bytes_, now, from_half);
    } else if (dtype == Dtype::kBF16) {
      convert_all<std::uint16_t>(bytes_, now, from_bfloat);
    } else {
      convert_all<double>(bytes_, now, from_double);
    }
    out = out.subspan(now.size());
    first += now.size();
  }
  return {};
}

// In pieces: a second copy of the largest tensor may be more than there is memory for.
Status Loader::check_tied_head(const StoredTensor& head, std::span<const float> embedding) {
  std::vector<float> piece;
  for (std::size_t first = 0; first < embedding.size(); first += piece.size()) {
    piece.resize(std::min(embedding.size() - first, kElementsAtOnce));
    PAWL_TRY_VOID(read(head, first, piece));
    if (!std::ranges::equal(piece, embedding.subspan(first, piece.size()))) {
      const std::string shape = shape_text(head.place.piece.tensor.shape);
      return wrong(path_of(head), "the tensor \"" + std::string(kHead) + "\" " + shape +
                                      " is not equal to the token embedding \"" + kTokenEmbedding +
                                      "\" " + shape + "; set model.tied: false");
    }
  }
  return {};
}

Status Loader::fill(std::span<float> parameters) {
  const auto room_of = [&](const models::Tensor& tensor) {
    return parameters.subspan(static_cast<std::size_t>(tensor.offset),
                              static_cast<std::size_t>(tensor.elements));
  };
  const std::span<float> embedding = room_of(*wanted(kTokenEmbedding));
  for (const models::Tensor& tensor : tensors_) {
    if (const StoredTensor* stored = find(tensor.name); stored != nullptr) {
      PAWL_TRY_VOID(read(*stored, 0, room_of(tensor)));
      const auto is_finite = [](float value) { return std::isfinite(value); };
      if (!std::ranges::all_of(room_of(tensor), is_finite)) {
        return wrong(path_of(*stored), "the tensor \"" + tensor.name +
                                           "\" has numbers that are no finite 32-bit floats");
      }
    } else {  // the output layer; the embedding came first
      std::ranges::copy(embedding, room_of(tensor).begin());
    }
  }
  const StoredTensor* head = find(kHead);
  if (config_.is_tied && head != nullptr) return check_tied_head(*head, embedding);
  return {};
}

}  // namespace

Status load_gpt2(const ModelConfig& config, const std::vector<models::Tensor>& tensors,
                 std::span<float> parameters) {
  PAWL_TRY(stored, open_gpt2(config));
  Loader loader(config, tensors, std::move(stored));
  PAWL_TRY_VOID(loader.check());
  return loader.fill(parameters);
}

}  // namespace pawl::weights
