#include "cli/local/api_store.h"

#include "cli/local/api_objects.h"
#include "common/base/json.h"

namespace pawl::local {

ApiStore::ApiStore(const Clock& clock, Random random, ApiStoreOptions options)
    : clock_(clock), random_(random), store_(options.first_revision, options.history_max) {}

kube::HttpResponse ApiStore::handle(const kube::HttpRequest& request) {
  auto response = route(request);
  return response ? std::move(*response) : response_of(response.error());
}

Answer<kube::HttpResponse> ApiStore::route(const kube::HttpRequest& request) {
  const auto target = parse_target(request.target);
  if (!target) return tl::make_unexpected(unknown_path());
  const Kind& kind = *target->kind;
  const std::string& part = target->subresource;
  const bool is_collection = target->name.empty();
  const bool is_binding = kind.plural == "pods" && part == "binding";
  const bool is_scale = kind.is_custom && kind.plural == "trainingjobs" && part == "scale";
  if (!part.empty() && !is_binding && !is_scale && !(part == "status" && kind.has_status)) {
    // A custom kind's path is served by a handler that begins by looking for the object.
    return tl::make_unexpected(kind.is_custom ? not_found(kind, target->name) : unknown_path());
  }
  const auto refuse = [&](const char* verb) {
    return tl::make_unexpected(method_not_allowed(kind, verb));
  };
  switch (request.method) {
    case kube::Method::kGet: {
      if (is_binding) return refuse("get");
      if (is_collection) {
        PAWL_ANSWER(text, list(*target));
        return kube::HttpResponse{200, std::move(text), {}};
      }
      PAWL_ANSWER(object, get(*target));
      return response_of_object(200, is_scale ? scale(object) : object);
    }
    case kube::Method::kPost: {
      if (is_binding) {
        PAWL_ANSWER(body, bind(*target, request.body));
        return response_of(201, body);
      }
      if (!is_collection) return refuse("create");
      PAWL_ANSWER(object, create(*target, request.body));
      return response_of_object(201, object);
    }
    case kube::Method::kPatch: {
      if (is_collection && kind.is_custom)
        return tl::make_unexpected(bad_request("name must be provided"));
      if (is_collection || is_binding) return refuse("patch");
      PAWL_ANSWER(object, patch(*target, request));
      return response_of_object(200, object);
    }
    case kube::Method::kDelete: {
      if (is_collection || !part.empty()) return refuse("delete");
      PAWL_ANSWER(object, remove(*target, request.body));
      return response_of_object(200, object);
    }
    case kube::Method::kPut:
      break;
  }
  return refuse("update");
}

// What was written just now is shown to watchers too: its text is made once.
kube::HttpResponse ApiStore::response_of_object(int status, const Object& object) const {
  const auto& history = store_.history();
  if (!history.empty() && history.back().after == object)
    return kube::HttpResponse{status, text_of(history.back()), {}};
  return response_of(status, *object);
}

Answer<Object> ApiStore::find(const ApiTarget& target) const {
  Object object = store_.find(key_of(*target.kind, target.ns, target.name));
  if (object == nullptr) return tl::make_unexpected(not_found(*target.kind, target.name));
  return object;
}

Answer<Object> ApiStore::get(const ApiTarget& target) const {
  const auto asked = parse_revision(target.query_value("resourceVersion"));
  if (asked && *asked > store_.revision()) {
    return tl::make_unexpected(
        too_large_revision(std::to_string(*asked), std::to_string(store_.revision())));
  }
  return find(target);
}

Object ApiStore::put(const ObjectKey& key, nlohmann::json object) {
  Object version = store_.put(key, std::move(object));
  owners_.observe(store_.history().back());
  return version;
}

Object ApiStore::take(const ObjectKey& key, nlohmann::json last) {
  Object version = store_.remove(key, std::move(last));
  owners_.observe(store_.history().back());
  return version;
}

}  // namespace pawl::local
