// A write of a deposed leader arrives when another leads: each request of a job's life is held
// back in turn, a new operator takes over, and the request arrives later, or much later. What it
// may do stands in operator/core/SPEC.md, "Writes"; the job comes to the end of the run without it.
#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tests/unit/operator/cluster.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;
namespace resources = kube::resources;

namespace {

json condition_statuses(const json& status) {
  json statuses = json::object();
  for (const json& condition : status["conditions"]) {
    statuses[condition["type"].get<std::string>()] = condition["status"];
  }
  return statuses;
}

// What a user would notice of the end; times and versions differ from run to run.
json essence(Cluster& cluster) {
  const auto jobs = cluster.all(resources::kTrainingJobs);
  json out = {{"jobs", jobs.size()}, {"groups", cluster.all(resources::kWorkerGroups).size()}};
  for (const json& job : jobs) {
    const json& status = job["status"];
    out["status"] = {{"phase", status["phase"]},
                     {"attempt", status["attempt"]},
                     {"restarts", status["restarts"]},
                     {"conditions", condition_statuses(status)}};
  }
  json pods = json::array();
  for (const json& pod : cluster.all(resources::kPods)) pods.push_back(pod["metadata"]["name"]);
  out["pods"] = pods;
  out["children"] = cluster.all(resources::kServiceAccounts).size() +
                    cluster.all(resources::kRoles).size() +
                    cluster.all(resources::kRoleBindings).size() +
                    cluster.all(resources::kPodDisruptionBudgets).size();
  return out;
}

// A life with every action: start, restart after a failure, suspension, resume, end, TTL.
constexpr int kStages = 6;

void begin(Cluster& cluster, int stage) {
  switch (stage) {
    case 0:
      cluster.create_job("gpt", 2);
      break;
    case 1:
      cluster.fail_pod("gpt-1-1-0");
      break;
    case 2:
      cluster.patch_job("gpt", {{"spec", {{"suspend", true}}}});
      break;
    case 3:
      cluster.patch_job("gpt", {{"spec", {{"suspend", false}}}});
      break;
    case 4:
      cluster.finish_pods();
      break;
    default:
      cluster.patch_job("gpt", {{"spec", {{"ttlSecondsAfterFinished", 30}}}});
  }
}

void live(Cluster& cluster, int stage) {
  begin(cluster, stage);
  cluster.settle(seconds{60});
}

bool is_eligible(Cluster& cluster, const std::string& uid) {
  for (const json& group : cluster.all(resources::kWorkerGroups)) {
    for (const json& pod : group["spec"]["pods"]) {
      if (pod.value("uid", "") == uid) return true;
    }
  }
  return false;
}

std::string uid_of_deletion(const kube::HttpRequest& request) {
  return parse_json(request.body)["preconditions"]["uid"];
}

// The late request arrives. Every write names what it was decided on; where that has changed, it is
// refused. Where nobody has written since, it is what the new leader found as well, or never asked
// for; the end of the job tells whether it did harm.
int arrive(Cluster& cluster, const kube::HttpRequest& request) {
  INFO(kube::method_name(request.method) << " " << request.target << " arrives late");
  const bool is_delete = request.method == kube::Method::kDelete;
  const bool was_eligible = is_delete && is_eligible(cluster, uid_of_deletion(request));
  const auto response = cluster.deliver(request);
  INFO(response.body);
  if (request.method == kube::Method::kPatch) {
    CHECK(parse_json(request.body)["metadata"]["resourceVersion"].is_string());
  } else if (is_delete) {
    CHECK((response.status >= 400 || !was_eligible));
  } else if (response.status == 201 && request.target.ends_with("/pods")) {
    CHECK_FALSE(is_eligible(cluster, parse_json(response.body)["metadata"]["uid"]));
  }
  return response.status;
}

struct Run {
  bool was_held = false;
  int status = 0;  // of the late request
  json end;
};

// The nth request is held, its sender is deposed at once, and it arrives `later` stages after.
Run live_with_late(int nth, int later) {
  Cluster cluster;
  Run run;
  int seen = 0;
  cluster.fault = [&](const kube::HttpRequest&) {
    if (++seen != nth) return Fault::kNone;
    run.was_held = true;
    return Fault::kHold;
  };
  int due = kStages;
  bool was_deposed = false;
  const auto depose = [&](int stage) {
    if (!run.was_held || std::exchange(was_deposed, true)) return;
    due = std::min(stage + later, kStages - 1);
    cluster.start_operator();
    cluster.settle(seconds{60});
  };
  for (int stage = 0; stage < kStages; ++stage) {
    begin(cluster, stage);
    for (int i = 0; i < 12 && !run.was_held; ++i) {
      if (cluster.step()) continue;
      cluster.run_pods();
      if (!cluster.step()) cluster.clock.advance(seconds{1});
    }
    depose(stage);
    cluster.settle(seconds{60});
    depose(stage);  // a request that was sent after a wait
    if (stage != due || cluster.held.empty()) continue;
    run.status = arrive(cluster, cluster.held.front());
    cluster.settle(seconds{60});
  }
  run.end = essence(cluster);
  return run;
}

}  // namespace

TEST_CASE("late_write: no request of a deposed leader changes what the new one does",
          "[controller][B21][O9]") {
  const json reference = live_with_late(0, 0).end;
  REQUIRE(reference["jobs"] == 0);
  REQUIRE(reference["pods"].empty());
  REQUIRE(reference["children"] == 0);
  int refused = 0, nth = 1;
  for (bool goes_on = true; goes_on; ++nth) {
    const int later = nth % 2 == 0 ? 0 : 2;
    INFO("request " << nth << ", " << later << " stages later");
    const Run run = live_with_late(nth, later);
    goes_on = run.was_held;
    refused += run.status >= 400 ? 1 : 0;
    CHECK(run.end == reference);
  }
  CHECK(nth > 40);  // every request of the life had its turn
  CHECK(refused > 20);
}

TEST_CASE("late_write: what arrives after the end of a job leaves it as it ended",
          "[controller][B21][O9][I10]") {
  std::vector<kube::HttpRequest> sent;
  Cluster cluster;
  cluster.fault = [&](const kube::HttpRequest& request) {
    if (request.method != kube::Method::kGet) sent.push_back(request);
    return Fault::kNone;
  };
  for (int stage = 0; stage < 5; ++stage) live(cluster, stage);
  const json before = essence(cluster);
  REQUIRE(before["status"]["phase"] == "Complete");
  cluster.fault = nullptr;
  for (const kube::HttpRequest& request : sent) {
    arrive(cluster, request);
    cluster.settle(seconds{60});
    CHECK(essence(cluster) == before);
  }
}

TEST_CASE("leading: a standby takes everything in and writes nothing until it leads",
          "[controller][B21]") {
  Cluster cluster;
  cluster.options.is_standby = true;
  cluster.start_operator();
  cluster.create_job("gpt", 2);
  cluster.settle(seconds{600});
  CHECK(cluster.writes == 0);
  CHECK(cluster.loop->is_synced());
  cluster.loop->lead({});
  cluster.settle(seconds{60});
  CHECK(cluster.get(resources::kTrainingJobs, "gpt")["status"]["phase"] == "Running");
}

TEST_CASE("leading: it begins when its views have come as far as the leader's before",
          "[controller][B21]") {
  Cluster cluster;
  cluster.create_job("gpt", 2);
  cluster.settle(seconds{60});
  const controller::Views newest = cluster.loop->newest();
  for (const std::string& view : newest) CHECK_FALSE(view.empty());

  cluster.options.is_standby = true;
  cluster.start_operator();
  cluster.lagging = {controller::Kind::kPod};
  cluster.fail_pod("gpt-1-0-0");
  controller::Views later = newest;
  later[2] = cluster.get(resources::kPods, "gpt-1-0-0")["metadata"]["resourceVersion"];
  cluster.loop->lead(later);
  const int before = cluster.writes;
  cluster.settle(seconds{60});
  CHECK_FALSE(cluster.loop->is_caught_up());
  CHECK(cluster.writes == before);
  cluster.lagging = {};
  cluster.settle(seconds{60});
  CHECK(cluster.loop->is_caught_up());
  CHECK(cluster.writes > before);
}

TEST_CASE("leading: a plan that was decided in time is not sent when the time is over",
          "[controller][B21]") {
  Cluster cluster;
  cluster.create_job("gpt", 2);
  cluster.loop->lead_until(cluster.clock.steady_now() + seconds{10});
  // The process is stopped between the decision and the first request.
  cluster.on_log = [&] { cluster.clock.advance(seconds{11}); };
  cluster.settle(seconds{600});
  CHECK(cluster.log_lines.size() == 1);
  CHECK(cluster.requests.empty());
  CHECK(cluster.loop->requests_in_flight() == 0);
}

TEST_CASE("leading: in the middle of a plan the rest stays unsent", "[controller][B21]") {
  Cluster cluster;
  cluster.create_job("gpt", 2);
  const SteadyPoint end = cluster.clock.steady_now() + seconds{10};
  cluster.loop->lead_until(end);
  cluster.fault = [&](const kube::HttpRequest& request) {
    const bool is_group = request.target.ends_with("/workergroups");
    if (is_group) cluster.clock.advance(seconds{11});
    return Fault::kNone;
  };
  cluster.settle(seconds{600});
  CHECK(cluster.requests["POST workergroups"] == 1);
  CHECK(cluster.requests["POST pods"] == 0);
}
