#include "cli/local/api_store.h"

#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/local/api_objects.h"

namespace pawl::local {
namespace {

constexpr char kTokenGone[] =
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder "
    "of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list.";

// A continue token is opaque to clients: "<revision>/<namespace>/<name>" of the last object shown.
struct ContinueToken {
  std::uint64_t revision = 0;
  std::string ns, name;
};

std::string encode_token(std::uint64_t revision, const ObjectKey& last) {
  return std::to_string(revision) + "/" + last.ns + "/" + last.name;
}

std::optional<ContinueToken> decode_token(const std::string& text) {
  const auto first = text.find('/');
  const auto second = text.find('/', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const auto revision = parse_revision(text.substr(0, first));
  if (!revision) return std::nullopt;
  return ContinueToken{*revision, text.substr(first + 1, second - first - 1),
                       text.substr(second + 1)};
}

// Lists of built-in kinds carry no apiVersion and kind in their items; those of custom kinds do.
nlohmann::json item_of(const Kind& kind, const nlohmann::json& object) {
  nlohmann::json item = object;
  if (!kind.is_custom) {
    item.erase("kind");
    item.erase("apiVersion");
  }
  return item;
}

StatusError too_large_revision(std::uint64_t asked, std::uint64_t current) {
  StatusError error;
  error.code = 504;
  error.reason = "Timeout";
  error.message = "Too large resource version: " + std::to_string(asked) +
                  ", current: " + std::to_string(current);
  return error;
}

}  // namespace

ApiStore::ApiStore(const Clock& clock, Random random, ApiStoreOptions options)
    : clock_(clock), random_(random), store_(options.first_revision, options.history_max) {}

kube::HttpResponse ApiStore::handle(const kube::HttpRequest& request) {
  auto response = route(request);
  return response ? std::move(*response) : response_of(response.error());
}

Answer<kube::HttpResponse> ApiStore::route(const kube::HttpRequest& request) {
  const auto target = parse_target(request.target);
  if (!target) return tl::make_unexpected(unknown_path());
  const bool is_collection = target->name.empty();
  const bool is_binding = target->kind->plural == "pods" && target->subresource == "binding";
  const bool is_status = target->subresource == "status" && target->kind->has_status;
  if (!target->subresource.empty() && !is_binding && !is_status) {
    return tl::make_unexpected(unknown_path());
  }
  const auto refuse = [&](const char* verb) {
    return tl::make_unexpected(method_not_allowed(*target->kind, verb));
  };
  switch (request.method) {
    case kube::Method::kGet: {
      if (is_binding) return refuse("get");
      PAWL_ANSWER(body, is_collection ? list(*target) : get(*target));
      return response_of(200, body);
    }
    case kube::Method::kPost: {
      if (is_binding) {
        PAWL_ANSWER(body, bind(*target, request.body));
        return response_of(201, body);
      }
      if (!is_collection) return refuse("create");
      PAWL_ANSWER(body, create(*target, request.body));
      return response_of(201, body);
    }
    case kube::Method::kPatch: {
      if (is_collection || is_binding) return refuse("patch");
      PAWL_ANSWER(body, patch(*target, request));
      return response_of(200, body);
    }
    case kube::Method::kDelete: {
      if (is_collection || !target->subresource.empty()) return refuse("delete");
      PAWL_ANSWER(body, remove(*target, request.body));
      return response_of(200, body);
    }
    case kube::Method::kPut:
      break;
  }
  return refuse("update");
}

Answer<Object> ApiStore::find(const ApiTarget& target) const {
  const Object object = store_.find(key_of(*target.kind, target.ns, target.name));
  if (object == nullptr) return tl::make_unexpected(not_found(*target.kind, target.name));
  return object;
}

Answer<nlohmann::json> ApiStore::get(const ApiTarget& target) const {
  PAWL_ANSWER(object, find(target));
  return *object;
}

Answer<nlohmann::json> ApiStore::list(const ApiTarget& target) const {
  const Kind& kind = *target.kind;
  const auto selector = Selector::parse(kind, target.query_value("labelSelector"),
                                        target.query_value("fieldSelector"));
  if (!selector) return tl::make_unexpected(bad_request(selector.error().message));
  std::uint64_t revision = store_.revision();
  std::optional<ContinueToken> token;
  if (const std::string text = target.query_value("continue"); !text.empty()) {
    token = decode_token(text);
    if (!token) return tl::make_unexpected(bad_request("continue key is not valid"));
    revision = token->revision;
  } else if (const auto asked = parse_revision(target.query_value("resourceVersion"));
             asked > revision) {
    return tl::make_unexpected(too_large_revision(*asked, revision));
  }
  const auto objects = store_.objects_at(kind, revision);
  if (!objects) return tl::make_unexpected(expired(kTokenGone));

  const std::uint64_t limit = parse_revision(target.query_value("limit")).value_or(0);
  nlohmann::json items = nlohmann::json::array();
  nlohmann::json meta = {{"resourceVersion", std::to_string(revision)}};
  std::uint64_t remaining = 0;
  ObjectKey last;
  for (const auto& [key, object] : *objects) {
    if (!target.ns.empty() && key.ns != target.ns) continue;
    if (token && std::tie(key.ns, key.name) <= std::tie(token->ns, token->name)) continue;
    if (!selector->matches(*object)) continue;
    if (limit > 0 && items.size() >= limit) {
      ++remaining;
      continue;
    }
    items.push_back(item_of(kind, *object));
    last = key;
  }
  if (remaining > 0) {
    meta["continue"] = encode_token(revision, last);
    // The real server does not count what a selector would pass.
    if (selector->is_everything()) meta["remainingItemCount"] = remaining;
  }
  return nlohmann::json{{"kind", std::string{kind.name} + "List"},
                        {"apiVersion", api_version(kind)},
                        {"metadata", std::move(meta)},
                        {"items", std::move(items)}};
}

}  // namespace pawl::local
