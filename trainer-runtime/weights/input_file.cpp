#include "trainer-runtime/weights/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>

#include "common/os/process.h"
#include "trainer-runtime/data/dataset.h"

namespace pawl::weights {
namespace {

constexpr std::uint64_t kTextBytesMax = 100'000'000;
constexpr std::size_t kBytesPerCall = std::size_t{1} << 30;

tl::unexpected<Error> failed(const std::string& path, int error) {
  return fail(data::code_of_file_error(error),
              "model.weights: " + path + ": " + os::errno_text(error));
}

}  // namespace

tl::unexpected<Error> wrong(const std::string& path, const std::string& what) {
  return fail(Code::kInvalid, "model.weights: " + path + ": " + what);
}

Result<InputFile> InputFile::open(const std::string& path) {
  os::Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe is told, too
  struct stat about{};
  if (!fd.is_open() || ::fstat(fd.get(), &about) != 0) return failed(path, errno);
  if (!S_ISREG(about.st_mode)) return wrong(path, "is not a file");
  return InputFile(path, std::move(fd), static_cast<std::uint64_t>(about.st_size));
}

Status InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_.get(), out.data(), std::min(out.size(), kBytesPerCall),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path_, errno);
    if (got == 0) {
      return fail(Code::kUnavailable,
                  "model.weights: " + path_ + " has become shorter while it was read");
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<std::string> InputFile::text() const {
  if (bytes_ > kTextBytesMax) return wrong(path_, "is over 100 MB, which no such file is");
  std::string text(static_cast<std::size_t>(bytes_), '\0');
  PAWL_TRY_VOID(read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace pawl::weights
