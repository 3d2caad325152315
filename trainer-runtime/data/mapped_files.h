// Files one behind the other as one array of bytes, mapped and not read until somebody looks.
// Immutable once all are added; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::data {

class MappedFiles {
 public:
  MappedFiles() = default;
  MappedFiles(MappedFiles&&) noexcept = default;
  MappedFiles& operator=(MappedFiles&&) = delete;
  ~MappedFiles();

  // A file, or all of a folder. Invalid with the path when one is missing; Unavailable when storage
  // failed and another try may help.
  Status add(const std::string& path);
  std::uint64_t bytes() const { return bytes_; }
  // Bytes [first, first + out.size()) of all.
  void copy(std::uint64_t first, std::span<unsigned char> out) const;

  struct File {
    std::string path;
    std::uint64_t first = 0, bytes = 0;  // in all of them
    const unsigned char* memory = nullptr;
  };
  const std::vector<File>& files() const { return files_; }  // that are not empty
  // The file that holds byte `at`, which is below bytes().
  const File& file_of(std::uint64_t at) const;

 private:
  Status add_file(const std::string& path);

  std::vector<File> files_;
  std::uint64_t bytes_ = 0;
};

}  // namespace pawl::data
