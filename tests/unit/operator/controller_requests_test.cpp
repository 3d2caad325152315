// What the controller asks the API server for, how often, and what it makes of the answers.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <utility>

#include "tests/unit/operator/cluster.h"

using namespace pawl;
using namespace pawl::test;
using nlohmann::json;
using std::chrono::seconds;
namespace resources = kube::resources;

TEST_CASE(
    "controller: whoever touches a job all the time does not keep its status from being written",
    "[controller][B20]") {
  Cluster cluster;
  int touches = 0;
  cluster.fault = [&](const kube::HttpRequest& request) {
    // Before each first try; the read and the second try follow each other closely.
    const bool is_status = request.target.ends_with("/status");
    if (is_status && ++touches % 2 == 1) {
      cluster.patch_job("gpt",
                        {{"metadata", {{"annotations", {{"tick", std::to_string(touches)}}}}}});
    }
    return Fault::kNone;
  };
  cluster.create_job("gpt", 2);
  cluster.settle();  // no time passes: nothing waits for a back-off
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  CHECK(cluster.requests["PATCH trainingjobs/status"] == 6);
  CHECK(cluster.requests["GET trainingjobs"] == 3);
}

TEST_CASE("controller: after a conflict a status is not written to a job that has changed",
          "[controller][I15]") {
  Cluster cluster;
  bool is_first = true;
  cluster.fault = [&](const kube::HttpRequest& request) {
    if (request.target.ends_with("/status") && std::exchange(is_first, false)) {
      cluster.patch_job("gpt", {{"spec", {{"suspend", true}}}});
    }
    return Fault::kNone;
  };
  cluster.create_job("gpt", 2);
  cluster.settle(seconds{60});
  CHECK(status_of(cluster, "gpt")["phase"] == "Suspended");
  CHECK(cluster.requests["POST pods"] == 0);
}

TEST_CASE("controller: after a write without an answer nothing is decided on the view before it",
          "[controller][B03][B14]") {
  Cluster cluster;
  bool was_lost = false;
  cluster.fault = [&](const kube::HttpRequest& request) {
    const bool is_record = request.method == kube::Method::kPatch &&
                           request.target.find("workergroups") != std::string::npos;
    if (!is_record || std::exchange(was_lost, true)) return Fault::kNone;
    cluster.lagging.insert(controller::Kind::kGroup);
    return Fault::kLoseReply;
  };
  cluster.create_job("gpt", 1);
  cluster.settle(seconds{1});
  REQUIRE(was_lost);
  const json pod = cluster.get(kube::resources::kPods, "gpt-1-0-0");
  cluster.call(kube::delete_request(kube::resources::kPods, "team", "gpt-1-0-0",
                                    {.uid = pod["metadata"]["uid"], .grace_seconds = 0}));
  cluster.settle(seconds{30});
  CHECK(cluster.requests["POST pods"] == 1);
  cluster.lagging.clear();
  cluster.settle(seconds{60});
  CHECK(status_of(cluster, "gpt")["attempt"] == 2);
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
}

TEST_CASE(
    "controller: a status that an older definition keeps in part is not written over and over",
    "[controller][B19]") {
  Cluster cluster;
  cluster.create_job("gpt", 2);
  cluster.kept = [](json& status) { status.erase("selector"); };
  cluster.settle(seconds{600});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  CHECK(cluster.requests["PATCH trainingjobs/status"] <= 16);  // 5, 10, 20, 40, 60, 60 … s
  CHECK(std::ranges::any_of(cluster.log_lines, [](const std::string& line) {
    return line.find("apply the crds/ of this release") != std::string::npos;
  }));
  cluster.kept = nullptr;
  cluster.settle(seconds{120});
  const int written = cluster.writes;
  cluster.settle(seconds{600});
  CHECK(cluster.writes == written);
}

TEST_CASE("controller: a start asks for each thing once", "[controller]") {
  Cluster cluster;
  cluster.create_job("gpt", 4);
  cluster.settle(seconds{30});
  CHECK(cluster.requests == std::map<std::string, int>{{"PATCH trainingjobs/status", 3},
                                                       {"PATCH workergroups", 1},
                                                       {"POST events", 1},
                                                       {"POST poddisruptionbudgets", 1},
                                                       {"POST pods", 4},
                                                       {"POST rolebindings", 1},
                                                       {"POST roles", 1},
                                                       {"POST serviceaccounts", 1},
                                                       {"POST workergroups", 1}});
}

TEST_CASE("controller: a refused disruption budget does not keep a gang from running",
          "[controller]") {
  Cluster cluster;
  cluster.fault = [](const kube::HttpRequest& request) {
    const bool is_it = request.target.find("/poddisruptionbudgets") != std::string::npos;
    return is_it ? Fault::kForbidden : Fault::kNone;
  };
  cluster.create_job("gpt", 2);
  cluster.settle(seconds{30});
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  CHECK(cluster.requests["POST poddisruptionbudgets"] == 1);
  CHECK(cluster.requests["POST events"] == 2);
}

TEST_CASE("controller: a disruption budget that keeps another number of pods is changed",
          "[controller][I2]") {
  Cluster cluster;
  cluster.create_job("gpt", 4);
  cluster.settle(seconds{30});
  const auto budget = [&] { return cluster.all(resources::kPodDisruptionBudgets).at(0); };
  CHECK(budget()["spec"]["minAvailable"] == 3);
  const std::string name = budget()["metadata"]["name"];
  const json other =
      GENERATE(json{{"minAvailable", 1}}, json{{"minAvailable", nullptr}, {"maxUnavailable", 1}},
               json{{"minAvailable", "50%"}}, json{{"minAvailable", 3}});
  cluster.call(
      kube::merge_patch_request(resources::kPodDisruptionBudgets, "team", name, {{"spec", other}}));
  cluster.requests.clear();
  for (const bool is_suspended : {true, false}) {
    cluster.patch_job("gpt", {{"spec", {{"suspend", is_suspended}}}});
    cluster.settle(seconds{60});
  }
  CHECK(status_of(cluster, "gpt")["attempt"] == 2);
  CHECK(status_of(cluster, "gpt")["phase"] == "Running");
  CHECK(budget()["spec"]["minAvailable"] == 3);
  CHECK_FALSE(budget()["spec"].contains("maxUnavailable"));
  CHECK(cluster.requests["GET poddisruptionbudgets"] == 1);
  CHECK(cluster.requests["PATCH poddisruptionbudgets"] == (other["minAvailable"] == 3 ? 0 : 1));
}
