// A folder that goes with the test, a small text in it, and a small model to train on that.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/base/random.h"
#include "common/os/process.h"
#include "trainer-runtime/include/pawl/config.h"

namespace pawl::test {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("pawl-trainer-" + os::random_hex(8))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Words drawn by a fixed rule: a model learns something from it in a few steps.
inline std::string small_text(std::size_t bytes) {
  const char* const words[] = {"the ", "river ",   "runs ", "under ",
                               "a ",   "bridge, ", "and ",  "rain\n"};
  Random random(11);
  std::string text;
  while (text.size() < bytes) text += words[random.below(8)];
  return text.substr(0, bytes);
}

inline TrainerConfig small_config(const std::string& path) {
  TrainerConfig config;
  config.model = {
      .kind = "gpt", .layers = 2, .heads = 2, .channels = 32, .context = 32, .vocabulary = 256};
  config.data.paths = {path};
  // Even: equal numbers of ranks give equal bits, however busy the machine is.
  config.batch = {12, 2, "even"};
  config.optimizer.learning_rate = 3e-3;
  config.schedule.warmup_steps = 5;
  config.steps = 50;
  config.validate_batches = 4;
  return config;
}

}  // namespace pawl::test
