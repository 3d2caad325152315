// Reads what a client asks of the embedded API: the path, the query and the selectors. Pure
// functions of text; any thread. The authorization in api_server.cpp and the store use the same
// reading, so that they cannot disagree.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/local/kinds.h"
#include "common/base/result.h"
#include "common/kube/transport.h"

namespace pawl::local {

struct ApiTarget {
  const Kind* kind = nullptr;
  std::string ns;    // "" : all namespaces (lists and watches)
  std::string name;  // "" : the collection
  std::string subresource;
  std::map<std::string, std::string> query;  // decoded

  std::string query_value(const std::string& key) const;
  bool is_watch() const;  // watch=true or watch=1
};

// NotFound for a path that this API does not serve.
Result<ApiTarget> parse_target(const std::string& target);

// "a=b,c!=d,e in (f,g),h notin (i),j,!k" on labels; "metadata.name=x" and a few more on fields.
class Selector {
 public:
  static Result<Selector> parse(const Kind& kind, const std::string& labels,
                                const std::string& fields);
  bool matches(const nlohmann::json& object) const;
  bool is_everything() const { return labels_.empty() && fields_.empty(); }

 private:
  struct Requirement {
    std::string key;
    std::vector<std::string> values;
    bool is_negated = false;   // !=, notin, !key
    bool is_presence = false;  // key, !key
  };
  struct FieldRequirement {
    std::vector<std::string> path;  // metadata, name
    std::string value;
    bool is_negated = false;
  };
  static Result<Requirement> parse_requirement(const std::string& text);
  std::vector<Requirement> labels_;
  std::vector<FieldRequirement> fields_;
};

}  // namespace pawl::local
