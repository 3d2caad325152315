#include <catch2/catch_test_macros.hpp>

#include "common/api/codec.h"
#include "common/api/validate.h"
#include "samples.h"

namespace pawl::api {
namespace {

using nlohmann::json;

TEST_CASE("codec: a WorkerGroup with every field set survives encode and decode", "[api]") {
  const WorkerGroup group = samples::full_group();
  const Result<WorkerGroup> decoded = decode_worker_group(encode_worker_group(group));
  REQUIRE(decoded.has_value());
  CHECK(decoded->meta == group.meta);
  CHECK(decoded->spec == group.spec);
  CHECK(decoded->status == group.status);
}

TEST_CASE("codec: a WorkerGroup with nothing set survives encode and decode", "[api]") {
  const WorkerGroup group;
  const Result<WorkerGroup> decoded = decode_worker_group(encode_worker_group(group));
  REQUIRE(decoded.has_value());
  CHECK(*decoded == group);
}

TEST_CASE("codec: what is encoded is what the schema accepts", "[api]") {
  CHECK(join_errors(validate_worker_group(encode_worker_group(samples::full_group()))) == "");
  CHECK(join_errors(validate_training_job(encode_training_job(samples::full_job()))) == "");
}

TEST_CASE(
    "codec: an encoded record clears the lists of an earlier one when it is used as a merge patch",
    "[api]") {
  json record = encode_status(samples::full_group().status);
  WorkerGroupStatus next = samples::full_group().status;
  next.members.clear();
  next.failures.clear();
  next.is_finished = false;
  record.merge_patch(encode_status(next));
  const Result<WorkerGroup> decoded = decode_worker_group({{"status", record}});
  REQUIRE(decoded.has_value());
  CHECK(decoded->status == next);
}

TEST_CASE("codec: a wrong type in a WorkerGroup names the field", "[api]") {
  struct Row {
    const char* pointer;
    json value;
    const char* field;
  };
  const std::vector<Row> rows = {
      {"/spec/attempt", "1", "spec.attempt"},
      {"/spec/pods", json::object(), "spec.pods"},
      {"/spec/pods/1/uid", 7, "spec.pods[1].uid"},
      {"/spec/stopping", 1, "spec.stopping"},
      {"/status/generation", 1.5, "status.generation"},
      {"/status/leader", "me", "status.leader"},
      {"/status/leader/start", 1, "status.leader.start"},
      {"/status/members/0/rank", "0", "status.members[0].rank"},
      {"/status/base/members/1/uid", false, "status.base.members[1].uid"},
      {"/status/lineage/1/startStep", "9", "status.lineage[1].startStep"},
      {"/status/failures/0/exitCode", "1", "status.failures[0].exitCode"},
      {"/status/checkpoint/time", "now", "status.checkpoint.time"},
  };
  for (const Row& row : rows) {
    json object = encode_worker_group(samples::full_group());
    object[json::json_pointer(row.pointer)] = row.value;
    const Result<WorkerGroup> group = decode_worker_group(object);
    INFO(row.pointer << " = " << row.value.dump());
    REQUIRE_FALSE(group.has_value());
    CHECK(group.error().message.starts_with(std::string(row.field) + ": "));
  }
}

TEST_CASE("tally: of two readings the later counts, and words are bounded", "[api][I38]") {
  Recoveries count;
  count.in_place = 2;
  count.by_cause = {{"Hang", 2}};
  Recoveries other;
  other.in_place = 3;
  other.by_cause = {{"Hang", 1}, {"Signal", 2}};
  raise(count, other);
  CHECK(count.in_place == 3);
  CHECK(count.by_cause == std::map<std::string, int>{{"Hang", 2}, {"Signal", 2}});
  // Whatever a pod writes into the record, the job's status stays writable.
  std::map<std::string, int> lost{{"Redone", 1}}, forged{{"Redone", 5}};
  for (int i = 0; i < 100; ++i) forged["word " + std::to_string(i)] = 1;
  raise(lost, forged);
  CHECK(lost.size() == 24);
  CHECK(lost.at("Redone") == 5);
}

}  // namespace
}  // namespace pawl::api
