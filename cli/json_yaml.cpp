#include "cli/json_yaml.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "common/base/json.h"

namespace pawl::cli {
namespace {

using nlohmann::json;

// Words that some YAML takes for a boolean or a null.
constexpr std::array kWords = {"true", "false", "yes",  "no",  "on", "off",
                               "y",    "n",     "null", "nan", "inf"};

bool is_plain(const std::string& text) {
  constexpr std::string_view kInside =
      "._/-+@%=";  // ':' only before a character that cannot end a key
  if (text.empty() ||
      (std::isalpha(static_cast<unsigned char>(text.front())) == 0 && text.front() != '/')) {
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool is_colon = c == ':' && i + 1 < text.size() &&
                          std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0;
    if (std::isalnum(c) == 0 && kInside.find(static_cast<char>(c)) == std::string_view::npos &&
        !is_colon)
      return false;
  }
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::none_of(kWords, [&](const char* word) { return lower == word; });
}

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// A block keeps a script readable; its first line must not begin with a blank, nothing in it may
// need an escape.
bool is_block(const std::string& text) {
  const bool has_lines = text.find('\n') != std::string::npos && text.find_first_not_of('\n') == 0;
  return has_lines && text.front() != ' ' && text.front() != '\t' &&
         std::ranges::all_of(text, [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return c == '\n' || (byte >= 0x20 && byte < 0x7f);
         });
}

void write(const json& value, std::size_t indent, std::string& out);

void write_block(const std::string& text, std::size_t indent, std::string& out) {
  const std::size_t last = text.find_last_not_of('\n');
  const std::size_t breaks = text.size() - last - 1;
  out += breaks == 0 ? "|-\n" : breaks == 1 ? "|\n" : "|+\n";
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out += std::string(indent, ' ') + text.substr(at, end - at);
    out += "\n";
    at = end + 1;
  }
}

// What stands behind "key:" or "-".
void write_value(const json& value, std::size_t indent, std::string& out, bool is_in_list) {
  if (value.is_object() && !value.empty() && is_in_list) {
    std::string inner;
    write(value, indent, inner);
    out += " " + inner.substr(indent);
    return;
  }
  if (value.is_structured() && !value.empty()) {
    out += "\n";
    write(value, value.is_array() && !is_in_list ? indent - 2 : indent, out);
    return;
  }
  out += " ";
  if (value.is_string() && is_block(value.get_ref<const std::string&>())) {
    return write_block(value.get_ref<const std::string&>(), indent, out);
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    out += is_plain(text) ? text : quoted(text);
  } else {
    out += value.dump();
  }
  out += "\n";
}

void write(const json& value, std::size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      out += margin + (is_plain(key) ? key : quoted(key)) + ":";
      write_value(child, indent + 2, out, false);
    }
  } else if (value.is_array()) {
    for (const json& child : value) {
      out += margin + "-";
      write_value(child, indent + 2, out, true);
    }
  }
}

}  // namespace

std::string write_yaml(const json& value) {
  std::string out;
  if (value.is_structured() && !value.empty()) {
    write(value, 0, out);
  } else {
    write_value(value, 0, out, false);
    out.erase(0, 1);
  }
  return out;
}

}  // namespace pawl::cli
