#include "common/api/schema_scalar.h"

#include <algorithm>
#include <regex>

#include "common/api/json_fields.h"

namespace pawl::api {

using nlohmann::json;

namespace {

// Characters, not bytes: what the API server counts.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

// RFC 3339, with an offset too, which parse_time (our own output) does not take.
bool is_date_time(const std::string& text) {
  static const std::regex kShape(
      "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt "
      "][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})");
  return text.size() <= 64 && std::regex_match(text, kShape);
}

bool matches(const std::string& pattern, const std::string& text) {
  // libstdc++ recurses per character; nothing that has a pattern here is longer and right.
  constexpr std::size_t kMatchedCharactersMax = 4096;
  return text.size() <= kMatchedCharactersMax && std::regex_search(text, std::regex(pattern));
}

std::string range_sentence(const json& node, const std::string& written) {
  const std::string min = node.contains("minimum") ? dump(node["minimum"]) : "";
  const std::string max = node.contains("maximum") ? dump(node["maximum"]) : "";
  if (min.empty()) return "must be at most " + max + "; you wrote " + written;
  if (max.empty()) return "must be at least " + min + "; you wrote " + written;
  return "must be between " + min + " and " + max + "; you wrote " + written;
}

}  // namespace

std::string wrong_number(const json& node, const json& value) {
  const double number = value.get<double>();
  const bool is_low = node.contains("minimum") && number < node["minimum"].get<double>();
  const bool is_high = node.contains("maximum") && number > node["maximum"].get<double>();
  if (is_low || is_high) return range_sentence(node, dump(value));
  return "";
}

std::string wrong_string(const json& node, const std::string& value) {
  const std::size_t length = length_of(value);
  const std::string written = "; you wrote \"" + clip_front(value, 80) + "\"";
  if (node.contains("maxLength") && length > node["maxLength"].get<std::size_t>()) {
    return "must have at most " + dump(node["maxLength"]) + " characters; yours has " +
           std::to_string(length);
  }
  if (node.contains("minLength") && length < node["minLength"].get<std::size_t>()) {
    return "must not be empty";
  }
  const json allowed_values = node.value("enum", json::array());
  const bool is_allowed = std::ranges::any_of(allowed_values, [&](const json& item) {
    return item.get_ref<const std::string&>() == value;
  });
  if (!allowed_values.empty() && !is_allowed) {
    std::string allowed;
    for (const json& item : allowed_values) {
      allowed += (allowed.empty() ? "" : ", ") + item.get<std::string>();
    }
    return "must be one of " + allowed + written;
  }
  if (node.contains("pattern") && !matches(node["pattern"].get<std::string>(), value)) {
    return "must match " + node["pattern"].get<std::string>() + written;
  }
  if (node.value("format", "") == "date-time" && !is_date_time(value)) {
    return "must be a time like 2026-11-21T10:04:05Z" + written;
  }
  return "";
}

}  // namespace pawl::api
