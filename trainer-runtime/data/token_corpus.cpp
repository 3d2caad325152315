#include "trainer-runtime/data/token_corpus.h"

#include <algorithm>
#include <array>

namespace pawl::data {
namespace {

// What llm.c writes in front of its tokens, of GPT-2 and of Llama 3.
struct LlmcFormat {
  std::uint32_t magic, version;
  std::uint64_t token_bytes;
};
constexpr std::array kLlmcFormats{LlmcFormat{20240520, 1, 2}, LlmcFormat{20240801, 7, 4}};
constexpr std::uint64_t kHeaderBytes = 1024;
// Of each end of a file, that are looked at before the run begins.
constexpr std::uint64_t kLookedAt = 1000;

std::uint32_t little_endian(const unsigned char* bytes, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value |= std::uint32_t{bytes[i]} << (8 * i);
  return value;
}

}  // namespace

Result<std::unique_ptr<TokenCorpus>> TokenCorpus::open(const TrainerConfig& config) {
  std::unique_ptr<TokenCorpus> corpus(new TokenCorpus);
  PAWL_TRY_VOID(corpus->plan(config));
  return corpus;
}

Status TokenCorpus::plan(const TrainerConfig& config) {
  token_bytes_ = static_cast<std::uint64_t>(config.data.token_bytes);
  context_ = static_cast<std::uint64_t>(config.model.context);
  vocabulary_ = static_cast<std::uint32_t>(config.model.vocabulary);
  for (const std::string& path : config.data.paths) PAWL_TRY_VOID(files_.add(path));
  for (const MappedFiles::File& file : files_.files()) PAWL_TRY_VOID(add_part(file));
  const auto held_out =
      static_cast<std::uint64_t>(static_cast<double>(tokens_) * config.data.validation_fraction);
  training_tokens_ = tokens_ - held_out;
  const bool has_too_little = training_tokens_ <= context_ ||
                              (config.data.validation_fraction > 0 && held_out_samples() == 0);
  if (!has_too_little) {
    PAWL_TRY_VOID(look_at_ends());
    return look_at_validation(config);
  }
  return fail(Code::kInvalid,
              "data.paths: " + std::to_string(tokens_) + " tokens, " + std::to_string(held_out) +
                  " of them held out, are too few for samples of " + std::to_string(context_));
}

Status TokenCorpus::add_part(const MappedFiles::File& file) {
  PAWL_TRY(promised, header_of(file));
  const std::uint64_t skipped = promised ? kHeaderBytes : 0, rest = file.bytes - skipped;
  if (rest % token_bytes_ != 0) {
    return fail(Code::kInvalid,
                "data.paths: " + file.path + " has " + std::to_string(rest) +
                    " bytes of tokens, which are no multiple of data.token_bytes, " +
                    std::to_string(token_bytes_));
  }
  const std::uint64_t count = rest / token_bytes_;
  if (promised && *promised != count) {
    return fail(Code::kInvalid, "data.paths: " + file.path + " says that it has " +
                                    std::to_string(*promised) + " tokens and has " +
                                    std::to_string(count) + " of data.token_bytes, " +
                                    std::to_string(token_bytes_));
  }
  if (count > 0) parts_.push_back({tokens_, count, file.first + skipped});
  tokens_ += count;
  return {};
}

Result<std::optional<std::uint32_t>> TokenCorpus::header_of(const MappedFiles::File& file) const {
  std::array<unsigned char, 12> start{};
  if (file.bytes >= start.size()) files_.copy(file.first, start);
  const auto number = [&](std::size_t at) { return little_endian(start.data() + 4 * at, 4); };
  const auto* format = std::ranges::find(kLlmcFormats, number(0), &LlmcFormat::magic);
  if (format == kLlmcFormats.end()) return std::nullopt;
  if (number(1) != format->version || file.bytes < kHeaderBytes) {
    return fail(Code::kInvalid, "data.paths: " + file.path + " has llm.c's number " +
                                    std::to_string(format->magic) + " in front, with version " +
                                    std::to_string(number(1)) + " and " +
                                    std::to_string(file.bytes) + " bytes; only version " +
                                    std::to_string(format->version) + " is known, and " +
                                    std::to_string(kHeaderBytes) + " bytes are its header");
  }
  if (format->token_bytes != token_bytes_) {
    return fail(Code::kInvalid, "data.token_bytes is " + std::to_string(token_bytes_) + " but " +
                                    file.path + " says in its header that its tokens have " +
                                    std::to_string(format->token_bytes));
  }
  return number(2);
}

// A wrong vocabulary or token size shows here, and not after hours.
Status TokenCorpus::look_at_ends() const {
  for (const Part& part : parts_) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(part.count, kLookedAt)));
    PAWL_TRY_VOID(copy(part.first, tokens));
    PAWL_TRY_VOID(copy(part.first + part.count - tokens.size(), tokens));
  }
  return {};
}

// The last validation comes when all has been trained: too late to find a bad token.
Status TokenCorpus::look_at_validation(const TrainerConfig& config) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(context_) + 1);
  const ValidationPlan validation = validation_of(config, held_out_samples());
  for (std::uint64_t i = 0; i < validation.count; ++i)
    PAWL_TRY_VOID(copy(training_tokens_ + validation.sample(i) * context_, tokens));
  return {};
}

Status TokenCorpus::copy(std::uint64_t first, std::span<std::int32_t> out) const {
  std::array<unsigned char, 8192> piece{};
  auto part = std::ranges::upper_bound(parts_, first, {}, &Part::first) - 1;
  while (!out.empty()) {
    const std::uint64_t in_part = first - part->first;
    const std::uint64_t count = std::min({part->count - in_part, std::uint64_t{out.size()},
                                          std::uint64_t{piece.size()} / token_bytes_});
    files_.copy(part->begin + in_part * token_bytes_,
                std::span(piece).first(static_cast<std::size_t>(count * token_bytes_)));
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t token = little_endian(piece.data() + i * token_bytes_, token_bytes_);
      if (token >= vocabulary_) {
        return fail(Code::kInvalid, "data.paths: " + files_.file_of(part->begin).path + ": token " +
                                        std::to_string(in_part + i) + " is " +
                                        std::to_string(token) + ", model.vocabulary is " +
                                        std::to_string(vocabulary_) + ", data.token_bytes " +
                                        std::to_string(token_bytes_));
      }
      out[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(token);
    }
    out = out.subspan(static_cast<std::size_t>(count));
    first += count;
    if (in_part + count == part->count) ++part;
  }
  return {};
}

// Token i is input i, and the target of the input before it.
Status TokenCorpus::read(std::uint64_t first, const SampleRoom& room) const {
  PAWL_TRY_VOID(copy(first, room.inputs));
  std::ranges::copy(room.inputs.subspan(1), room.targets.begin());
  return copy(first + context_, room.targets.last(1));
}

std::string TokenCorpus::about() const {
  return std::to_string(tokens_) + " tokens in " + std::to_string(parts_.size()) +
         " files, of which " + std::to_string(tokens_ - training_tokens_) + " are held out";
}

}  // namespace pawl::data
