// The arguments of one command: flags from a table, everything else is a word. For the commands
// that read a cluster and for `pawl convert`. `--name value`, `--name=value`, `-n value` and
// `-nvalue` are the same. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::cli {

struct Flag {
  const char* name;             // "--namespace"
  const char* short_name = "";  // "-n", or none
  bool has_value = true;
};

class Arguments {
 public:
  // Invalid, with what to change: an unknown flag, a flag without its value, one given twice.
  static Result<Arguments> parse(const std::vector<std::string>& given,
                                 const std::vector<Flag>& flags);

  const std::vector<std::string>& words() const { return words_; }
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string value(const std::string& name) const;  // "" if the flag was not given
  // Invalid unless it is a whole number from 0 to `max`.
  Result<int> number(const std::string& name, int max) const;

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::string> values_;  // by long name
};

}  // namespace pawl::cli
