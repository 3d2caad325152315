#include "cli/cluster/snapshot.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cli/scripted_api.h"
#include "tests/unit/cli/snapshot_fixture.h"

using namespace pawl;
using namespace pawl::cli;
using nlohmann::json;

namespace {

const std::string kJob = "/apis/pawl.dev/v1alpha1/namespaces/team-a/trainingjobs/gpt";
const std::string kGroup = "/apis/pawl.dev/v1alpha1/namespaces/team-a/workergroups/gpt";
const std::string kPods =
    "/api/v1/namespaces/team-a/pods?labelSelector=pawl.dev%2Fjob-uid%3Djob-uid&limit=500";
const std::string kEvents = "/api/v1/namespaces/team-a/events?limit=500";

json owned(const std::string& uid) {
  return json::array(
      {{{"kind", "TrainingJob"}, {"name", "gpt"}, {"uid", uid}, {"controller", true}}});
}

json pod(const std::string& name, const std::string& uid) {
  return {{"metadata",
           {{"name", name},
            {"namespace", "team-a"},
            {"uid", uid},
            {"ownerReferences", owned("job-uid")}}},
          {"spec", {{"containers", json::array({{{"name", "worker"}}})}}},
          {"status", {{"phase", "Running"}}}};
}

json event(const std::string& uid, const std::string& reason, const std::string& time) {
  return {{"type", "Warning"},
          {"reason", reason},
          {"lastTimestamp", time},
          {"involvedObject", {{"kind", "Pod"}, {"name", "a"}, {"uid", uid}}}};
}

struct Api : ScriptedApi {
  Api() {
    answer(kJob, {{"metadata", {{"name", "gpt"}, {"namespace", "team-a"}, {"uid", "job-uid"}}},
                  {"spec", json::object()}});
    answer(kGroup,
           {{"metadata", {{"name", "gpt"}, {"uid", "g"}, {"ownerReferences", owned("job-uid")}}},
            {"spec", {{"attempt", 1}}}});
    answer_list(kPods, {pod("gpt-2-10-0", "c"), pod("gpt-2-9-0", "b"), pod("gpt-1-0-10", "e"),
                        pod("gpt-1-0-9", "d")});
    answer_list(kEvents, {event("b", "Later", "2026-11-21T10:00:05Z"),
                          event("job-uid", "Early", "2026-11-21T10:00:00Z"),
                          event("somebody-else", "Foreign", "2026-11-21T10:00:01Z")});
  }
  Connection connection{*this, {"https://x", ""}, "team-a"};
};

}  // namespace

TEST_CASE("snapshot: the job's own things, in order", "[cli]") {
  Api api;
  RawSnapshot raw;
  const auto snapshot =
      take_snapshot(api.connection, "gpt", {.events = true, .nodes = true}, TimePoint{}, &raw);
  REQUIRE(snapshot);
  CHECK(snapshot->unread.empty());
  CHECK(snapshot->group.has_value());
  REQUIRE(snapshot->workers.size() == 4);
  CHECK(snapshot->workers[0].pod.meta.name == "gpt-1-0-9");
  CHECK(snapshot->workers[1].pod.meta.name == "gpt-1-0-10");
  CHECK(snapshot->workers[2].slot == 9);
  CHECK(snapshot->workers[3].slot == 10);
  REQUIRE(snapshot->events.size() == 2);
  CHECK(snapshot->events[0].reason == "Early");
  CHECK(raw.pods.size() == 4);
  CHECK(raw.events.size() == 2);
  CHECK(raw.group["metadata"]["name"] == "gpt");
}

TEST_CASE("snapshot: somebody else's WorkerGroup is not the job's", "[cli]") {
  Api api;
  api.answer(kGroup,
             {{"metadata", {{"name", "gpt"}, {"uid", "g"}, {"ownerReferences", owned("another")}}},
              {"spec", {{"attempt", 1}}}});
  CHECK_FALSE(take_snapshot(api.connection, "gpt", {}, TimePoint{})->group.has_value());
}

TEST_CASE("snapshot: what may not be read is named, the rest is there", "[cli]") {
  Api api;
  api.refuse(kPods, 403, "pods is forbidden");
  api.refuse(kEvents, 403, "events is forbidden");
  const auto snapshot = take_snapshot(api.connection, "gpt", {.events = true}, TimePoint{});
  REQUIRE(snapshot);
  REQUIRE(snapshot->unread.size() == 2);
  CHECK(snapshot->unread[0].starts_with("pods: you may not read this"));
  CHECK(snapshot->unread[1].starts_with("events: you may not"));
}

TEST_CASE("snapshot: nodes of pods that are ending are looked at", "[cli]") {
  Api api;
  json ending = pod("gpt-1-0-0", "a");
  ending["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z";
  ending["spec"]["nodeName"] = "n1";
  json other = ending;
  other["spec"]["nodeName"] = "n2";
  api.answer_list(kPods, {ending, other});
  api.answer("/api/v1/nodes/n1",
             {{"status", {{"conditions", {{{"type", "Ready"}, {"status", "Unknown"}}}}}}});
  const auto snapshot = take_snapshot(api.connection, "gpt", {.nodes = true}, TimePoint{});
  CHECK(snapshot->nodes.at("n1").exists);
  CHECK_FALSE(snapshot->nodes.at("n1").is_ready);
  CHECK_FALSE(snapshot->nodes.at("n2").exists);
}

TEST_CASE("snapshot: a job that is not there is looked for elsewhere", "[cli]") {
  ScriptedApi api;
  Connection connection{api, {"https://x", ""}, "team-a"};
  const auto message = [&] {
    return take_snapshot(connection, "gpt", {}, TimePoint{}).error().message;
  };
  CHECK(message() == "there is no namespace team-a: correct -n");
  api.answer("/api/v1/namespaces/team-a", json::object());
  CHECK(message() == "no TrainingJob gpt in namespace team-a: `pawl status` lists what there is");
  const std::string all = "/apis/pawl.dev/v1alpha1/namespaces/team-a/trainingjobs?limit=500";
  api.answer_list(all, {});
  CHECK(message() == "no TrainingJob gpt in namespace team-a, nor any other");
  std::vector<json> jobs;
  const auto add_job = [&](int i) {
    const json metadata = {{"name", "job-" + std::to_string(i)}};
    jobs.push_back(json{{"metadata", metadata}});
    api.answer_list(all, jobs);
  };
  add_job(0);
  CHECK(message() == "no TrainingJob gpt in namespace team-a; there is job-0");
  for (int i = 1; i < 10; ++i) add_job(i);
  CHECK(
      message() ==
      "no TrainingJob gpt in namespace team-a; there are job-0, job-1, job-2, job-3, job-4, job-5, "
      "job-6, job-7 and 2 more");
  api.answer_list(
      "/apis/pawl.dev/v1alpha1/trainingjobs?fieldSelector=metadata.name%3Dgpt&limit=500",
      {{{"metadata", {{"name", "gpt"}, {"namespace", "team-b"}}}}});
  CHECK(message() ==
        "no TrainingJob gpt in namespace team-a; there is one in namespace team-b: add -n team-b");
  api.answer(kJob, "404 page not found", 404);
  CHECK(message().find("does not know TrainingJob") != std::string::npos);
}

TEST_CASE("snapshot: ranks are the gang's", "[cli]") {
  SnapshotFixture fixture;
  fixture.add_workers(2);
  CHECK(ranks_text(fixture.snapshot(), fixture.workers[0].pod) == "-");
  fixture.form_gang({1, 0});
  CHECK(ranks_text(fixture.snapshot(), fixture.workers[0].pod) == "1");
  fixture.job.spec.processes_per_worker = 8;
  CHECK(ranks_text(fixture.snapshot(), fixture.workers[0].pod) == "8-15");
  fixture.group->status.attempt = 1;  // of the attempt before: its members are not these
  CHECK(ranks_text(fixture.snapshot(), fixture.workers[0].pod) == "-");
  CHECK(job_name_of("tj/gpt") == "gpt");
  CHECK(job_name_of("trainingjobs.pawl.dev/gpt") == "gpt");
  CHECK(job_name_of("gpt") == "gpt");
  CHECK(job_name_of("pod/gpt") == "pod/gpt");
}
