// spec.capacity: which workers' pods may come to spot nodes, which prefer them, and which never do.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "common/api/children.h"
#include "common/api/pod_scheduling.h"
#include "samples.h"

namespace pawl::api {
namespace {

using nlohmann::json;
using std::chrono::seconds;

const SpotTable kTable = {{"cloud/spot", "true", "cloud/spot"}, {"other/type", "spot", ""}};
constexpr TimePoint kNow{seconds{1'800'000'000}};

json spec_of(const TrainingJob& job, int slot, std::optional<TimePoint> now = kNow) {
  const Result<json> pod = worker_pod_of(job, 2, slot, 0, {.spot = kTable, .now = now});
  REQUIRE(pod.has_value());
  return (*pod)["spec"];
}

json required_of(json spec) {
  return spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
             ["nodeSelectorTerms"];
}

json preferred_of(json spec) {
  return spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
}

json expression(const SpotRow& row, const char* operation) {
  return {{"key", row.label}, {"operator", operation}, {"values", {row.value}}};
}

const json kNoSpot = {expression(kTable[0], "NotIn"), expression(kTable[1], "NotIn")};
const json kTolerations = json::array({{{"key", "cloud/spot"}, {"operator", "Exists"}}});

TrainingJob job_with(SpotUse spot, int on_demand_min = 0) {
  TrainingJob job = samples::observed(samples::torch_job());
  job.spec.capacity = Capacity{.spot = spot, .on_demand_min = on_demand_min};
  return job;
}

}  // namespace

TEST_CASE("capacity: without spec.capacity, or a table, the template alone decides", "[api][I41]") {
  TrainingJob job = samples::observed(samples::torch_job());
  const json plain = *worker_pod_of(job, 2, 1, 0, {});
  CHECK(spec_of(job, 1) == plain["spec"]);
  job.spec.capacity = Capacity{.spot = SpotUse::kPrefer};
  CHECK(*worker_pod_of(job, 2, 1, 0, {}) == plain);
}

TEST_CASE("capacity: a worker that is never on spot is kept out of each of the user's terms",
          "[api][I41]") {
  const TrainingJob job = job_with(SpotUse::kNever);
  CHECK(required_of(spec_of(job, 1)) == json::array({{{"matchExpressions", kNoSpot}}}));
  CHECK_FALSE(spec_of(job, 1).contains("tolerations"));

  const json zone = {{"key", "zone"}, {"operator", "In"}, {"values", {"x"}}};
  json object = samples::torch_job();
  object["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            json::array({{{"matchExpressions", {zone}}},
                         {{"matchFields", {{{"key", "metadata.name"}}}}},
                         json::object()});
  TrainingJob with_terms = samples::observed(object);
  with_terms.spec.capacity = job.spec.capacity;
  const json terms = required_of(spec_of(with_terms, 1));
  CHECK(terms[0]["matchExpressions"] ==
        json{zone, expression(kTable[0], "NotIn"), expression(kTable[1], "NotIn")});
  CHECK(terms[1]["matchExpressions"] == kNoSpot);
  CHECK(terms[2] == json::object());  // matches no node, and must not begin to
}

TEST_CASE("capacity: the first workers are never on spot, the others may be, or prefer it",
          "[api][I41]") {
  for (const SpotUse spot : {SpotUse::kAllow, SpotUse::kPrefer}) {
    const TrainingJob job = job_with(spot, 1);
    const json anchor = spec_of(job, 0), other = spec_of(job, 1);
    CHECK(required_of(anchor) == json::array({{{"matchExpressions", kNoSpot}}}));
    CHECK(preferred_of(anchor).is_null());
    CHECK_FALSE(anchor.contains("tolerations"));
    CHECK(required_of(other).is_null());
    CHECK(other["tolerations"] == kTolerations);
    CHECK(preferred_of(other).size() == (spot == SpotUse::kPrefer ? kTable.size() : 0));
    CHECK_FALSE(may_be_on_spot(job, 0));
    CHECK(may_be_on_spot(job, 1));
  }
  const json preferred = preferred_of(spec_of(job_with(SpotUse::kPrefer), 0));
  CHECK(
      preferred[0] ==
      json{{"weight", 40}, {"preference", {{"matchExpressions", {expression(kTable[0], "In")}}}}});
}

TEST_CASE("capacity: a fall-back prefers on-demand nodes until it is over, and tolerates spot",
          "[api][I41]") {
  TrainingJob job = job_with(SpotUse::kPrefer, 1);
  job.status.capacity = {.is_spot_avoided = true, .until = kNow + seconds{60}};
  const json during = spec_of(job, 1);
  CHECK(preferred_of(during) ==
        json::array({{{"weight", 80}, {"preference", {{"matchExpressions", kNoSpot}}}}}));
  CHECK(during["tolerations"] == kTolerations);
  CHECK(required_of(during).is_null());
  CHECK(preferred_of(spec_of(job, 1, kNow + seconds{60})).size() == kTable.size());
  job.status.capacity.is_spot_avoided = false;
  CHECK(preferred_of(spec_of(job, 1)).size() == kTable.size());
}

TEST_CASE("capacity: an avoided node is the worse one, spot or not", "[api][I41][I36]") {
  TrainingJob job = job_with(SpotUse::kPrefer);
  job.status.excluded_nodes = {{.name = "node-a", .cause = "Interrupted"}};
  const json preferred = preferred_of(spec_of(job, 0));
  int spot = 0;
  for (const json& term : preferred) {
    if (term["preference"].contains("matchExpressions")) spot += term["weight"].get<int>();
  }
  CHECK(spot < preferred[0]["weight"].get<int>());
}

}  // namespace pawl::api
