// Which containers `pawl logs` reads, and what it says where there is nothing to read. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cluster/snapshot.h"

namespace pawl::cli {

struct LogOptions {
  std::optional<int> rank;  // none: rank 0
  bool has_all_ranks = false;
  std::optional<std::int64_t> attempt;  // none: the newest that has pods
  bool is_previous = false;             // the attempt before the present one
  bool is_following = false;
  std::optional<int> tail_lines;
};

struct LogSource {
  std::string pod, container;
  std::string
      prefix;  // in front of each line; "" where the launcher has put the rank there already
  // Several processes write to this container and only the lines of one are wanted.
  std::optional<int> only_rank;
};

struct LogChoice {
  std::vector<LogSource> sources;  // by rank
  std::string kept;    // where the pods are gone: the end of the log that the last failure kept
  std::string notice;  // for standard error: what the reader has to know, or ""
};

// NotFound if no pod of that attempt exists and no failure of it kept anything.
Result<LogChoice> choose_logs(const JobSnapshot& snapshot, const LogOptions& options);

// The part of `line` that is for the reader of `only_rank`: lines of other ranks ("[3] …") are not.
bool is_line_of(const std::string& line, int only_rank);

}  // namespace pawl::cli
