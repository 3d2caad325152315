#include "operator/placement/levels.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "common/api/contract.h"

namespace pawl::placement {

using api::kHostLevel;

Result<Levels> Levels::parse(const std::string& text) {
  Levels levels;
  if (text == "nodes") return levels;
  static const std::regex kLevel(
      R"((([a-z]([a-z0-9-]*[a-z0-9])?)=)?((([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)))");
  std::stringstream stream(text.empty() ? "," : text);
  for (std::string level; std::getline(stream, level, ',');) {
    std::smatch parts;
    const bool is_level = std::regex_match(level, parts, kLevel);
    const std::string label = parts[4], own = parts[2];  // "" where there are none
    const std::string name = own.empty() ? label : own;
    if (!is_level || levels.depth_of(label) || levels.depth_of(name)) {
      return fail(Code::kInvalid,
                  "must be \"nodes\", or the keys of nodes' labels from coarse to fine with commas "
                  "between them, each once, with NAME= before one to give it a name (rack=…), not "
                  "\"" +
                      text + "\"");
    }
    levels.names_.push_back(name);
    levels.labels_.push_back(label);
  }
  return levels;
}

std::optional<int> Levels::depth_of(const std::string& level) const {
  if (level == kHostLevel || level == api::kLabelHostname) return host_depth();
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    if (names_[i] == level || labels_[i] == level) return static_cast<int>(i) + 1;
  }
  return std::nullopt;
}

std::string Levels::name_at(int depth) const {
  if (depth == 0) return "";
  return depth == host_depth() ? kHostLevel : names_[static_cast<std::size_t>(depth) - 1];
}

}  // namespace pawl::placement
