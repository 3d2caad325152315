#include "cli/local/api_objects.h"

#include <algorithm>
#include <charconv>

namespace pawl::local {

std::string text_of(const nlohmann::json& object, const char* field) {
  if (!object.is_object()) return {};
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::string meta_text(const nlohmann::json& object, const char* field) {
  const auto meta = object.find("metadata");
  return meta == object.end() ? std::string{} : text_of(*meta, field);
}

nlohmann::json content_of(const nlohmann::json& object) {
  nlohmann::json content = object;
  content.erase("metadata");
  content.erase("status");
  return content;
}

bool has_any_finalizer(const nlohmann::json& object) {
  const auto& meta = object.at("metadata");
  return meta.contains("finalizers") && !meta.at("finalizers").empty();
}

bool has_finalizer(const nlohmann::json& object, const std::string& finalizer) {
  if (!has_any_finalizer(object)) return false;
  const auto& all = object.at("metadata").at("finalizers");
  return std::find(all.begin(), all.end(), nlohmann::json(finalizer)) != all.end();
}

void drop_finalizer(nlohmann::json& object, const std::string& finalizer) {
  if (!has_finalizer(object, finalizer)) return;
  auto& all = object["metadata"]["finalizers"];
  all.erase(std::find(all.begin(), all.end(), nlohmann::json(finalizer)));
  if (all.empty()) object["metadata"].erase("finalizers");
}

bool is_deleting(const nlohmann::json& object) {
  return object.at("metadata").contains("deletionTimestamp");
}

void raise_generation(nlohmann::json& object) {
  auto& meta = object["metadata"];
  const std::int64_t generation = meta.value("generation", std::int64_t{0});
  if (generation > 0) meta["generation"] = generation + 1;
}

std::optional<std::uint64_t> parse_revision(const std::string& text) {
  std::uint64_t revision = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, revision);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return revision;
}

Answer<nlohmann::json> parse_body(const std::string& body) {
  nlohmann::json parsed = nlohmann::json::parse(body, nullptr, false);
  if (!parsed.is_object()) {
    return tl::make_unexpected(bad_request("the body of the request is not a JSON object"));
  }
  return parsed;
}

Verdict check_metadata(const nlohmann::json& object) {
  const auto refuse = [](const std::string& field, const char* shape) {
    return tl::make_unexpected(bad_request("metadata." + field + ": must be " + shape));
  };
  const auto& meta = object.at("metadata");
  if (!meta.is_object()) return tl::make_unexpected(bad_request("metadata: must be an object"));
  const auto is_text = [](const nlohmann::json& value) { return value.is_string(); };
  for (const char* field : {"labels", "annotations"}) {
    if (!meta.contains(field)) continue;
    const auto& map = meta.at(field);
    if (!map.is_object() || !std::all_of(map.begin(), map.end(), is_text))
      return refuse(field, "a map of strings");
  }
  if (meta.contains("finalizers")) {
    const auto& list = meta.at("finalizers");
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_text))
      return refuse("finalizers", "a list of strings");
  }
  if (meta.contains("ownerReferences")) {
    const auto& list = meta.at("ownerReferences");
    const auto is_object = [](const nlohmann::json& value) { return value.is_object(); };
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_object))
      return refuse("ownerReferences", "a list of objects");
  }
  return {};
}

ObjectKey key_of(const Kind& kind, const nlohmann::json& object) {
  return key_of(kind, meta_text(object, "namespace"), meta_text(object, "name"));
}

}  // namespace pawl::local
