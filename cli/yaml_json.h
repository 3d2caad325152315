// YAML as JSON by the core schema of YAML 1.2: what `kubectl` would send for the file. Plain `yes`
// and `0777` are a string and the number 777; quoted scalars are always strings. Refused: duplicate
// keys, keys that are no strings, numbers that JSON cannot hold, more than kYamlNodesMax nodes
// (aliases count each time). Pure; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::cli {

inline constexpr std::size_t kYamlNodesMax = 100'000;

// The documents of a file, without empty ones. An error names line and column.
Result<std::vector<nlohmann::json>> parse_yaml_documents(const std::string& text);
// One value, as in `--set key=value`.
Result<nlohmann::json> parse_yaml_value(const std::string& text);

}  // namespace pawl::cli
