#include <catch2/catch_test_macros.hpp>

#include "tests/unit/operator/cluster.h"

using namespace pawl;
using namespace pawl::test;
using controller::Kind;
using nlohmann::json;
using std::chrono::seconds;
namespace resources = kube::resources;

namespace {

void check_complete(Cluster& cluster, const std::string& name) {
  const json status = status_of(cluster, name);
  CHECK(status["phase"] == "Complete");
  CHECK(status["attempt"] == 1);
  CHECK(status["restarts"]["counted"] == 0);
  CHECK(status["restarts"]["free"] == 0);
}

int sum(const std::map<std::string, int>& requests) {
  int total = 0;
  for (const auto& [name, count] : requests) total += count;
  return total;
}

}  // namespace

TEST_CASE("controller: a job runs to completion with few requests, then nothing is written",
          "[controller][B15]") {
  Cluster cluster;
  cluster.create_job("gpt", 8);
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  CHECK(cluster.all(resources::kPods).size() == 8);
  CHECK(cluster.all(resources::kServiceAccounts).size() == 1);
  CHECK(cluster.all(resources::kPodDisruptionBudgets).size() == 1);
  cluster.finish_pods();
  cluster.settle(seconds{30});
  check_complete(cluster, "gpt");
  CHECK(cluster.requests["POST pods"] == 8);
  CHECK(cluster.requests["POST workergroups"] == 1);
  CHECK(cluster.requests["PATCH workergroups"] == 1);
  CHECK(cluster.requests["PATCH trainingjobs/status"] <= 4);
  CHECK(cluster.requests["POST events"] == 2);
  CHECK(sum(cluster.requests) <= 8 + 13);
  const int before = cluster.writes;
  cluster.settle(seconds{3600});
  CHECK(cluster.writes == before);
}

TEST_CASE("controller: every lost reply leads to the same end", "[controller][B14][C12]") {
  for (int nth = 1; nth <= 24; ++nth) {
    INFO("reply " << nth << " is lost");
    Cluster cluster;
    int seen = 0;
    cluster.fault = [&](const kube::HttpRequest&) {
      return ++seen == nth ? Fault::kLoseReply : Fault::kNone;
    };
    cluster.create_job("gpt", 4);
    cluster.settle(seconds{60});
    CHECK(cluster.all(resources::kPods).size() == 4);
    cluster.finish_pods();
    cluster.settle(seconds{60});
    check_complete(cluster, "gpt");
  }
}

TEST_CASE("controller: the operator may die before and after each request", "[controller][B06]") {
  for (int nth = 1; nth <= 24; ++nth) {
    INFO("it dies at request " << nth);
    Cluster cluster;
    int seen = 0;
    bool dies = false;
    cluster.fault = [&](const kube::HttpRequest&) {
      if (++seen == nth) dies = true;
      return seen == nth && nth % 2 == 0 ? Fault::kUnavailable : Fault::kNone;
    };
    cluster.create_job("gpt", 3);
    for (int i = 0; i < 200 && !dies; ++i) {
      if (!cluster.step()) cluster.run_pods();
    }
    cluster.start_operator();
    cluster.settle(seconds{60});
    cluster.finish_pods();
    cluster.settle(seconds{60});
    check_complete(cluster, "gpt");
    CHECK(cluster.all(resources::kPods).size() == 3);
  }
}

TEST_CASE("controller: a plan waits until its own writes are in the cache",
          "[controller][B03][B05][C12][D8]") {
  for (const Kind kind : {Kind::kJob, Kind::kGroup, Kind::kPod}) {
    INFO("lagging view " << static_cast<int>(kind));
    Cluster cluster;
    cluster.create_job("gpt", 2);
    cluster.step();
    cluster.lagging = {kind};
    cluster.settle(seconds{600});
    const int written = cluster.writes;
    CHECK(cluster.requests["POST pods"] <= 2);
    CHECK(cluster.requests["PATCH trainingjobs/status"] <= 2);
    cluster.settle(seconds{600});
    CHECK(cluster.writes == written);
    cluster.lagging = {};
    cluster.settle(seconds{60});
    CHECK(status_of(cluster, "gpt")["phase"] == "Running");
    CHECK(status_of(cluster, "gpt")["attempt"] == 1);
  }
}

TEST_CASE("controller: a refusal stands in status with the server's words, and is tried again",
          "[controller][A35]") {
  Cluster cluster;
  bool is_full = true;
  cluster.fault = [&](const kube::HttpRequest& request) {
    const bool is_pod = request.method == kube::Method::kPost && request.target.ends_with("/pods");
    return is_full && is_pod ? Fault::kForbidden : Fault::kNone;
  };
  cluster.create_job("gpt", 2);
  cluster.settle(seconds{300});
  const json status = status_of(cluster, "gpt");
  CHECK(status["phase"] == "Stalled");
  CHECK(status["message"].get<std::string>().find("exceeded quota: team") != std::string::npos);
  CHECK(cluster.requests["POST pods"] <= 2 * 12);  // 5, 10, 20, 40, 60, 60 … s
  CHECK(cluster.requests["PATCH trainingjobs/status"] == 2);
  is_full = false;
  cluster.settle(seconds{120});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
}

TEST_CASE("controller: the more gangs run, the less often each reports", "[controller][B15]") {
  Cluster cluster;
  cluster.options.writes_per_second_max = 1;
  cluster.start_operator();
  const auto interval = [&](const std::string& name) {
    return cluster.get(resources::kWorkerGroups, name)["spec"]["reportSeconds"].get<int>();
  };
  for (int i = 0; i < 5; ++i) cluster.create_job("a" + std::to_string(i), 1);
  cluster.settle(seconds{60});
  CHECK(interval("a0") == 10);  // five reports and five statuses in ten seconds
  for (int i = 0; i < 5; ++i) cluster.create_job("b" + std::to_string(i), 1);
  cluster.settle(seconds{60});
  CHECK(interval("a0") == 20);
  CHECK(interval("b4") == 20);
  const int before = cluster.writes;
  cluster.settle(seconds{600});
  CHECK(cluster.writes == before);
  cluster.start_operator();  // another process comes to the same interval without a write
  cluster.settle(seconds{600});
  CHECK(cluster.writes == before);
  cluster.finish_pods();
  cluster.settle(seconds{60});
  cluster.create_job("c", 1);
  cluster.settle(seconds{60});
  CHECK(interval("c") == 10);
}

TEST_CASE("controller: throttling is obeyed", "[controller]") {
  Cluster cluster;
  int refused = 0;
  cluster.fault = [&](const kube::HttpRequest&) {
    return refused++ < 1 ? Fault::kThrottled : Fault::kNone;
  };
  cluster.create_job("gpt");
  cluster.settle(seconds{6});
  CHECK(sum(cluster.requests) == 1);
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
}

TEST_CASE("controller: a bad child of one job never stops the others", "[controller][B25]") {
  Cluster cluster;
  cluster.create_job("bad");
  cluster.create_job("good");
  cluster.fault = [](const kube::HttpRequest& request) {
    return request.target.find("/bad") != std::string::npos ? Fault::kForbidden : Fault::kNone;
  };
  cluster.settle(seconds{60});
  CHECK(status_of(cluster, "good")["phase"] == "Running");
}

TEST_CASE("controller: an end is counted once, by its result", "[controller][E9]") {
  Cluster cluster;
  cluster.create_job("gpt", 2);
  cluster.settle(seconds{60});
  CHECK(cluster.loop->metrics().find("pawl_jobs_finished_total{") == std::string::npos);
  cluster.finish_pods();
  cluster.settle(seconds{600});
  CHECK(status_of(cluster, "gpt")["phase"] == "Complete");
  CHECK(cluster.loop->metrics().find("pawl_jobs_finished_total{result=\"Complete\"} 1\n") !=
        std::string::npos);
}

TEST_CASE("controller: somebody else's ServiceAccount in the way is named, and left alone",
          "[controller][B22][D4]") {
  Cluster cluster;
  cluster.call(
      kube::create_request(resources::kServiceAccounts, "team",
                           {{"apiVersion", "v1"},
                            {"kind", "ServiceAccount"},
                            {"metadata", {{"name", "gpt-pawl-worker"}, {"namespace", "team"}}}}));
  cluster.create_job("gpt");
  cluster.settle(seconds{20});
  const json status = status_of(cluster, "gpt");
  CHECK(status["phase"] == "Stalled");
  CHECK(status["reason"] == "NameConflict");
  CHECK(status["message"].get<std::string>().find("gpt-pawl-worker") != std::string::npos);
  CHECK(cluster.all(resources::kServiceAccounts).size() == 1);
  CHECK(cluster.all(resources::kPods).empty());
}

TEST_CASE("controller: what --cascade=orphan leaves is deleted; nobody else's pod is",
          "[controller]") {
  Cluster cluster;
  cluster.create_job("gpt");
  cluster.create_job("other");
  cluster.settle(seconds{30});
  const json job = cluster.get(resources::kTrainingJobs, "gpt");
  cluster.call(kube::delete_request(resources::kTrainingJobs, "team", "gpt",
                                    {.uid = job["metadata"]["uid"], .propagation = "Orphan"}));
  cluster.settle(seconds{60});
  CHECK(cluster.all(resources::kTrainingJobs).size() == 1);
  CHECK(cluster.all(resources::kPods).size() == 2);
  CHECK(cluster.all(resources::kWorkerGroups).size() == 1);
  CHECK(cluster.all(resources::kRoles).size() == 1);
  CHECK(status_of(cluster, "other")["phase"] == "Running");
}

TEST_CASE("controller: an orphan that is gone already is not asked for again and again",
          "[controller][B03]") {
  Cluster cluster;
  cluster.create_job("gpt");
  cluster.settle(seconds{30});
  const json job = cluster.get(resources::kTrainingJobs, "gpt");
  const json group = cluster.get(resources::kWorkerGroups, "gpt");
  cluster.fault = [](const kube::HttpRequest&) { return Fault::kUnavailable; };
  cluster.call(kube::delete_request(resources::kTrainingJobs, "team", "gpt",
                                    {.uid = job["metadata"]["uid"], .propagation = "Orphan"}));
  for (int i = 0; i < 20; ++i) cluster.step();
  REQUIRE(cluster.get(resources::kWorkerGroups, "gpt")["metadata"]
              .value("ownerReferences", json())
              .empty());
  cluster.lagging = {Kind::kGroup};
  SECTION("deleted by somebody else") {
    cluster.call(kube::delete_request(resources::kWorkerGroups, "team", "gpt",
                                      {.uid = group["metadata"]["uid"]}));
  }
  SECTION("given to somebody else") {
    cluster.call(
        kube::merge_patch_request(resources::kWorkerGroups, "team", "gpt",
                                  {{"metadata", {{"labels", {{"pawl.dev/job-uid", nullptr}}}}}}));
  }
  cluster.fault = nullptr;
  cluster.requests.clear();
  for (int i = 0; i < 300; ++i) {
    if (!cluster.step()) cluster.clock.advance(std::chrono::milliseconds{100});
  }
  CHECK(cluster.requests["GET workergroups"] > 0);
  CHECK(cluster.requests["GET workergroups"] < 10);
  cluster.lagging.clear();
  cluster.settle(seconds{60});
}

TEST_CASE("controller: a job of the same name comes up after its predecessor is collected",
          "[controller][B01][A26][H8]") {
  Cluster cluster;
  cluster.create_job("gpt");
  cluster.settle(seconds{30});
  const json job = cluster.get(resources::kTrainingJobs, "gpt");
  cluster.call(kube::delete_request(resources::kTrainingJobs, "team", "gpt",
                                    {.uid = job["metadata"]["uid"]}));
  cluster.create_job("gpt", 3);
  cluster.settle(seconds{120});
  const json status = status_of(cluster, "gpt");
  CHECK(status["phase"] == "Running");
  CHECK(status["ready"] == "3/3");
  CHECK(status["attempt"] == 1);
  CHECK(cluster.all(resources::kPods).size() == 3);
}

TEST_CASE("controller: one large job sends a bounded wave, and a small one gets through beside it",
          "[controller][F9]") {
  Cluster cluster;
  cluster.create_job("large", 200);
  cluster.create_job("small", 1);
  cluster.settle(seconds{60});
  CHECK(status_of(cluster, "large")["ready"] == "200/200");
  CHECK(status_of(cluster, "small")["ready"] == "1/1");
  CHECK(cluster.in_flight_max <= 2 * 16);
}

TEST_CASE("controller: events are best effort", "[controller]") {
  Cluster cluster;
  cluster.fault = [](const kube::HttpRequest& request) {
    return request.target.find("/events") != std::string::npos ? Fault::kForbidden : Fault::kNone;
  };
  cluster.create_job("gpt");
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  CHECK(cluster.all(resources::kEvents).empty());
}

TEST_CASE("controller: a pod deleted by a user starts a free attempt", "[controller][B26]") {
  Cluster cluster;
  cluster.create_job("gpt");
  cluster.settle(seconds{30});
  const json pod = cluster.get(resources::kPods, "gpt-1-0-0");
  cluster.call(
      kube::delete_request(resources::kPods, "team", "gpt-1-0-0", {.uid = pod["metadata"]["uid"]}));
  cluster.settle(seconds{60});
  const json status = status_of(cluster, "gpt");
  CHECK(status["phase"] == "Running");
  CHECK(status["attempt"] == 2);
  CHECK(status["restarts"]["byCause"]["Deleted"] == 1);
  CHECK(status["lastFailure"]["pod"] == "gpt-1-0-0");
  CHECK(cluster.loop->metrics().find("pawl_restarts_total{budget=\"free\"} 1") !=
        std::string::npos);
  CHECK(cluster.loop->metrics().find("pawl_jobs{phase=\"Running\"} 1") != std::string::npos);
}

TEST_CASE("controller: each plan with something to do says why in one log line", "[controller]") {
  Cluster cluster;
  cluster.create_job("gpt");
  cluster.settle(seconds{30});
  REQUIRE_FALSE(cluster.log_lines.empty());
  const json line = parse_json(cluster.log_lines.front());
  CHECK(line["event"] == "plan");
  CHECK(line["job"] == "gpt");
  CHECK(line["why"] == "Starting: starting 2 workers");
}

TEST_CASE("controller: a long message of a foreign tongue goes out whole characters",
          "[controller]") {
  Cluster cluster;
  cluster.create_job("gpt", 1);
  cluster.settle(seconds{30});
  std::string words;
  for (int i = 0; i < 600; ++i) words += "\xc3\xa9";
  cluster.set_pod_status("gpt-1-0-0",
                         {{"phase", "Failed"}, {"reason", "Evicted"}, {"message", words}});
  cluster.settle(seconds{60});
  CHECK(status_of(cluster, "gpt")["attempt"] == 2);
  bool is_told = false;
  for (const json& event : cluster.all(resources::kEvents)) {
    is_told = is_told || event["reason"] == "Restarting";
    CHECK_NOTHROW(event.dump());
  }
  CHECK(is_told);
}

TEST_CASE("controller: a label or owner that somebody took away is given back",
          "[controller][B25]") {
  const json no_label = {{"metadata", {{"labels", {{"app.kubernetes.io/managed-by", "me"}}}}}};
  const json no_owner = {{"metadata", {{"ownerReferences", nullptr}}}};
  for (const json& edit : {no_label, no_owner}) {
    INFO(edit.dump());
    Cluster cluster;
    cluster.create_job("gpt", 2);
    cluster.settle(seconds{30});
    const std::string uid = cluster.get(resources::kPods, "gpt-1-0-0")["metadata"]["uid"];
    cluster.call(kube::merge_patch_request(resources::kPods, "team", "gpt-1-0-0", edit));
    cluster.settle(seconds{60});
    const json meta = cluster.get(resources::kPods, "gpt-1-0-0")["metadata"];
    CHECK(meta["uid"] == uid);
    CHECK(meta["labels"]["app.kubernetes.io/managed-by"] == "pawl");
    CHECK(meta["ownerReferences"].size() == 1);
    CHECK(status_of(cluster, "gpt")["attempt"] == 1);
    cluster.finish_pods();
    cluster.settle(seconds{60});
    check_complete(cluster, "gpt");
  }
}
