// Objects and lists of them as an API server writes them. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace pawl::kube {

// An object, or an event of a watch, as parse_json has it, but that metadata.managedFields may be
// empty, and was not looked into then: nobody here reads it, and it is up to a half of a pod.
nlohmann::json parse_object(std::string_view text);

// A list, whose items are looked at one after the other: a page of pods takes twenty times its text
// when all of it is parsed at once.
struct ListText {
  nlohmann::json list;     // as parse_json has it, but that its items are empty if they are in:
  std::string_view items;  // within the text: what is between their brackets
};
ListText split_list(std::string_view text);
// The next of the items, as parse_object has it, which is taken from their begin; discarded where
// there is none. What cannot be parsed is the last.
nlohmann::json next_item(std::string_view& items);

}  // namespace pawl::kube
