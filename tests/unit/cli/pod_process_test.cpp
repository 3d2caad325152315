#include "cli/local/pod_process.h"
#include "common/base/json.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::local;
using nlohmann::json;

namespace {

json pod_with(const json& container) {
  return {
      {"metadata",
       {{"name", "p"}, {"namespace", "ns"}, {"uid", "u"}, {"labels", {{"pawl.dev/slot", "3"}}}}},
      {"spec", {{"nodeName", "local"}, {"containers", {container}}}}};
}

const PodPlace kPlace{"/run/p",
                      "/run/p.log",
                      "http://127.0.0.1:1",
                      4711,
                      {{"PATH", "/bin"}, {"RANK", "9"}, {"PAWL_X", "y"}}};

}  // namespace

TEST_CASE("pod_process: variables are resolved as the kubelet does", "[cli]") {
  const json env = {
      {{"name", "NAME"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}},
      {{"name", "UID"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.uid"}}}}}},
      {{"name", "IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}},
      {{"name", "SLOT"},
       {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.labels['pawl.dev/slot']"}}}}}},
      {{"name", "FULL"}, {"value", "$(NAME)-$(SLOT)-$(NOBODY)-$$(NAME)-$x"}},
      {{"name", "PAWL_HEALTH_PORT"}, {"value", "8471"}}};
  const auto process = process_of(pod_with({{"name", "worker"},
                                            {"command", {"sh", "$(NAME)"}},
                                            {"args", {"$(SLOT)"}},
                                            {"env", env}}),
                                  kPlace);
  REQUIRE(process.has_value());
  auto environment = process->environment;
  CHECK(environment["NAME"] == "p");
  CHECK(environment["UID"] == "u");
  CHECK(environment["IP"] == "127.0.0.1");
  CHECK(environment["FULL"] == "p-3-$(NOBODY)-$(NAME)-$x");
  CHECK(environment["PATH"] == "/bin");
  CHECK(environment["PAWL_HEALTH_PORT"] == "4711");
  CHECK(environment["PAWL_TOKEN_FILE"] == "/run/p/token");
  CHECK(environment["PAWL_API_SERVER"] == "http://127.0.0.1:1");
  CHECK(environment.count("RANK") == 0);
  CHECK(environment.count("PAWL_X") == 0);
  CHECK(process->command == std::vector<std::string>{"sh", "p", "3"});
}

TEST_CASE("pod_process: what needs a container is refused by name", "[cli]") {
  struct Case {
    json change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{{"spec", {{"initContainers", {{{"name", "i"}}}}}}}, "spec.initContainers"},
      {{{"spec", {{"containers", {{{"name", "a"}}, {{"name", "b"}}}}}}}, "side cars"},
      {{{"spec", {{"containers", {{{"name", "a"}}}}}}}, "command"},
      {{{"spec",
         {{"containers",
           {{{"name", "a"},
             {"command", {"x"}},
             {"envFrom", {{{"secretRef", {{"name", "s"}}}}}}}}}}}},
       "envFrom"},
      {{{"spec",
         {{"containers",
           {{{"name", "a"},
             {"command", {"x"}},
             {"env", {{{"name", "E"}, {"valueFrom", {{"secretKeyRef", {{"name", "s"}}}}}}}}}}}}}},
       "secretKeyRef"},
  };
  for (const Case& one : cases) {
    json pod = pod_with({{"name", "worker"}, {"command", {"true"}}});
    pod.merge_patch(one.change);
    INFO(pod.dump());
    const auto process = process_of(pod, kPlace);
    REQUIRE_FALSE(process.has_value());
    CHECK(process.error().message.find(one.message) != std::string::npos);
  }
}
