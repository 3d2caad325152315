// Raw text as byte tokens: the files of data.paths one behind the other, mapped and not read until
// a sample needs them. The last validation_fraction of the bytes is held out. Immutable after open;
// any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/data/mapped_files.h"

namespace pawl::data {

class TextCorpus final : public Dataset {
 public:
  // Invalid with the path when one is missing, or when there is too little text for one sample of
  // each part; Unavailable when storage failed and another try may help.
  static Result<TextCorpus> open(const DataConfig& config, std::int64_t context);
  std::uint64_t bytes() const override { return files_.bytes(); }
  std::uint64_t training_bytes() const { return training_bytes_; }
  std::uint64_t held_out_bytes() const { return bytes() - training_bytes_; }
  // Samples do not overlap, but for the one byte that is the last target of one and the first input
  // of the next.
  std::uint64_t training_samples() const override { return (training_bytes_ - 1) / context_; }
  std::uint64_t held_out_samples() const override {
    return held_out_bytes() == 0 ? 0 : (held_out_bytes() - 1) / context_;
  }
  // One sample: `context` inputs and the byte after each of them.
  void training_sample(std::uint64_t index, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const;
  void held_out_sample(std::uint64_t index, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const;
  Status read_training(std::uint64_t index, const SampleRoom& room) const override {
    training_sample(index, room.inputs, room.targets);
    return {};
  }
  Status read_held_out(std::uint64_t index, const SampleRoom& room) const override {
    held_out_sample(index, room.inputs, room.targets);
    return {};
  }
  std::string about() const override;
  bool has_bytes() const override { return true; }
  std::optional<double> bigram_bits() const override;
  // Bytes [first, first + out.size()) of the whole text.
  void copy(std::uint64_t first, std::span<unsigned char> out) const { files_.copy(first, out); }

 private:
  TextCorpus() = default;
  void sample(std::uint64_t first, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const;

  MappedFiles files_;
  std::uint64_t training_bytes_ = 0, context_ = 1;
};

// H(next byte | byte) of the held-out text, in bits a byte, from its own counts of byte pairs: what
// the best model that sees one byte of context could reach on it.
double bigram_entropy(const TextCorpus& corpus);

}  // namespace pawl::data
