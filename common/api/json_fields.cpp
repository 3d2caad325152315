#include "common/api/json_fields.h"

#include <utility>

namespace pawl::api {

using nlohmann::json;

namespace {

const char* type_word(json::value_t type) {
  switch (type) {
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "a list";
    case json::value_t::string:
      return "a string";
    case json::value_t::boolean:
      return "true or false";
    default:
      return "another type";
  }
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

Fields::Fields(const json& object, std::string path, std::optional<Error>& error)
    : object_(object), path_(std::move(path)), error_(error) {
  if (!object_.is_object()) set_error(path_, "must be an object");
}

std::string Fields::path_of(const char* name) const {
  return path_.empty() ? name : path_ + "." + name;
}

void Fields::set_error(const std::string& path, const std::string& what) {
  if (!error_)
    error_ = Error{Code::kInvalid, path.empty() ? what : path + ": " + what, std::nullopt};
}

const json* Fields::find_any(const char* name) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const json* Fields::find(const char* name, json::value_t type) {
  const json* value = find_any(name);
  if (value == nullptr || value->type() == type) return value;
  set_error(path_of(name), std::string("must be ") + type_word(type));
  return nullptr;
}

bool Fields::has(const char* name) const { return find_any(name) != nullptr; }

std::optional<std::int64_t> Fields::integer_of(const json& value, const std::string& path,
                                               std::int64_t min, std::int64_t max) {
  if (!value.is_number_integer()) {
    set_error(path, "must be an integer");
    return std::nullopt;
  }
  // Numbers above the int64 range are unsigned in nlohmann's representation.
  const bool is_huge =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(max);
  if (is_huge || value.get<std::int64_t>() < min || value.get<std::int64_t>() > max) {
    set_error(path, "is out of range");
    return std::nullopt;
  }
  return value.get<std::int64_t>();
}

std::optional<std::int64_t> Fields::integer(const char* name, std::int64_t min, std::int64_t max) {
  const json* value = find_any(name);
  if (value == nullptr) return std::nullopt;
  return integer_of(*value, path_of(name), min, max);
}

void Fields::read(const char* name, std::string& out) {
  if (const json* value = find(name, json::value_t::string)) out = value->get<std::string>();
}

void Fields::read(const char* name, bool& out) {
  if (const json* value = find(name, json::value_t::boolean)) out = value->get<bool>();
}

void Fields::read(const char* name, int& out) {
  using Limits = std::numeric_limits<int>;
  if (const auto value = integer(name, Limits::min(), Limits::max()))
    out = static_cast<int>(*value);
}

void Fields::read(const char* name, std::int64_t& out) {
  using Limits = std::numeric_limits<std::int64_t>;
  if (const auto value = integer(name, Limits::min(), Limits::max())) out = *value;
}

void Fields::read(const char* name, std::optional<int>& out) {
  int value = 0;
  if (!has(name)) return;
  read(name, value);
  out = value;
}

void Fields::read(const char* name, std::optional<std::int64_t>& out) {
  std::int64_t value = 0;
  if (!has(name)) return;
  read(name, value);
  out = value;
}

void Fields::read(const char* name, std::optional<TimePoint>& out) {
  const json* value = find(name, json::value_t::string);
  if (value == nullptr) return;
  const Result<TimePoint> time = parse_time(value->get_ref<const std::string&>());
  if (time) {
    out = *time;
  } else {
    set_error(path_of(name), time.error().message);
  }
}

void Fields::read(const char* name, std::map<std::string, std::string>& out) {
  const json* object = find(name, json::value_t::object);
  if (object == nullptr) return;
  for (const auto& [key, value] : object->items()) {
    if (value.is_string()) {
      out[key] = value.get<std::string>();
    } else {
      set_error(path_of(name) + "." + key, "must be a string");
    }
  }
}

void Fields::read(const char* name, std::map<std::string, int>& out) {
  const json* object = find(name, json::value_t::object);
  if (object == nullptr) return;
  using Limits = std::numeric_limits<int>;
  for (const auto& [key, value] : object->items()) {
    const auto number = integer_of(value, path_of(name) + "." + key, Limits::min(), Limits::max());
    if (number) out[key] = static_cast<int>(*number);
  }
}

void Fields::read(const char* name, std::vector<std::string>& out) {
  const json* list = find(name, json::value_t::array);
  if (list == nullptr) return;
  out.clear();
  for (const json& item : *list) {
    if (!item.is_string()) return set_error(path_of(name), "must be a list of strings");
    out.push_back(item.get<std::string>());
  }
}

void Fields::read(const char* name, std::vector<int>& out) {
  const json* list = find(name, json::value_t::array);
  if (list == nullptr) return;
  out.clear();
  for (const json& item : *list) {
    const auto value = integer_of(item, path_of(name), std::numeric_limits<int>::min(),
                                  std::numeric_limits<int>::max());
    if (value) out.push_back(static_cast<int>(*value));
  }
}

void Fields::read_auto(const char* name, std::optional<int>& out) {
  const json* value = find_any(name);
  if (value == nullptr) return;
  if (value->is_string() && value->get_ref<const std::string&>() == "auto") {
    out.reset();
  } else if (value->is_number_integer()) {
    read(name, out);
  } else {
    set_error(path_of(name), "must be an integer or \"auto\"");
  }
}

void Fields::read_quantity(const char* name, std::string& out) {
  const json* value = find_any(name);
  if (value == nullptr) return;
  if (value->is_string()) {
    out = value->get<std::string>();
  } else if (value->is_number_integer()) {
    out = std::to_string(value->get<std::int64_t>());
  } else {
    set_error(path_of(name), "must be a quantity");
  }
}

void Fields::read_object_text(const char* name, std::string& out) {
  if (const json* value = find(name, json::value_t::object)) out = dump(*value);
}

void put(json& object, const char* name, const std::string& value) {
  if (!value.empty()) object[name] = value;
}

void put(json& object, const char* name, const std::optional<int>& value) {
  if (value) object[name] = *value;
}

void put(json& object, const char* name, const std::optional<std::int64_t>& value) {
  if (value) object[name] = *value;
}

void put(json& object, const char* name, const std::optional<TimePoint>& value) {
  if (value) object[name] = format_time(*value);
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string clip_front(const std::string& text, std::size_t max) {
  if (text.size() <= max) return text;
  std::size_t end = max;
  while (end > 0 && is_continuation(text[end])) --end;
  return text.substr(0, end);
}

std::string clip_back(const std::string& text, std::size_t max) {
  if (text.size() <= max) return text;
  std::size_t begin = text.size() - max;
  while (begin < text.size() && is_continuation(text[begin])) ++begin;
  return text.substr(begin);
}

}  // namespace pawl::api
