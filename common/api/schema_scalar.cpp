#include "common/api/schema_scalar.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <utility>

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

// The patterns of our own fields in words: nobody should have to read a regular expression to learn
// what to write. A pattern that is not here is shown as it stands.
constexpr char kFileUri[] = "^file:///[^?#]*$";
constexpr std::array kPatternWords = {
    std::pair{kFileUri, "be file:///ABSOLUTE/PATH, a folder on a volume that all workers share"},
    std::pair{"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9._]+$", "be domain/name"},
};

// Only quantities have a pattern and may be numbers too.
bool is_quantity(const json& node) { return node.value("x-kubernetes-int-or-string", false); }

// What the pattern of `node` asks for.
std::string pattern_words(const json& node) {
  if (is_quantity(node)) return "be a quantity like 500m, 4 or 16Gi";
  const std::string pattern = node["pattern"].get<std::string>();
  for (const auto& [known, words] : kPatternWords) {
    if (pattern == known) return words;
  }
  return "match " + pattern;
}

// What "4GB", "4g" and "4 Gi" were probably meant to be; "" for all but a number and a unit.
std::string meant_quantity(const json& node, std::string text) {
  std::erase(text, ' ');
  if (matches(node["pattern"].get<std::string>(), text)) return text;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number = text.substr(0, digits);
  std::string unit = text.substr(digits);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::toupper(c); });
  if (unit.ends_with('B')) unit.pop_back();
  constexpr std::string_view kUnits = "KMGTPE";
  const bool is_binary = unit.size() == 2 && unit[1] == 'I';
  const bool is_unit = (unit.size() == 1 || is_binary) && kUnits.find(unit[0]) != kUnits.npos;
  if (number.empty() || !is_unit) return "";
  const std::string binary = number + unit[0] + "i";
  if (is_binary) return binary;
  // Kubernetes writes the thousand small.
  return number + (unit[0] == 'K' ? 'k' : unit[0]) + " (units of 1000) or " + binary + " (of 1024)";
}

// ": write …" where what was written tells what was meant; else "".
std::string advice_on(const json& node, const std::string& value) {
  std::string meant;
  if (is_quantity(node)) meant = meant_quantity(node, value);
  if (node["pattern"] == kFileUri && value.starts_with("/")) meant = "file://" + value;
  if (node["pattern"] == kFileUri && value.starts_with("s3://"))
    return ": s3:// is not supported by this version";
  return meant.empty() ? "" : ": write " + meant;
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
    return "must " + pattern_words(node) + written + advice_on(node, value);
  }
  if (node.value("format", "") == "date-time" && !is_date_time(value)) {
    return "must be a time like 2026-11-21T10:04:05Z" + written;
  }
  return "";
}

}  // namespace pawl::api
