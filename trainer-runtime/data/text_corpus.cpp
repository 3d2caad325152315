#include "trainer-runtime/data/text_corpus.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "common/os/fd.h"
#include "common/os/process.h"

namespace pawl::data {
namespace {

constexpr std::size_t kFilesMax = 100'000;

Result<std::vector<std::string>> files_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    return fail(Code::kInvalid, "data.paths: " + path + " does not exist");
  if (!fs::status_known(status)) {
    return fail(code_of_file_error(error.value()), "data.paths: " + path + ": " + error.message());
  }
  if (!fs::is_directory(status)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) files.push_back(entry->path().string());
    if (files.size() > kFilesMax) {
      return fail(Code::kInvalid, "data.paths: " + path + " holds more than " +
                                      std::to_string(kFilesMax) +
                                      " files; put them together into fewer");
    }
  }
  if (error) {
    return fail(code_of_file_error(error.value()), "data.paths: " + path + ": " + error.message());
  }
  if (files.empty())
    return fail(Code::kInvalid, "data.paths: the folder " + path + " holds no file");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Code code_of_file_error(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
      return Code::kInvalid;
    default:
      return Code::kUnavailable;
  }
}

Status TextCorpus::add(const std::string& path) {
  const os::Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat about{};
  if (!fd.is_open() || ::fstat(fd.get(), &about) != 0) {
    return fail(code_of_file_error(errno), "data.paths: " + path + ": " + os::errno_text());
  }
  if (!S_ISREG(about.st_mode))
    return fail(Code::kInvalid, "data.paths: " + path + " is not a file");
  if (about.st_size == 0) return {};
  const auto size = static_cast<std::size_t>(about.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) return fail(Code::kIo, "data.paths: " + path + ": " + os::errno_text());
  files_.push_back({bytes_, size, static_cast<const unsigned char*>(memory)});
  bytes_ += size;
  return {};
}

Result<TextCorpus> TextCorpus::open(const DataConfig& config, std::int64_t context) {
  TextCorpus corpus;
  for (const std::string& path : config.paths) {
    PAWL_TRY(files, files_of(path));
    for (const std::string& file : files) PAWL_TRY_VOID(corpus.add(file));
  }
  corpus.context_ = static_cast<std::uint64_t>(context);
  const auto held_out =
      static_cast<std::uint64_t>(static_cast<double>(corpus.bytes_) * config.validation_fraction);
  corpus.training_bytes_ = corpus.bytes_ - held_out;
  const bool has_too_little = corpus.training_bytes_ <= corpus.context_ ||
                              (config.validation_fraction > 0 && corpus.held_out_samples() == 0);
  if (has_too_little) {
    return fail(Code::kInvalid, "data.paths: " + std::to_string(corpus.bytes_) +
                                    " bytes of text, " + std::to_string(held_out) +
                                    " of them held out, are too few for samples of " +
                                    std::to_string(context) + " bytes");
  }
  return corpus;
}

TextCorpus::~TextCorpus() {
  for (const File& file : files_) ::munmap(const_cast<unsigned char*>(file.memory), file.bytes);
}

void TextCorpus::copy(std::uint64_t first, std::span<unsigned char> out) const {
  auto file = std::upper_bound(files_.begin(), files_.end(), first,
                               [](std::uint64_t at, const File& f) { return at < f.first; }) -
              1;
  while (!out.empty()) {
    const std::uint64_t skipped = first - file->first;
    const auto length =
        static_cast<std::size_t>(std::min<std::uint64_t>(file->bytes - skipped, out.size()));
    std::memcpy(out.data(), file->memory + skipped, length);
    out = out.subspan(length);
    first += length;
    ++file;
  }
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
