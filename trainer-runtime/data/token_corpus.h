// Token files: numbers of two or four bytes, little-endian, one behind the other, over 4 GiB too. A
// file may begin with a header of llm.c (256 numbers of four bytes: 20240520 for tokens of two
// bytes or 20240801 for those of four, a version, how many tokens follow, zeros). The last
// validation_fraction of the tokens is held out. Immutable after open; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/data/mapped_files.h"

namespace pawl::data {

class TokenCorpus final : public Dataset {
 public:
  // Invalid with the file, also when one of the first or last thousand tokens of a file, or one
  // that a validation looks at, is not in the vocabulary; Unavailable when storage failed and
  // another try may help.
  static Result<std::unique_ptr<TokenCorpus>> open(const TrainerConfig& config);

  std::uint64_t bytes() const override { return files_.bytes(); }
  std::uint64_t training_samples() const override { return (training_tokens_ - 1) / context_; }
  std::uint64_t held_out_samples() const override {
    const std::uint64_t held_out = tokens_ - training_tokens_;
    return held_out == 0 ? 0 : (held_out - 1) / context_;
  }
  // `context` tokens, and the token after each of them. Invalid: one is not in the vocabulary.
  Status read_training(std::uint64_t index, const SampleRoom& room) const override {
    return read(index * context_, room);
  }
  Status read_held_out(std::uint64_t index, const SampleRoom& room) const override {
    return read(training_tokens_ + index * context_, room);
  }
  std::string about() const override;

 private:
  // The tokens of one file.
  struct Part {
    std::uint64_t first = 0, count = 0;  // of all tokens
    std::uint64_t begin = 0;             // in the files, in bytes
  };
  TokenCorpus() = default;
  Status plan(const TrainerConfig& config);
  Status add_part(const MappedFiles::File& file);
  // How many tokens the file's header says that there are; none: it has no header.
  Result<std::optional<std::uint32_t>> header_of(const MappedFiles::File& file) const;
  Status look_at_ends() const;
  Status look_at_validation(const TrainerConfig& config) const;
  Status read(std::uint64_t first, const SampleRoom& room) const;
  // Tokens [first, first + out.size()) of all.
  Status copy(std::uint64_t first, std::span<std::int32_t> out) const;

  MappedFiles files_;
  std::vector<Part> parts_;
  std::uint64_t token_bytes_ = 2, context_ = 1, tokens_ = 0, training_tokens_ = 0;
  std::uint32_t vocabulary_ = 0;
};

}  // namespace pawl::data
