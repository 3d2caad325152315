#include "sequence_server.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "common/kube/config.h"
#include "common/kube/cpprest_transport.h"

namespace pawl::conformance {

using nlohmann::json;

namespace {

// For a machine that does other work beside; the collector itself answers within milliseconds.
constexpr std::chrono::seconds kPatience{20};
// The collector reads which kinds there are every 30 s.
constexpr std::chrono::seconds kCollectorPatience{120};

std::string in_namespace(std::string target, const std::string& ns) {
  const auto at = target.find("{ns}");
  if (at != std::string::npos) target.replace(at, 4, ns);
  return target;
}

// The collection of all namespaces.
std::string everywhere(const std::string& plural) {
  std::string target = collection_path(plural);
  const std::string part = "/namespaces/{ns}";
  return target.replace(target.find(part), part.size(), "");
}

kube::HttpRequest post(const std::string& target, const json& body) {
  return {.method = kube::Method::kPost,
          .target = target,
          .content_type = "application/json",
          .body = body.dump()};
}

// Calls `line` for every whole line of what comes in pieces.
class Lines {
 public:
  template <typename OnLine>
  void take(std::string_view bytes, const OnLine& on_line) {
    rest_ += bytes;
    for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      on_line(std::string_view(rest_).substr(0, end));
      rest_.erase(0, end + 1);
    }
  }

 private:
  std::string rest_;
};

json without_bookkeeping(json object) {
  object["metadata"].erase("managedFields");
  object["metadata"].erase("resourceVersion");
  return object;
}

std::string name_in(const json& object) { return object.at("metadata").value("name", ""); }

}  // namespace

SequenceServer::SequenceServer(const std::string& kubeconfig) {
  const Result<kube::ClusterConfig> config = kube::load_kubeconfig(kubeconfig);
  REQUIRE(config.has_value());
  auto transport = kube::make_transport(*config, clock_, {.user_agent = "pawl-test"});
  REQUIRE(transport.has_value());
  transport_ = std::move(*transport);
  for (const std::string& plural : sequence_kinds()) open(plural);
}

SequenceServer::~SequenceServer() { transport_.reset(); }

void SequenceServer::open(const std::string& plural) {
  const Reply now = call({.target = everywhere(plural) + "?limit=1"});
  REQUIRE(now.status == 200);
  const std::string version = now.body["metadata"]["resourceVersion"];
  kube::HttpRequest request{
      .target =
          everywhere(plural) +
          "?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion=" + version,
      .timeout = std::chrono::seconds(600)};
  auto lines = std::make_shared<Lines>();
  transport_->stream(
      std::move(request),
      [this, plural, lines](std::string_view bytes) {
        lines->take(bytes, [&](std::string_view line) { take(plural, line); });
      },
      [this](const Result<kube::HttpResponse>&) {
        const std::lock_guard lock(mutex_);
        --open_streams_;
        changed_.notify_all();
      });
  const std::lock_guard lock(mutex_);
  ++open_streams_;
}

void SequenceServer::take(const std::string& plural, std::string_view line) {
  json event = parse_json(line);
  if (!event.is_object() || event["type"] == "BOOKMARK") return;
  const json& meta = event["object"]["metadata"];
  const std::string ns = meta.value("namespace", ""), uid = meta.value("uid", "");
  json content = without_bookkeeping(event["object"]);
  const std::lock_guard lock(mutex_);
  json& newest = newest_[uid];
  const bool is_bookkeeping = event["type"] == "MODIFIED" && newest == content;
  newest = std::move(content);
  events_[ns].push_back({plural, event["type"], std::move(event["object"]), is_bookkeeping});
  changed_.notify_all();
}

Reply SequenceServer::call(const kube::HttpRequest& request) {
  const Result<kube::HttpResponse> response = kube::send_and_wait(*transport_, request);
  INFO(request.target);
  if (!response) FAIL(response.error().message);
  return {response->status, parse_json(response->body)};
}

void SequenceServer::make_namespace(const std::string& ns) {
  const json object = {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}};
  REQUIRE(call(post("/api/v1/namespaces", object)).status == 201);
  json account = object_of("serviceaccounts", "default");
  // The controller that makes it may be quicker.
  const int status =
      call(post(in_namespace(collection_path("serviceaccounts"), ns), account)).status;
  REQUIRE((status == 201 || status == 409));
}

std::vector<Event> SequenceServer::events(const std::string& ns) {
  const std::lock_guard lock(mutex_);
  std::vector<Event> events = events_[ns];
  std::stable_sort(events.begin(), events.end(), [](const Event& one, const Event& other) {
    return revision_of(one.object) < revision_of(other.object);
  });
  return events;
}

bool SequenceServer::wait_for_events(const std::string& ns, std::size_t count) {
  std::unique_lock lock(mutex_);
  const bool is_there = changed_.wait_for(lock, kPatience, [&] {
    const auto seen = std::ranges::count(events_[ns], false, &Event::is_bookkeeping);
    return static_cast<std::size_t>(seen) >= count;
  });
  REQUIRE(open_streams_ == static_cast<int>(sequence_kinds().size()));
  return is_there;
}

std::vector<Event> SequenceServer::watch(const std::string& plural, const std::string& target) {
  struct Seen {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Event> events;
    Lines lines;
    bool is_over = false;
  };
  const auto seen = std::make_shared<Seen>();
  const auto handle = transport_->stream(
      {.target = target, .timeout = std::chrono::seconds(60)},
      [seen, plural](std::string_view bytes) {
        const std::lock_guard lock(seen->mutex);
        seen->lines.take(bytes, [&](std::string_view line) {
          json event = parse_json(line);
          const bool is_last = name_in(event["object"]) == kClosingName;
          seen->events.push_back({plural, event["type"], std::move(event["object"])});
          seen->is_over = seen->is_over || is_last;
        });
        seen->changed.notify_all();
      },
      [seen](const Result<kube::HttpResponse>&) {
        const std::lock_guard lock(seen->mutex);
        seen->is_over = true;
        seen->changed.notify_all();
      });
  std::unique_lock lock(seen->mutex);
  seen->changed.wait_for(lock, kPatience, [&] { return seen->is_over; });
  std::vector<Event> events = seen->events;
  lock.unlock();
  transport_->cancel(handle);
  return events;
}

void SequenceServer::wait_for_collector() {
  const std::string ns = "sequence-collector-" + newest_revision();
  make_namespace(ns);
  const auto create = [&](const std::string& plural, json object) {
    return call(post(in_namespace(collection_path(plural), ns), object)).body;
  };
  const json owner = create("trainingjobs", object_of("trainingjobs", "a"));
  json group = object_of("workergroups", "b");
  group["metadata"]["ownerReferences"] = {{{"apiVersion", owner["apiVersion"]},
                                           {"kind", owner["kind"]},
                                           {"name", "a"},
                                           {"uid", owner["metadata"]["uid"]}}};
  create("workergroups", group);
  json lease = object_of("leases", "c");
  lease["metadata"]["ownerReferences"] = group["metadata"]["ownerReferences"];
  create("leases", lease);
  call({.method = kube::Method::kDelete,
        .target = in_namespace(collection_path("trainingjobs"), ns) + "/a"});
  std::unique_lock lock(mutex_);
  const bool is_done = changed_.wait_for(lock, kCollectorPatience, [&] {
    const auto& events = events_[ns];
    return std::count_if(events.begin(), events.end(),
                         [](const Event& event) { return event.type == "DELETED"; }) == 3;
  });
  INFO("nobody collects garbage: start the server with its garbage collector");
  REQUIRE(is_done);
}

std::string SequenceServer::newest_revision() {
  return call({.target = "/api/v1/namespaces?limit=1"}).body["metadata"]["resourceVersion"];
}

ServerSide::ServerSide(SequenceServer& server, const std::string& ns) : Side(ns), server_(server) {
  server_.make_namespace(ns);
}

Reply ServerSide::perform(const kube::HttpRequest& request) { return server_.call(request); }
std::vector<Event> ServerSide::events() { return server_.events(ns()); }
std::vector<Event> ServerSide::watch(const std::string& plural, const std::string& target) {
  return server_.watch(plural, target);
}

StoreSide::StoreSide(const std::string& ns) : Side(ns), store_(clock_, Random(1)) {
  for (const std::string& plural : sequence_kinds()) {
    const std::string target = in_namespace(collection_path(plural), ns) + "?watch=true";
    watches_[plural] = *store_.begin_watch({.target = target});
  }
  perform(post(in_namespace(collection_path("serviceaccounts"), ns),
               object_of("serviceaccounts", "default")));
}

Reply StoreSide::perform(const kube::HttpRequest& request) {
  const kube::HttpResponse response = store_.handle(request);
  settle();
  return {response.status, parse_json(response.body)};
}

void StoreSide::settle() {
  while (store_.collect_garbage() > 0) {
  }
  for (const std::string& plural : sequence_kinds()) {
    Lines().take(store_.read_watch(watches_[plural]), [&](std::string_view line) {
      json event = parse_json(line);
      events_.push_back({plural, event["type"], std::move(event["object"])});
    });
  }
  std::stable_sort(events_.begin(), events_.end(), [](const Event& one, const Event& other) {
    return revision_of(one.object) < revision_of(other.object);
  });
}

std::vector<Event> StoreSide::events() { return events_; }

std::vector<Event> StoreSide::watch(const std::string& plural, const std::string& target) {
  auto watch = store_.begin_watch({.target = target});
  std::vector<Event> events;
  if (!watch) return events;
  Lines().take(store_.read_watch(*watch), [&](std::string_view line) {
    json event = parse_json(line);
    events.push_back({plural, event["type"], std::move(event["object"])});
  });
  return events;
}

}  // namespace pawl::conformance
