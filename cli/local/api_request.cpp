#include "cli/local/api_request.h"

#include <algorithm>

#include "common/base/json.h"

namespace pawl::local {
namespace {

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::string decode_percent(const std::string& text, bool is_query) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
        hex_digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      decoded += is_query && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

std::string trim(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// At the commas outside of parentheses.
std::vector<std::string> split_requirements(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  parts.push_back(trim(part));
  return parts;
}

std::map<std::string, std::string> parse_query(const std::string& text) {
  std::map<std::string, std::string> query;
  for (const std::string& pair : split(text, '&')) {
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    const std::string value = equals == std::string::npos ? "" : pair.substr(equals + 1);
    query.emplace(decode_percent(pair.substr(0, equals), true), decode_percent(value, true));
  }
  return query;
}

bool is_field_supported(const Kind& kind, const std::string& path) {
  if (path == "metadata.name" || path == "metadata.namespace") return true;
  return kind.plural == "pods" && (path == "spec.nodeName" || path == "status.phase");
}

// "" where it is absent or no string.
std::string_view field_of(const nlohmann::json& object, const std::vector<std::string>& path) {
  const nlohmann::json* place = &object;
  for (const std::string& step : path) {
    if (!place->is_object()) return {};
    const auto member = place->find(step);
    if (member == place->end()) return {};
    place = &*member;
  }
  return place->is_string() ? std::string_view{place->get_ref<const std::string&>()}
                            : std::string_view{};
}

}  // namespace

std::string ApiTarget::query_value(const std::string& key) const {
  const auto found = query.find(key);
  return found == query.end() ? std::string{} : found->second;
}

bool ApiTarget::is_watch() const {
  const std::string value = query_value("watch");
  return value == "true" || value == "1";
}

Result<ApiTarget> parse_target(const std::string& target) {
  ApiTarget parsed;
  const auto question = target.find('?');
  if (question != std::string::npos) parsed.query = parse_query(target.substr(question + 1));
  std::vector<std::string> parts;
  for (const std::string& part : split(target.substr(0, question), '/')) {
    if (!part.empty()) parts.push_back(decode_percent(part, false));
  }
  std::size_t next = 0;
  const auto take = [&] { return next < parts.size() ? parts[next++] : std::string{}; };
  const std::string root = take();
  const std::string group = root == "apis" ? take() : std::string{};
  const std::string version = take();
  std::string plural = take();
  if (plural == "namespaces" && parts.size() - next >= 2) {
    parsed.ns = take();
    plural = take();
  }
  parsed.name = take();
  parsed.subresource = take();
  if (root == "api" || root == "apis") parsed.kind = find_kind(group, version, plural);
  const bool is_nameless = parsed.ns.empty() && !parsed.name.empty();
  if (parsed.kind == nullptr || next < parts.size() || is_nameless) {
    return fail(Code::kNotFound, "the server could not find the requested resource");
  }
  return parsed;
}

Result<Selector::Requirement> Selector::parse_requirement(const std::string& text) {
  Requirement requirement;
  const auto invalid = [&] { return fail(Code::kInvalid, "unable to parse requirement: " + text); };
  if (text.empty()) return invalid();
  const auto open = text.find('(');
  if (open != std::string::npos) {
    if (text.back() != ')') return invalid();
    const std::string head = trim(text.substr(0, open));
    const auto space = head.find_last_of(' ');
    if (space == std::string::npos) return invalid();
    const std::string verb = head.substr(space + 1);
    if (verb != "in" && verb != "notin") return invalid();
    requirement.key = trim(head.substr(0, space));
    requirement.is_negated = verb == "notin";
    for (const std::string& value : split(text.substr(open + 1, text.size() - open - 2), ',')) {
      requirement.values.push_back(trim(value));
    }
    return requirement;
  }
  const auto equals = text.find('=');
  if (equals == std::string::npos) {
    requirement.is_presence = true;
    requirement.is_negated = text.front() == '!';
    requirement.key = trim(requirement.is_negated ? text.substr(1) : text);
    return requirement;
  }
  requirement.is_negated = equals > 0 && text[equals - 1] == '!';
  requirement.key = trim(text.substr(0, equals - (requirement.is_negated ? 1 : 0)));
  const bool is_double = equals + 1 < text.size() && text[equals + 1] == '=';
  requirement.values.push_back(trim(text.substr(equals + (is_double ? 2 : 1))));
  if (requirement.key.empty()) return invalid();
  return requirement;
}

Result<Selector> Selector::parse(const Kind& kind, const std::string& labels,
                                 const std::string& fields) {
  Selector selector;
  if (!trim(labels).empty()) {
    for (const std::string& text : split_requirements(labels)) {
      PAWL_TRY(requirement, parse_requirement(text));
      selector.labels_.push_back(std::move(requirement));
    }
  }
  if (trim(fields).empty()) return selector;
  for (const std::string& text : split(fields, ',')) {
    PAWL_TRY(requirement, parse_requirement(trim(text)));
    if (requirement.is_presence || requirement.values.size() != 1) {
      return fail(Code::kInvalid, "invalid field selector \"" + fields + "\"");
    }
    if (!is_field_supported(kind, requirement.key)) {
      return fail(Code::kInvalid, "field label not supported: " + requirement.key);
    }
    selector.fields_.push_back(
        {split(requirement.key, '.'), requirement.values.front(), requirement.is_negated});
  }
  return selector;
}

bool Selector::matches(const nlohmann::json& object) const {
  static const nlohmann::json none = nlohmann::json::object();
  if (is_everything()) return true;
  const nlohmann::json& meta = object.at("metadata");
  const auto found = meta.find("labels");
  const nlohmann::json& labels = found == meta.end() ? none : *found;
  for (const Requirement& requirement : labels_) {
    const auto label = labels.find(requirement.key);
    const bool has_label = label != labels.end();
    bool is_match = has_label;
    if (!requirement.is_presence && has_label) {
      const auto& values = requirement.values;
      is_match = std::find(values.begin(), values.end(), label->get_ref<const std::string&>()) !=
                 values.end();
    }
    if (is_match == requirement.is_negated) return false;
  }
  return std::all_of(fields_.begin(), fields_.end(), [&](const FieldRequirement& requirement) {
    return (field_of(object, requirement.path) == requirement.value) != requirement.is_negated;
  });
}

}  // namespace pawl::local
