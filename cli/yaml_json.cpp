#include "cli/yaml_json.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/base/json.h"

namespace pawl::cli {
namespace {

constexpr char kPlainTag[] = "?";
constexpr int kDepthMax = 100;

std::string place_of(const YAML::Mark& mark) {
  return "line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1);
}

// What a tab in the indentation leads to depends on what stands before it, and the parser's words
// for most of it ("illegal map value") do not name the tab.
bool is_indented_by_tab(const std::string& text, int line) {
  std::size_t begin = 0;
  for (; line > 0 && begin != std::string::npos; --line) {
    begin = text.find('\n', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (line != 0 || begin == std::string::npos) return false;
  const std::size_t end = text.find_first_not_of(" \t", begin);
  return text.substr(begin, end - begin).find('\t') != std::string::npos;
}

std::string describe(const YAML::Exception& error, const std::string& text) {
  if (is_indented_by_tab(text, error.mark.line)) {
    return "line " + std::to_string(error.mark.line + 1) +
           ": is indented by a tab, which YAML does not allow: write spaces";
  }
  return place_of(error.mark) + ": " + error.msg;
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return text == word; });
}

// As kubectl reads YAML: 1.1, where 0644 is octal.
std::optional<std::int64_t> parse_integer(const std::string& text) {
  int base = 10;
  std::string digits = text;
  const bool is_negative = !digits.empty() && digits.front() == '-';
  if (is_negative || (!digits.empty() && digits.front() == '+')) digits.erase(0, 1);
  if (digits.size() > 1 && digits.front() == '0') {
    const char letter = digits[1];
    base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
    digits.erase(0, letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1);
  }
  if (!digits.empty() && (digits.front() == '-' || digits.front() == '+')) return std::nullopt;
  if (is_negative) digits.insert(digits.begin(), '-');
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
std::optional<double> parse_float(const std::string& text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - from;
  };
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  std::size_t count = digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    count += digits();
  }
  if (count == 0) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (digits() == 0) return std::nullopt;
  }
  if (at != text.size()) return std::nullopt;
  double value = 0;
  const char* begin = text.data() + (text.front() == '+' ? 1 : 0);
  const auto [stop, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

class Converter {
 public:
  Result<nlohmann::json> convert(const YAML::Node& node, int depth) {
    if (++nodes_ > kYamlNodesMax || depth > kDepthMax) {
      return fail(Code::kInvalid, place_of(node.Mark()) + ": too large or too deeply nested");
    }
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return nlohmann::json(nullptr);
      case YAML::NodeType::Scalar:
        return scalar(node);
      case YAML::NodeType::Sequence: {
        nlohmann::json list = nlohmann::json::array();
        for (const YAML::Node& item : node) {
          PAWL_TRY(value, convert(item, depth + 1));
          list.push_back(std::move(value));
        }
        return list;
      }
      case YAML::NodeType::Map:
        return map(node, depth);
    }
    return nlohmann::json(nullptr);
  }

 private:
  Result<nlohmann::json> map(const YAML::Node& node, int depth) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& entry : node) {
      const std::string place = place_of(entry.first.Mark());
      if (!entry.first.IsScalar()) return fail(Code::kInvalid, place + ": a key must be a string");
      const std::string key = entry.first.Scalar();
      if (object.contains(key))
        return fail(Code::kInvalid, place + ": key \"" + key + "\" is given twice");
      PAWL_TRY(value, convert(entry.second, depth + 1));
      object[key] = std::move(value);
    }
    return object;
  }

  Result<nlohmann::json> scalar(const YAML::Node& node) {
    const std::string text = node.Scalar();
    if (node.Tag() != kPlainTag) return nlohmann::json(text);
    if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return nlohmann::json(nullptr);
    // The words of YAML 1.1, which kubectl takes for booleans.
    if (is_one_of(text,
                  {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})) {
      return nlohmann::json(true);
    }
    if (is_one_of(text,
                  {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})) {
      return nlohmann::json(false);
    }
    std::string digits = text;
    if (text.front() != '.' && text.front() != '_') std::erase(digits, '_');
    if (const auto integer = parse_integer(digits)) return nlohmann::json(*integer);
    if (const auto number = parse_float(digits)) return nlohmann::json(*number);
    if (is_one_of(text, {".inf", "-.inf", "+.inf", ".Inf", "-.Inf", ".INF", "-.INF", ".nan", ".NaN",
                         ".NAN"})) {
      return fail(Code::kInvalid,
                  place_of(node.Mark()) + ": " + text + " cannot be written in JSON");
    }
    return nlohmann::json(text);
  }

  std::size_t nodes_ = 0;
};

}  // namespace

Result<std::vector<nlohmann::json>> parse_yaml_documents(const std::string& text) {
  std::vector<nlohmann::json> documents;
  try {
    Converter converter;
    for (const YAML::Node& node : YAML::LoadAll(text)) {
      PAWL_TRY(document, converter.convert(node, 0));
      if (!document.is_null()) documents.push_back(std::move(document));
    }
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalid, describe(error, text));
  }
  return documents;
}

Result<nlohmann::json> parse_yaml_value(const std::string& text) {
  try {
    return Converter{}.convert(YAML::Load(text), 0);
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalid, "\"" + text + "\" is no YAML value: " + error.msg);
  }
}

}  // namespace pawl::cli
