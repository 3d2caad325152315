// nlohmann/json for all of our code. What every file that uses it would otherwise compile for
// itself (its classes, and a parser for each type of text) is compiled once, in json.cpp: a third
// of the time of such a file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::iter_impl<const nlohmann::json>;

namespace pawl {

// Discarded (is_discarded()) if the text is not JSON; access to a member then throws
// json::type_error.
nlohmann::json parse_json(std::string_view text);
// "" if `object` is no object, or has no text there.
std::string text_at(const nlohmann::json& object, const char* key);
// The member named `key`; null if `object` is no object, or has none.
const nlohmann::json& member_of(const nlohmann::json& object, const char* key);
// … created as an object, or as an array, where it is none.
nlohmann::json& object_at(nlohmann::json& parent, const char* key);
nlohmann::json& list_at(nlohmann::json& parent, const char* key);

}  // namespace pawl
