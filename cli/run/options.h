// The arguments of `pawl run`. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::cli {

struct Chaos {  // kill-rank=R@S
  int rank = 0;
  std::int64_t step = 0;
  bool operator==(const Chaos&) const = default;
};

struct RunOptions {
  std::string job_file;
  std::string run_folder;  // "": pawl-runs/<job>-<time>
  std::vector<std::string> settings;
  std::vector<std::string> texts;
  std::optional<Chaos> chaos;
  bool is_quiet = false;
};

Result<RunOptions> parse_run_options(const std::vector<std::string>& arguments);

}  // namespace pawl::cli
