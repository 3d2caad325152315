// A file that is read by ranges, for model.weights. Its errors are those of a user's input: they
// begin with the key and the path. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/os/fd.h"

namespace pawl::weights {

// "model.weights: PATH: what". Invalid.
tl::unexpected<Error> wrong(const std::string& path, const std::string& what);

class InputFile {
 public:
  // Invalid when it is absent, not to be read, or not a file; Unavailable when storage failed and
  // another try may help.
  static Result<InputFile> open(const std::string& path);
  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  // Exactly out.size() bytes from `offset` on; Unavailable when there are fewer, too.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  // All of it; Invalid over 100 MB.
  Result<std::string> text() const;

 private:
  InputFile(std::string path, os::Fd fd, std::uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  std::string path_;
  os::Fd fd_;
  std::uint64_t bytes_;
};

}  // namespace pawl::weights
