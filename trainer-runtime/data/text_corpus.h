// Raw text as byte tokens: the files of data.paths one behind the other, mapped and not read until
// a sample needs them. The last validation_fraction of the bytes is held out. Immutable after open;
// any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/include/pawl/config.h"

namespace pawl::data {

class TextCorpus {
 public:
  // Invalid with the path when one is missing, or when there is too little text for one sample of
  // each part; Unavailable when storage failed and another try may help.
  static Result<TextCorpus> open(const DataConfig& config, std::int64_t context);
  TextCorpus(TextCorpus&&) noexcept = default;
  TextCorpus& operator=(TextCorpus&&) noexcept = default;
  ~TextCorpus();

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t training_bytes() const { return training_bytes_; }
  std::uint64_t held_out_bytes() const { return bytes_ - training_bytes_; }
  // Samples do not overlap, but for the one byte that is the last target of one and the first input
  // of the next.
  std::uint64_t training_samples() const { return (training_bytes_ - 1) / context_; }
  std::uint64_t held_out_samples() const {
    return held_out_bytes() == 0 ? 0 : (held_out_bytes() - 1) / context_;
  }
  // One sample: `context` inputs and the byte after each of them.
  void training_sample(std::uint64_t index, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const;
  void held_out_sample(std::uint64_t index, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const;
  // Bytes [first, first + out.size()) of the whole text.
  void copy(std::uint64_t first, std::span<unsigned char> out) const;

 private:
  struct File {
    std::uint64_t first = 0, bytes = 0;
    const unsigned char* memory = nullptr;
  };
  TextCorpus() = default;
  Status add(const std::string& path);
  void sample(std::uint64_t first, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const;

  std::vector<File> files_;
  std::uint64_t bytes_ = 0, training_bytes_ = 0, context_ = 1;
};

// What an errno about an input file says: Invalid when it is absent or not to be read, Unavailable
// for all that may pass (a stale handle, a time-out, too many open files).
Code code_of_file_error(int error);

// H(next byte | byte) of the held-out text, in bits a byte, from its own counts of byte pairs: what
// the best model that sees one byte of context could reach on it.
double bigram_entropy(const TextCorpus& corpus);

}  // namespace pawl::data
