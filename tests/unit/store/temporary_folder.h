// A folder of its own for a test on the real file system; removed with everything in it. Tests
// only.
#pragma once

#include <filesystem>
#include <string>

#include "common/os/process.h"

namespace pawl::store {

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() / ("pawl-test-" + os::random_hex(8))) {
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace pawl::store
