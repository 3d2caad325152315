#include "common/base/json.h"

template class nlohmann::basic_json<>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::iter_impl<const nlohmann::json>;

namespace pawl {

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const nlohmann::json& member_of(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNothing : *found;
}

nlohmann::json& object_at(nlohmann::json& parent, const char* key) {
  nlohmann::json& value = parent[key];
  if (!value.is_object()) value = nlohmann::json::object();
  return value;
}

nlohmann::json& list_at(nlohmann::json& parent, const char* key) {
  nlohmann::json& value = parent[key];
  if (!value.is_array()) value = nlohmann::json::array();
  return value;
}

}  // namespace pawl
