#include "trainer-runtime/data/text_corpus.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace pawl::data {

Result<TextCorpus> TextCorpus::open(const DataConfig& config, std::int64_t context) {
  TextCorpus corpus;
  for (const std::string& path : config.paths) PAWL_TRY_VOID(corpus.files_.add(path));
  corpus.context_ = static_cast<std::uint64_t>(context);
  const auto held_out =
      static_cast<std::uint64_t>(static_cast<double>(corpus.bytes()) * config.validation_fraction);
  corpus.training_bytes_ = corpus.bytes() - held_out;
  const bool has_too_little = corpus.training_bytes_ <= corpus.context_ ||
                              (config.validation_fraction > 0 && corpus.held_out_samples() == 0);
  if (has_too_little) {
    return fail(Code::kInvalid, "data.paths: " + std::to_string(corpus.bytes()) +
                                    " bytes of text, " + std::to_string(held_out) +
                                    " of them held out, are too few for samples of " +
                                    std::to_string(context) + " bytes");
  }
  return corpus;
}

void TextCorpus::sample(std::uint64_t first, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) const {
  std::array<unsigned char, 4096> piece{};
  for (std::size_t done = 0; done < inputs.size();) {
    const std::size_t length = std::min(piece.size() - 1, inputs.size() - done);
    copy(first + done, std::span(piece).first(length + 1));
    for (std::size_t i = 0; i < length; ++i) {
      inputs[done + i] = piece[i];
      targets[done + i] = piece[i + 1];
    }
    done += length;
  }
}

void TextCorpus::training_sample(std::uint64_t index, std::span<std::int32_t> inputs,
                                 std::span<std::int32_t> targets) const {
  sample(index * context_, inputs, targets);
}

void TextCorpus::held_out_sample(std::uint64_t index, std::span<std::int32_t> inputs,
                                 std::span<std::int32_t> targets) const {
  sample(training_bytes_ + index * context_, inputs, targets);
}

std::string TextCorpus::about() const {
  return std::to_string(bytes()) + " bytes of text, of which " + std::to_string(held_out_bytes()) +
         " are held out";
}

std::optional<double> TextCorpus::bigram_bits() const { return bigram_entropy(*this); }

double bigram_entropy(const TextCorpus& corpus) {
  if (corpus.held_out_bytes() < 2) return 0;
  std::vector<std::uint64_t> pairs(256 * 256), firsts(256);
  std::vector<unsigned char> piece(1 << 16);
  const std::uint64_t end = corpus.bytes();
  // Pieces overlap by one byte, so that every pair is counted once.
  for (std::uint64_t at = corpus.training_bytes(); at + 1 < end; at += piece.size() - 1) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), end - at));
    corpus.copy(at, std::span(piece).first(length));
    for (std::size_t i = 0; i + 1 < length; ++i) {
      ++pairs[piece[i] * 256U + piece[i + 1]];
      ++firsts[piece[i]];
    }
  }
  double bits = 0, total = 0;
  for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
    if (pairs[pair] == 0) continue;
    const auto count = static_cast<double>(pairs[pair]),
               of_first = static_cast<double>(firsts[pair / 256]);
    bits -= count * std::log2(count / of_first);
    total += count;
  }
  return bits / total;
}

}  // namespace pawl::data
