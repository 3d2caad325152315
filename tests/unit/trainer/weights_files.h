// Files as `save_pretrained` of transformers writes them, small enough for a test.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/checkpoint/safetensors.h"
#include "tests/unit/trainer/samples.h"
#include "trainer-runtime/models/model.h"

namespace pawl::test {

using checkpoint::Dtype;

struct Entry {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
  Dtype dtype = Dtype::kF32;
};

template <typename T>
void append(std::string& text, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  text.append(bytes, sizeof value);
}

// Of values that the dtype can hold; of F16 of normal ones and 0.
inline void append_value(std::string& text, float value, Dtype dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t half = (bits >> 16 & 0x8000U) | (((bits & 0x7fffffffU) - (112U << 23)) >> 13);
  switch (dtype) {
    case Dtype::kF64:
      return append(text, static_cast<double>(value));
    case Dtype::kBF16:
      return append(text, static_cast<std::uint16_t>(bits >> 16));
    case Dtype::kF16:
      return append(text, static_cast<std::uint16_t>(value == 0 ? 0 : half));
    default:
      return append(text, value);
  }
}

inline std::string safetensors_of(const std::vector<Entry>& entries) {
  std::vector<checkpoint::Piece> pieces;
  std::string data;
  for (const Entry& entry : entries) {
    const checkpoint::Tensor tensor{entry.name, entry.dtype, entry.shape};
    pieces.push_back({tensor, 0, checkpoint::elements_of(tensor)});
    const std::size_t begin = data.size();
    for (const float value : entry.values) append_value(data, value, entry.dtype);
    data.resize(begin + checkpoint::bytes_of(tensor), '\0');
  }
  const auto header = checkpoint::build_header(pieces, {{"format", "pt"}});
  PAWL_CHECK(header.has_value(), "no header");
  return *header + data;
}

// All tensors of the model, with numbers that every dtype holds; without the prefix if so told.
inline std::vector<Entry> entries_of(const TrainerConfig& config, std::uint64_t seed) {
  Random random(seed);
  std::vector<Entry> entries;
  const auto model = models::make_model<float>(config);
  for (const models::Tensor& tensor : model->tensors()) {
    Entry entry{tensor.name, {tensor.shape.begin(), tensor.shape.end()}, {}};
    for (models::Index i = 0; i < tensor.elements; ++i)
      entry.values.push_back((static_cast<float>(random.below(256)) - 128) / 512);
    entries.push_back(std::move(entry));
  }
  return entries;
}

inline Entry& entry_of(std::vector<Entry>& entries, const std::string& name) {
  for (Entry& entry : entries) {
    if (entry.name == name) return entry;
  }
  PAWL_CHECK(false, "no such entry");
  return entries.front();
}

inline std::vector<float> values_of(const std::vector<Entry>& entries) {
  std::vector<float> all;
  for (const Entry& entry : entries)
    all.insert(all.end(), entry.values.begin(), entry.values.end());
  return all;
}

}  // namespace pawl::test
