#include "sequence_side.h"

#include <array>

#include "common/kube/requests.h"

namespace pawl::conformance {

using nlohmann::json;

namespace {

constexpr char kUnknownUid[] = "00000000-0000-4000-8000-00000000dead";

std::string text_at(const json& object, const char* pointer) {
  const json::json_pointer place(pointer);
  if (!object.is_object() || !object.contains(place)) return "";
  const json& value = object.at(place);
  return value.is_string() ? value.get<std::string>() : "";
}

// The parts of the path behind "/namespaces/{ns}/".
std::string behind_namespace(const std::string& target) {
  const std::string path = target.substr(0, target.find('?'));
  const auto at = path.find("/namespaces/");
  const auto slash = at == std::string::npos ? at : path.find('/', at + 12);
  return slash == std::string::npos ? "" : path.substr(slash + 1);
}

}  // namespace

std::string plural_of(const std::string& target) {
  const std::string rest = behind_namespace(target);
  return rest.substr(0, rest.find('/'));
}

std::string name_of(const std::string& target) {
  const std::string rest = behind_namespace(target);
  const auto slash = rest.find('/');
  if (slash == std::string::npos) return "";
  return rest.substr(slash + 1, rest.find('/', slash + 1) - slash - 1);
}

std::uint64_t revision_of(const json& object) {
  const std::string text = text_at(object, "/metadata/resourceVersion");
  return text.empty() ? 0 : std::stoull(text);
}

Reply Side::call(const Step& step) {
  kube::HttpRequest request{.method = step.method,
                            .target = resolve(step.target),
                            .content_type = step.content_type,
                            .body = resolve(step.body)};
  Reply reply = perform(request);
  remember(step, reply);
  return reply;
}

std::string Side::resolve(const std::string& text) {
  constexpr std::array<std::string_view, 6> kWords = {"ns",    "uid",      "rv",
                                                      "stale", "continue", "listrv"};
  std::string resolved;
  for (std::size_t at = 0; at < text.size();) {
    bool is_known = false;
    for (const std::string_view word : kWords) {
      if (text.compare(at + 1, word.size(), word) != 0 || text[at] != '{') continue;
      const auto end = text.find('}', at);
      const char next = text[at + 1 + word.size()];
      if (next != ':' && next != '}') continue;
      const auto colon = at + 1 + word.size();
      const std::string argument = next == ':' ? text.substr(colon + 1, end - colon - 1) : "";
      resolved += value_of(std::string(word), argument);
      at = end + 1;
      is_known = true;
      break;
    }
    if (!is_known) resolved += text[at++];
  }
  return resolved;
}

std::string Side::value_of(const std::string& word, const std::string& argument) {
  const auto find = [&](const std::map<std::string, std::string>& map, const char* fallback) {
    const auto found = map.find(argument);
    return found == map.end() ? std::string(fallback) : found->second;
  };
  if (word == "ns") return ns_;
  if (word == "uid") return find(uids_, kUnknownUid);
  if (word == "stale") return find(first_versions_, "1");
  if (word == "continue") return kube::encode_query(find(tokens_, ""));
  if (word == "listrv") return find(list_versions_, "");
  const auto slash = argument.find('/');
  kube::HttpRequest request;
  request.target = resolve(collection_path(argument.substr(0, slash)) + argument.substr(slash));
  const std::string version = text_at(perform(request).body, "/metadata/resourceVersion");
  return version.empty() ? "1" : version;
}

void Side::remember(const Step& step, const Reply& reply) {
  if (reply.status / 100 != 2) return;
  const std::string plural = plural_of(step.target);
  const std::string version = text_at(reply.body, "/metadata/resourceVersion");
  if (reply.body.contains("items")) {
    list_versions_[plural] = version;
    const std::string token = text_at(reply.body, "/metadata/continue");
    if (!token.empty()) tokens_[plural] = token;
    return;
  }
  if (step.method != kube::Method::kPost || version.empty()) return;
  const std::string key = plural + "/" + text_at(reply.body, "/metadata/name");
  uids_[key] = text_at(reply.body, "/metadata/uid");
  first_versions_[key] = version;
}

std::vector<Event> Side::replay(const Replay& replay) {
  std::vector<Event> before = events();
  std::erase_if(before, [&](const Event& event) {
    return event.plural != replay.plural || event.is_bookkeeping;
  });
  const std::size_t from = std::min(replay.from, before.size());
  // From before the first event: where the namespace was still empty.
  const std::uint64_t version =
      from == 0 ? revision_of(before.at(0).object) - 1 : revision_of(before[from - 1].object);
  return watch(replay.plural, resolve(collection_path(replay.plural)) +
                                  "?watch=true&timeoutSeconds=20&resourceVersion=" +
                                  std::to_string(version) + "&" + replay.selector);
}

}  // namespace pawl::conformance
