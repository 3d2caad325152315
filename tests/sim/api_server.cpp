#include "tests/sim/api_server.h"

#include <algorithm>

#include "cli/local/api_objects.h"

namespace pawl::sim {

const char* actor_name(Actor actor) {
  constexpr const char* kNames[] = {"operator",  "elector", "launcher", "cluster",
                                    "collector", "user",    "monkey"};
  return kNames[static_cast<int>(actor)];
}

Path path_of(const kube::HttpRequest& request) {
  std::string_view rest = request.target;
  rest = rest.substr(0, rest.find('?'));
  Path path;
  const auto at = rest.find("/namespaces/");
  if (at == std::string_view::npos) {
    path.plural = rest.substr(rest.rfind('/') + 1);
    return path;
  }
  rest.remove_prefix(at + 12);
  std::string* const parts[] = {nullptr, &path.plural, &path.name, &path.subresource};
  for (std::string* part : parts) {
    const auto end = rest.find('/');
    if (part != nullptr) *part = rest.substr(0, end);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return path;
}

ApiServer::ApiServer(Engine& engine, const Knobs& knobs)
    : engine_(engine),
      knobs_(knobs),
      store_(engine.clock(), Random{engine.random().next()}),
      published_(store_.revision()) {
  for (int server = 0; server < knobs.api_servers; ++server) {
    for (const char* plural : {"trainingjobs", "workergroups", "pods"}) {
      // Server 0 is the quick one.
      lags_[{server, plural}] =
          server == 0 ? knobs.lag_max / 10 : engine.between(milliseconds{0}, knobs.lag_max);
    }
  }
}

milliseconds ApiServer::lag(int server, std::string_view plural) const {
  const auto found = lags_.find(std::pair{server, std::string{plural}});
  const bool is_late = extra_lag_plural.empty() || extra_lag_plural == plural;
  const milliseconds usual = found == lags_.end() ? milliseconds{0} : found->second;
  return usual + (is_late ? extra_lag : milliseconds{0});
}

std::uint64_t ApiServer::visible(int server, std::string_view plural) const {
  const milliseconds behind = lag(server, plural);
  if (behind.count() == 0) return store_.revision();
  const milliseconds until = engine_.elapsed() - behind;
  const auto after =
      std::upper_bound(times_.begin(), times_.end(), until,
                       [](milliseconds t, const auto& item) { return t < item.first; });
  return after == times_.begin() ? 1 : std::prev(after)->second;
}

// Without the field that an older definition lacks. One that says nothing about the job's course.
kube::HttpRequest ApiServer::pruned(const kube::HttpRequest& request) {
  const Path path = path_of(request);
  if (path.plural != "trainingjobs" || path.subresource != "status") return request;
  auto body = parse_json(request.body);
  if (!body.contains("status") || !body["status"].is_object()) return request;
  if (body["status"].erase("selector") > 0) count_fault("status pruned");
  kube::HttpRequest kept = request;
  kept.body = body.dump();
  return kept;
}

kube::HttpResponse ApiServer::handle(Actor actor, const kube::HttpRequest& request) {
  for (ApiObserver* observer : observers_) observer->on_request(actor, request);
  if (engine_.elapsed() < pods_refused_until && request.method == kube::Method::kPost &&
      path_of(request).plural == "pods") {
    return {
        .status = 403,
        .body = R"({"kind":"Status","code":403,"reason":"Forbidden","message":"exceeded quota"})"};
  }
  kube::HttpResponse response = store_.handle(is_pruning ? pruned(request) : request);
  publish(actor);
  return response;
}

// A write may lead an observer to write itself; the outer call publishes that too, in order.
void ApiServer::publish(Actor actor) {
  if (is_publishing_) return;
  is_publishing_ = true;
  while (published_ < store_.revision()) {
    const auto& history = store_.history();
    const auto next = std::upper_bound(
        history.begin(), history.end(), published_,
        [](std::uint64_t revision, const local::Change& c) { return revision < c.revision; });
    if (next == history.end()) break;
    const local::Change change = *next;
    published_ = change.revision;
    times_.push_back({engine_.elapsed(), change.revision});
    if (engine_.is_recording()) {
      const bool is_new = change.before == nullptr;
      engine_.trace(std::string(actor_name(actor)) +
                    (change.is_deletion ? " deletes "
                     : is_new           ? " creates "
                                        : " writes ") +
                    std::string(change.key.plural) + "/" + change.key.name);
    }
    engine_.mix(change.revision * 8 + static_cast<std::uint64_t>(actor));
    engine_.mix(static_cast<std::uint64_t>(engine_.elapsed().count()));
    for (ApiObserver* observer : observers_) observer->on_change(actor, change);
    const auto& meta = change.after->at("metadata");
    if (change.is_deletion || meta.contains("finalizers") || meta.contains("ownerReferences")) {
      collect_soon();
    }
  }
  is_publishing_ = false;
}

// The garbage collector is another process, and takes its time.
void ApiServer::collect_soon() {
  if (is_collecting_) return;
  is_collecting_ = true;
  engine_.after(engine_.between(milliseconds{20}, milliseconds{2'000}), [this] {
    is_collecting_ = false;
    if (store_.collect_garbage() > 0) publish(Actor::kCollector);
  });
}

nlohmann::json ApiServer::call(Actor actor, const kube::HttpRequest& request) {
  const kube::HttpResponse response = handle(actor, request);
  if (response.status >= 300) {
    if (engine_.is_recording()) engine_.trace("refused: " + response.body.substr(0, 200));
    return nullptr;
  }
  return parse_json(response.body);
}

local::Object ApiServer::find(const kube::Resource& resource, const std::string& name) const {
  const local::Kind* kind = local::find_kind(resource.group, resource.version, resource.plural);
  const auto found = store_.objects().find(local::key_of(*kind, std::string{kNamespace}, name));
  return found == store_.objects().end() ? nullptr : found->second;
}

std::vector<local::Object> ApiServer::all(const kube::Resource& resource) const {
  std::vector<local::Object> objects;
  for (const auto& [key, object] : store_.objects()) {
    if (key.plural == resource.plural) objects.push_back(object);
  }
  return objects;
}

bool ApiServer::set_status(Actor actor, const kube::Resource& resource, const std::string& name,
                           const nlohmann::json& status) {
  return handle(actor, kube::merge_patch_request(resource, kNamespace, name, {{"status", status}},
                                                 "status"))
             .status < 300;
}

}  // namespace pawl::sim
