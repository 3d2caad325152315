#include "common/kube/object_text.h"

#include <algorithm>
#include <string>

#include "common/base/json.h"

namespace pawl::kube {
namespace {

// The position after the array or object that begins at `at`; npos if it has no end.
std::size_t end_of(std::string_view text, std::size_t at) {
  int depth = 0;
  bool is_text = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (is_text) {
      if (c == '\\') ++at;
      is_text = c != '"';
    } else if (c == '"') {
      is_text = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

nlohmann::json parse_object(std::string_view text) {
  // A server writes metadata before spec, and objects that a user wrote are after it. Quotes within
  // a text have a backslash before them, so this is the name of a member.
  constexpr std::string_view kMember = ",\"managedFields\":[";
  const std::size_t member = text.substr(0, text.find("\"spec\":")).find(kMember);
  if (member == std::string_view::npos) return parse_json(text);
  const std::size_t begin = member + kMember.size() - 1, end = end_of(text, begin);
  if (end == std::string_view::npos) return parse_json(text);
  std::string rest;
  rest.reserve(text.size() - (end - begin) + 2);
  rest.append(text.substr(0, begin)).append("[]").append(text.substr(end));
  return parse_json(rest);
}

// At the end, where a proxy may have put some.
std::string_view without_blanks(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

ListText split_list(std::string_view text) {
  // What stands before the items has no such member, and no text has quotes without a backslash.
  constexpr std::string_view kMember = "\"items\":[";
  const std::size_t member = text.find(kMember);
  if (member == std::string_view::npos) return {parse_json(text), {}};
  const std::size_t begin = member + kMember.size() - 1, end = end_of(text, begin);
  if (end == std::string_view::npos) return {parse_json(text), {}};
  std::string rest{text.substr(0, begin)};
  rest.append("[]").append(text.substr(end));
  return {parse_json(rest), without_blanks(text.substr(begin + 1, end - begin - 2))};
}

nlohmann::json next_item(std::string_view& items) {
  const std::size_t begin = items.find('{');
  const std::size_t end = begin == std::string_view::npos ? begin : end_of(items, begin);
  const std::string_view item =
      end == std::string_view::npos ? "" : items.substr(begin, end - begin);
  items = without_blanks(items.substr(std::min(end, items.size())));
  return parse_object(item);
}

}  // namespace pawl::kube
