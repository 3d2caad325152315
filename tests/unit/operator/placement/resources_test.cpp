// What pods ask for, as kube-scheduler counts it.
#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "common/base/json.h"
#include "operator/placement/resources.h"

using namespace pawl::placement;
using nlohmann::json;

TEST_CASE("resources: quantities as Kubernetes writes them", "[placement]") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  struct Row {
    const char* text;
    std::int64_t scale;
    std::optional<std::int64_t> value;
  };
  const Row rows[] = {
      {"0", 1, 0},
      {"8", 1, 8},
      {"500m", 1'000, 500},
      {"0.1", 1'000, 100},
      {"1.0005", 1'000, 1'001},  // up
      {"1u", 1'000, 1},
      {"100n", 1, 1},
      {"2e3", 1, 2'000},
      {"2E3", 1, 2'000},
      {"25E-1", 1, 3},
      {"3E", 1, 3'000'000'000'000'000'000},
      {"1.5Gi", 1, 1'610'612'736},
      {"0.3Gi", 1, 322'122'548},  // 322122547.2
      {"7Ei", 1, 8'070'450'532'247'928'832},
      {"8Ei", 1, kMost},
      {"1e400", 1, kMost},
      {"0e400", 1, 0},
      {"99999999999999999999", 1, kMost},
      {"0.00000000000000000000001", 1, 1},
      {"128974848", 1, 128'974'848},
      {"129M", 1, 129'000'000},
      {".5", 1'000, 500},
      {"5.", 1, 5},
      {"+5", 1, 5},
      {"-5", 1, 0},
      {"", 1, std::nullopt},
      {".", 1, std::nullopt},
      {"Gi", 1, std::nullopt},
      {"1Q", 1, std::nullopt},
      {"1e", 1, std::nullopt},
      {"1.0000000000000000000000", 1'000, 1'000},
      {"1 Gi", 1, std::nullopt},
      {"1.2.3", 1, std::nullopt},
  };
  for (const Row& row : rows) {
    INFO(row.text << " times " << row.scale);
    CHECK(parse_quantity(row.text, row.scale) == row.value);
  }
}

TEST_CASE("resources: what a pod needs while it starts may be more than what it runs with",
          "[placement]") {
  const auto container = [](const char* name, const char* cpu, const char* memory) -> json {
    return {{"name", name}, {"resources", {{"requests", {{"cpu", cpu}, {"memory", memory}}}}}};
  };
  json pod = {{"spec",
               {{"containers", {container("a", "1", "1Gi"), container("b", "500m", "1Gi")}},
                {"initContainers", {container("load", "250m", "8Gi")}}}}};
  Resources requests = requests_of(pod);
  CHECK(requests == Resources{{"cpu", 1'500}, {"memory", 8LL << 30}, {"pods", 1}});

  // A sidecar runs beside all that come after it.
  json sidecar = container("proxy", "100m", "1Gi");
  sidecar["restartPolicy"] = "Always";
  json& init = pod["spec"]["initContainers"];
  SECTION("which begins before the others") {
    init.insert(init.begin(), sidecar);
    CHECK(requests_of(pod) == Resources{{"cpu", 1'600}, {"memory", 9LL << 30}, {"pods", 1}});
  }
  SECTION("which begins after them") {
    init.push_back(sidecar);
    CHECK(requests_of(pod) == Resources{{"cpu", 1'600}, {"memory", 8LL << 30}, {"pods", 1}});
  }
  SECTION("and its runtime class needs something itself") {
    pod["spec"]["overhead"] = {{"cpu", "50m"}, {"memory", "64Mi"}};
    CHECK(requests_of(pod) ==
          Resources{{"cpu", 1'550}, {"memory", (8LL << 30) + (64LL << 20)}, {"pods", 1}});
  }
  SECTION("and the pod as a whole asks for something else") {
    pod["spec"]["resources"]["requests"] = {{"cpu", "4"}};
    CHECK(requests_of(pod) == Resources{{"cpu", 4'000}, {"memory", 8LL << 30}, {"pods", 1}});
  }
}

TEST_CASE("resources: a limit alone is a request; a pod in a resize counts with the larger of both",
          "[placement]") {
  json pod = {{"spec",
               {{"containers",
                 {{{"name", "worker"},
                   {"resources", {{"limits", {{"nvidia.com/gpu", 8}, {"cpu", "2"}}}}}}}}}}};
  CHECK(requests_of(pod) == Resources{{"cpu", 2'000}, {"nvidia.com/gpu", 8}, {"pods", 1}});
  pod["status"]["containerStatuses"] = {
      {{"name", "worker"}, {"allocatedResources", {{"cpu", "3"}, {"nvidia.com/gpu", "8"}}}}};
  CHECK(requests_of(pod) == Resources{{"cpu", 3'000}, {"nvidia.com/gpu", 8}, {"pods", 1}});
  CHECK(requests_of(json::object()) == Resources{{"pods", 1}});
}

TEST_CASE("resources: of a node what is allocatable counts", "[placement]") {
  const json node = {{"status",
                      {{"capacity", {{"cpu", "8"}}},
                       {"allocatable", {{"cpu", "7910m"}, {"pods", "110"}, {"bad", "many"}}}}}};
  CHECK(allocatable_of(node) == Resources{{"cpu", 7'910}, {"pods", 110}});
}
