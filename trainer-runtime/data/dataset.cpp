#include "trainer-runtime/data/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "common/os/fd.h"
#include "common/os/process.h"
#include "trainer-runtime/data/csv_table.h"
#include "trainer-runtime/data/text_corpus.h"
#include "trainer-runtime/data/token_corpus.h"

namespace pawl::data {
namespace {

// Fewer than the mappings that a process may have (vm.max_map_count).
constexpr std::size_t kFilesMax = 60'000;

}  // namespace

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
    // In the folder of a ConfigMap the files themselves lie in "..data", which its links point to.
    if (entry->path().filename().string().starts_with("..")) {
      entry.disable_recursion_pending();
      continue;
    }
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

Result<std::string> read_file(const std::string& path) {
  const os::Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat about{};
  const auto failed = [&] {
    return fail(code_of_file_error(errno), "data.paths: " + path + ": " + os::errno_text());
  };
  if (!fd.is_open() || ::fstat(fd.get(), &about) != 0) return failed();
  if (!S_ISREG(about.st_mode))
    return fail(Code::kInvalid, "data.paths: " + path + " is not a file");
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed();
    if (got == 0) break;  // it has become shorter
    done += static_cast<std::size_t>(got);
  }
  struct stat now{};
  if (::fstat(fd.get(), &now) != 0) return failed();
  const bool is_same = done == text.size() && now.st_size == about.st_size &&
                       now.st_mtim.tv_sec == about.st_mtim.tv_sec &&
                       now.st_mtim.tv_nsec == about.st_mtim.tv_nsec;
  if (!is_same)
    return fail(Code::kUnavailable, "data.paths: " + path + " has changed while it was read");
  return text;
}

std::uint64_t ValidationPlan::sample(std::uint64_t i) const {
  // Without a product that is too large: i < count <= of.
  return i * (of / count) + i * (of % count) / count;
}

ValidationPlan validation_of(const TrainerConfig& config, std::uint64_t held_out) {
  const auto wanted = static_cast<std::uint64_t>(config.validate_batches * config.batch.micro);
  return {held_out, std::min(held_out, wanted)};
}

Result<std::unique_ptr<Dataset>> open_dataset(const TrainerConfig& config) {
  if (config.data.kind == "csv") {
    PAWL_TRY(table, CsvTable::open(config));
    return std::unique_ptr<Dataset>(std::move(table));
  }
  if (config.data.kind == "tokens") {
    PAWL_TRY(tokens, TokenCorpus::open(config));
    return std::unique_ptr<Dataset>(std::move(tokens));
  }
  PAWL_TRY(corpus, TextCorpus::open(config.data, config.model.context));
  return std::unique_ptr<Dataset>(std::make_unique<TextCorpus>(std::move(corpus)));
}

}  // namespace pawl::data
