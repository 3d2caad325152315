// Two whole Operators (threads, informers, a Lease) above one embedded API.
#include <catch2/catch_test_macros.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "cli/local/store_transport.h"
#include "common/base/json.h"
#include "common/kube/requests.h"
#include "common/os/real_clock.h"
#include "operator/controller/operator.h"

using namespace pawl;
using nlohmann::json;
using std::chrono::milliseconds;
namespace resources = kube::resources;

namespace {

json call(kube::Transport& transport, const kube::HttpRequest& request) {
  const auto response = kube::send_and_wait(transport, request);
  REQUIRE(response.has_value());
  INFO(response->body);
  REQUIRE(response->status < 300);
  return parse_json(response->body);
}

// Counts what one operator sends, and hands it on.
class Counting final : public kube::Transport {
 public:
  explicit Counting(kube::Transport& next) : next_(next) {}
  kube::RequestHandle send(kube::HttpRequest request, Done done) override {
    const bool is_write = request.method != kube::Method::kGet;
    const bool is_lease = request.target.find("/leases") != std::string::npos;
    {
      const std::lock_guard lock(mutex_);
      (is_write ? is_lease ? lease_writes_ : other_writes_ : reads_) += 1;
    }
    return next_.send(std::move(request), std::move(done));
  }
  kube::RequestHandle stream(kube::HttpRequest request, OnBytes on_bytes, Done done) override {
    return next_.stream(std::move(request), std::move(on_bytes), std::move(done));
  }
  void cancel(kube::RequestHandle handle) override { next_.cancel(handle); }
  int writes() const { return lease_writes() + other_writes(); }
  int lease_writes() const {
    const std::lock_guard lock(mutex_);
    return lease_writes_;
  }
  int other_writes() const {
    const std::lock_guard lock(mutex_);
    return other_writes_;
  }

 private:
  kube::Transport& next_;
  mutable std::mutex mutex_;
  int reads_ = 0, lease_writes_ = 0, other_writes_ = 0;
};

// One operator process and its log.
class Process {
 public:
  Process(const Clock& clock, kube::Transport& api, const std::string& identity)
      : api_(api), log_(clock, [this](std::string_view line) { add(line); }) {
    controller::OperatorOptions options;
    options.lease.emplace();
    options.lease->ns = "pawl-system";
    options.lease->name = "pawl-operator";
    options.lease->identity = identity;
    running_ = std::make_unique<controller::Operator>(api_, clock, Random{1}, log_, options);
    running_->start();
  }

  // Until a line with this text has come, after those that were waited for before.
  bool wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    return added_.wait_for(lock, std::chrono::seconds{30}, [&] {
      const auto found = lines_.find(text, read_);
      if (found == std::string::npos) return false;
      read_ = found + text.size();
      return true;
    });
  }
  controller::Operator& running() { return *running_; }
  const Counting& api() const { return api_; }

 private:
  void add(std::string_view line) {
    const std::lock_guard lock(mutex_);
    lines_.append(line);
    added_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::string lines_;
  std::size_t read_ = 0;
  Counting api_;
  Log log_;
  std::unique_ptr<controller::Operator> running_;
};

json job(const std::string& name) {
  const json container = {
      {"name", "worker"}, {"image", "example/train:1"}, {"command", {"/train"}}};
  return {
      {"apiVersion", "pawl.dev/v1alpha1"},
      {"kind", "TrainingJob"},
      {"metadata", {{"name", name}, {"namespace", "team"}}},
      {"spec",
       {{"replicas", 2}, {"template", {{"spec", {{"containers", json::array({container})}}}}}}}};
}

void create_job(kube::Transport& transport, const std::string& name) {
  call(transport, kube::create_request(resources::kTrainingJobs, "team", job(name)));
}

json lease(kube::Transport& transport) {
  return call(transport, kube::get_request(resources::kLeases, "pawl-system", "pawl-operator"));
}

void set_holder(kube::Transport& transport, const std::string& holder) {
  const json spec = {{"holderIdentity", holder}, {"leaseDurationSeconds", 15}};
  call(transport, kube::merge_patch_request(resources::kLeases, "pawl-system", "pawl-operator",
                                            {{"spec", spec}}));
}

bool says(const controller::Operator& running, const std::string& line) {
  return running.metrics().find(line + "\n") != std::string::npos;
}

constexpr char kGangMade[] = "\"actions\":2,\"first\":\"patch TrainingJob status\"";

}  // namespace

TEST_CASE(
    "hand_over: a leader that is told to go gives the lease back, and the standby acts at once",
    "[controller][leader]") {
  const RealClock clock;
  local::StoreTransport store(clock, {});
  Process first(clock, store, "one");
  REQUIRE(first.wait_for("leader_gained"));
  Process second(clock, store, "two");
  REQUIRE(second.wait_for("leader_seen"));
  create_job(store, "a");
  REQUIRE(first.wait_for(kGangMade));
  CHECK(second.api().writes() == 0);

  const SteadyPoint begin = clock.steady_now();
  first.running().stop();
  REQUIRE(second.wait_for("leader_gained"));
  CHECK(clock.steady_now() - begin < milliseconds{2'000});
  create_job(store, "b");
  const int writes = first.api().writes();
  REQUIRE(second.wait_for("\"job\":\"b\""));
  REQUIRE(second.wait_for(kGangMade));
  CHECK(first.api().writes() == writes);
  CHECK(lease(store)["spec"]["holderIdentity"] == "two");
  CHECK(lease(store)["spec"]["leaseTransitions"] == 1);
  // Job a had all it needs: its gang is the one that the first leader made.
  const json job_a = call(store, kube::get_request(resources::kTrainingJobs, "team", "a"));
  CHECK(job_a["status"]["attempt"] == 1);
  const json events = call(store, kube::list_request(resources::kEvents, "pawl-system", {}));
  CHECK(events["items"].size() == 2);

  second.running().stop();
  CHECK(lease(store)["spec"]["holderIdentity"] == "");
  CHECK(lease(store)["metadata"]["annotations"].contains("pawl.dev/handover"));
}

TEST_CASE("hand_over: a standby is synced, and leaves quietly", "[controller][leader]") {
  const RealClock clock;
  local::StoreTransport store(clock, {});
  Process first(clock, store, "one");
  REQUIRE(first.wait_for("leader_gained"));
  {
    Process second(clock, store, "two");
    REQUIRE(second.wait_for("leader_seen"));
    second.running().stop();
    CHECK(second.api().writes() == 0);
  }
  CHECK(lease(store)["spec"]["holderIdentity"] == "one");
}

TEST_CASE(
    "hand_over: whoever loses the lease writes nothing, and starts afresh when it gets it back",
    "[controller][leader][B21][O9]") {
  const RealClock clock;
  local::StoreTransport store(clock, {});
  Process one(clock, store, "one");
  REQUIRE(one.wait_for("leader_gained"));
  create_job(store, "a");
  REQUIRE(one.wait_for(kGangMade));
  set_holder(store, "a-person");
  REQUIRE(one.wait_for("leader_lost"));
  const int writes = one.api().writes();
  create_job(store, "b");
  create_job(store, "c");
  // The lease comes by in a watch of its own: what stood in the store before is in the caches.
  set_holder(store, "another-person");
  REQUIRE(one.wait_for("\"holder\":\"another-person\""));
  CHECK(one.api().writes() == writes);
  CHECK(says(one.running(), "pawl_leader 0"));
  set_holder(store, "");
  REQUIRE(one.wait_for("leader_gained"));
  REQUIRE(one.wait_for("\"job\":\"b\""));
  REQUIRE(one.wait_for(kGangMade));
  CHECK(says(one.running(), "pawl_leader 1"));
  CHECK(says(one.running(), "pawl_leader_transitions_total{to=\"leader\"} 2"));
  CHECK(says(one.running(), "pawl_leader_transitions_total{to=\"standby\"} 1"));
}
