#include "tests/unit/operator/cluster.h"

#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <utility>

#include "common/base/check.h"
#include "operator/controller/watches.h"

namespace pawl::test {

using controller::Kind;
using controller::resource_of;
using nlohmann::json;

namespace {

// "POST pods", "PATCH trainingjobs/status".
std::string summary(const kube::HttpRequest& request) {
  std::istringstream path(request.target.substr(request.target.find("/namespaces/") + 12));
  std::string ns, plural, name, subresource;
  std::getline(path, ns, '/');
  std::getline(path, plural, '/');
  std::getline(path, name, '/');
  std::getline(path, subresource, '/');
  return std::string(kube::method_name(request.method)) + " " + plural +
         (subresource.empty() ? "" : "/" + subresource);
}

kube::HttpResponse refusal(int status, const char* reason, const char* message) {
  const json body = {{"kind", "Status"}, {"reason", reason}, {"message", message}};
  return {.status = status, .body = body.dump()};
}

}  // namespace

Cluster::Cluster()
    : log_(clock,
           [this](std::string_view line) {
             log_lines.emplace_back(line);
             if (on_log) on_log();
           }),
      store_(clock, Random{7}) {
  start_operator();
}

kube::RequestHandle Cluster::send(kube::HttpRequest request, Done done) {
  const kube::RequestHandle handle = next_handle_++;
  waiting_.push_back({handle, std::move(request), std::move(done)});
  in_flight_max = std::max(in_flight_max, waiting_.size());
  return handle;
}

kube::RequestHandle Cluster::stream(kube::HttpRequest, OnBytes, Done) {
  PAWL_CHECK(false, "the loop opens no streams");
}

void Cluster::cancel(kube::RequestHandle handle) {
  std::erase_if(waiting_, [&](const Waiting& item) { return item.handle == handle; });
}

void Cluster::start_operator() {
  loop.reset();
  waiting_.clear();
  watches_.clear();
  inbox_ = std::make_shared<controller::Inbox>();
  loop =
      std::make_unique<controller::ControllerLoop>(*this, clock, Random{3}, log_, inbox_, options);
  for (const Kind kind : {Kind::kJob, Kind::kGroup, Kind::kPod}) {
    kube::WatchOptions watch_options;
    if (kind == Kind::kPod) watch_options.label_selector = "app.kubernetes.io/managed-by=pawl";
    auto watch = store_.begin_watch(kube::watch_request(resource_of(kind), "", watch_options));
    PAWL_CHECK(watch.has_value(), "the store refuses a watch");
    watches_[kind] = *watch;
    post_events(kind, store_.read_watch(watches_[kind]));
    inbox_->post_synced(kind, std::to_string(store_.revision()));
  }
  for (const auto& [name, machine] : machines_) inbox_->post_host(name, machine);
  for (const auto& [name, priority] : classes_) inbox_->post_class(name, priority);
  inbox_->post_hosts_listed();
  inbox_->post_bookings_listed();
  inbox_->post_classes_listed();
  for (const auto& [name, queue] : queues_) inbox_->post_queue(name, queue);
  inbox_->post_queues_listed();
}

void Cluster::set_machine(const std::string& name, int gpus, const std::string& rack) {
  machines_[name] = {
      .name = name, .allocatable = {{"nvidia.com/gpu", gpus}, {"pods", 100}}, .is_ready = true};
  if (!rack.empty()) machines_[name].labels["example.com/rack"] = rack;
  inbox_->post_host(name, machines_[name]);
}

void Cluster::edit_machine(const std::string& name,
                           const std::function<void(placement::Host&)>& edit) {
  edit(machines_[name]);
  inbox_->post_host(name, machines_[name]);
}

void Cluster::remove_machine(const std::string& name) {
  machines_.erase(name);
  inbox_->post_host(name, std::nullopt);
}

void Cluster::set_class(const std::string& name, std::int64_t value, bool preempts) {
  classes_[name] = {.value = value, .preempts = preempts};
  inbox_->post_class(name, classes_[name]);
}

void Cluster::set_queue(const std::string& name, int gpus, bool is_fifo) {
  api::TrainingQueue& queue = queues_[name];
  queue.meta.name = name;
  ++queue.meta.generation;
  queue.quotas = {{"nvidia.com/gpu", std::to_string(gpus), "", ""}};
  queue.is_fifo = is_fifo;
  inbox_->post_queue(name, queue);
}

void Cluster::edit_queue(const std::string& name,
                         const std::function<void(api::TrainingQueue&)>& edit) {
  edit(queues_[name]);
  ++queues_[name].meta.generation;
  inbox_->post_queue(name, queues_[name]);
}

void Cluster::set_queue_status(const std::string& name, const api::TrainingQueueStatus& status) {
  queues_[name].status = status;
  inbox_->post_queue(name, queues_[name]);
}

void Cluster::drop_queue(const std::string& name) {
  queues_.erase(name);
  inbox_->post_queue(name, std::nullopt);
}

void Cluster::post_events(Kind kind, const std::string& lines) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const json event = parse_json(line);
    const std::string type = event["type"];
    if (type == "BOOKMARK") continue;
    const json& object = event["object"];
    if (kind == Kind::kPod) {
      const std::string pod = std::string(kNamespace) + "/" + object["metadata"].value("name", "");
      inbox_->post_booking(pod, type == "DELETED" ? std::nullopt : placement::booking_of(object));
    }
    auto change = controller::decode_change(kind, object, type == "DELETED", log_);
    PAWL_CHECK(change.has_value(), "an object that cannot be decoded");
    inbox_->post(std::move(*change));
  }
}

bool Cluster::pump_views() {
  bool has_news = false;
  for (auto& [kind, watch] : watches_) {
    if (lagging.contains(kind)) continue;
    const std::string lines = store_.read_watch(watch);
    if (lines.empty()) continue;
    has_news = true;
    post_events(kind, lines);
    inbox_->post_view(kind, std::to_string(store_.revision()));
  }
  return has_news;
}

kube::HttpRequest Cluster::stored_part(const kube::HttpRequest& request) const {
  if (summary(request) != "PATCH trainingjobs/status") return request;
  json body = parse_json(request.body);
  kept(body["status"]);
  kube::HttpRequest part = request;
  part.body = body.dump();
  return part;
}

Result<kube::HttpResponse> Cluster::answer(const kube::HttpRequest& request, Fault what) {
  const bool is_write = request.method != kube::Method::kGet;
  ++requests[summary(request)];
  writes += is_write ? 1 : 0;
  if (auto other = other_server ? other_server(request) : std::nullopt) return *other;
  switch (what) {
    case Fault::kNone:
    case Fault::kHold:
      return store_.handle(kept ? stored_part(request) : request);
    case Fault::kLoseReply:
      store_.handle(request);
      return fail(Code::kOutcomeUnknown, "the connection was reset");
    case Fault::kUnavailable:
      return fail(Code::kUnavailable, "connection refused");
    case Fault::kForbidden:
      return refusal(403, "Forbidden", "exceeded quota: team");
    case Fault::kThrottled: {
      auto response = refusal(429, "TooManyRequests", "slow down");
      response.retry_after = std::chrono::seconds{7};
      return response;
    }
  }
  return fail(Code::kInvalid, "no such fault");
}

bool Cluster::step() {
  bool has_moved = false;
  for (Waiting& item : std::exchange(waiting_, {})) {
    has_moved = true;
    const Fault what = fault ? fault(item.request) : Fault::kNone;
    if (what == Fault::kHold) {
      held.push_back(item.request);
    } else {
      item.done(answer(item.request, what));
    }
  }
  while (store_.collect_garbage() > 0) has_moved = true;
  has_moved = pump_views() || has_moved;
  due_ = loop->turn();
  return has_moved || !waiting_.empty();
}

void Cluster::settle(std::chrono::seconds horizon) {
  const SteadyPoint end = clock.steady_now() + horizon;
  for (int i = 0; i < 5'000; ++i) {
    if (step()) continue;
    if (is_kubelet_on) {
      const auto before = store_.revision();
      run_pods();
      if (store_.revision() != before) continue;
    }
    if (!due_ || *due_ > end) {
      const auto left = end - clock.steady_now();
      clock.advance(std::chrono::duration_cast<std::chrono::milliseconds>(left));
      return;
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*due_ - clock.steady_now());
    clock.advance(std::max(wait, std::chrono::milliseconds{1}));
  }
  PAWL_CHECK(false, "the cluster never comes to rest");
}

json Cluster::call(const kube::HttpRequest& request) {
  const auto response = store_.handle(request);
  PAWL_CHECK(response.status < 300, response.body.c_str());
  return parse_json(response.body);
}

void Cluster::create_job(const std::string& name, int replicas, const std::string& kind, int gpus,
                         const json& scheduling) {
  json container = {{"name", "worker"}, {"image", "example/train:1"}, {"command", {"/train"}}};
  if (gpus > 0) container["resources"]["limits"]["nvidia.com/gpu"] = gpus;
  json job = {{"apiVersion", "pawl.dev/v1alpha1"},
              {"kind", "TrainingJob"},
              {"metadata", {{"name", name}, {"namespace", kNamespace}}},
              {"spec",
               {{"replicas", replicas},
                {"runtime", {{"kind", kind}}},
                {"template", {{"spec", {{"containers", json::array({container})}}}}}}}};
  if (!scheduling.empty()) job["spec"]["scheduling"] = scheduling;
  call(kube::create_request(kube::resources::kTrainingJobs, kNamespace, job));
}

void Cluster::patch_job(const std::string& name, const json& patch) {
  call(kube::merge_patch_request(kube::resources::kTrainingJobs, kNamespace, name, patch));
}

json Cluster::get(const kube::Resource& resource, const std::string& name) {
  return call(kube::get_request(resource, kNamespace, name));
}

std::vector<json> Cluster::all(const kube::Resource& resource) {
  return call(kube::list_request(resource, "", {}))["items"].get<std::vector<json>>();
}

void Cluster::set_pod_status(const std::string& name, const json& status) {
  call(kube::merge_patch_request(kube::resources::kPods, kNamespace, name, {{"status", status}},
                                 "status"));
}

void Cluster::take(const std::string& machine, int gpus, bool is_lasting) {
  inbox_->post_booking(
      "others/pod-on-" + machine,
      placement::Booking{
          .host = machine, .requests = {{"nvidia.com/gpu", gpus}}, .is_lasting = is_lasting});
}

void check_given_once(Cluster& cluster, int round, const std::string& reason,
                      const std::function<void(const char* job)>& create) {
  const int steps = round / 12, steps_after = round % 12;
  INFO("dies after " << steps << " and " << steps_after << " steps");
  create("old");
  for (int i = 0; i < steps; ++i) cluster.step();
  create("new");  // it may be looked at before the other one
  for (int i = 0; i < steps_after; ++i) cluster.step();
  const bool is_placed = status_of(cluster, "old").contains("placement");
  cluster.start_operator();
  cluster.settle(std::chrono::seconds{60});
  const bool is_old_first = status_of(cluster, "old")["phase"] == "Running";
  const std::string first = is_old_first ? "old" : "new", second = is_old_first ? "new" : "old";
  CHECK((is_old_first || !is_placed));
  CHECK(status_of(cluster, first)["phase"] == "Running");
  CHECK(status_of(cluster, second)["reason"] == reason);
  for (const json& pod : cluster.all(kube::resources::kPods))
    CHECK(pod["metadata"]["name"].get<std::string>().starts_with(first + "-"));
}

}  // namespace pawl::test
