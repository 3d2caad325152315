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

bool has_same_content(const nlohmann::json& one, const nlohmann::json& other) {
  const auto is_content = [](const std::string& name) {
    return name != "metadata" && name != "status";
  };
  std::size_t members = 0;
  for (const auto& [name, value] : one.items()) {
    if (!is_content(name)) continue;
    ++members;
    const auto twin = other.find(name);
    if (twin == other.end() || *twin != value) return false;
  }
  for (const auto& [name, value] : other.items()) members -= is_content(name) ? 1 : 0;
  return members == 0;
}

bool has_any_finalizer(const nlohmann::json& object) {
  const auto& meta = object.at("metadata");
  return meta.contains("finalizers") && !meta.at("finalizers").empty();
}

bool has_finalizer(const nlohmann::json& object, const std::string& finalizer) {
  if (!has_any_finalizer(object)) return false;
  const auto& all = object.at("metadata").at("finalizers");
  return std::any_of(all.begin(), all.end(), [&](const nlohmann::json& one) {
    return one.is_string() && one.get_ref<const std::string&>() == finalizer;
  });
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
  nlohmann::json parsed = parse_json(body);
  if (!parsed.is_object()) {
    return tl::make_unexpected(bad_request("the body of the request is not a JSON object"));
  }
  return parsed;
}

ObjectKey key_of(const Kind& kind, const nlohmann::json& object) {
  return key_of(kind, meta_text(object, "namespace"), meta_text(object, "name"));
}

}  // namespace pawl::local
