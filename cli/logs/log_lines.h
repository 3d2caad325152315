// Pieces of several logs on their way to one output: whole lines only, each with its source's
// prefix, lines of other ranks left out. One thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/logs/log_choice.h"

namespace pawl::cli {

class LogLines {
 public:
  explicit LogLines(std::vector<LogSource> sources)
      : sources_(std::move(sources)), rests_(sources_.size()) {}

  // The lines that `bytes` complete.
  std::string add(std::size_t source, std::string_view bytes);
  // What came last without a line's end.
  std::string finish(std::size_t source);

 private:
  std::string line(std::size_t source, std::string text) const;

  std::vector<LogSource> sources_;
  std::vector<std::string> rests_;
};

}  // namespace pawl::cli
