#include <catch2/catch_test_macros.hpp>

#include "common/api/codec.h"
#include "samples.h"

namespace pawl::api {
namespace {

using nlohmann::json;

TEST_CASE("codec: a TrainingJob with every field set survives encode and decode", "[api]") {
  const TrainingJob job = samples::full_job();
  const Result<TrainingJob> decoded = decode_training_job(encode_training_job(job));
  REQUIRE(decoded.has_value());
  CHECK(decoded->meta == job.meta);
  CHECK(decoded->spec == job.spec);
  CHECK(decoded->status == job.status);
}

TEST_CASE("codec: spot machines survive encode and decode", "[api][I41]") {
  TrainingJob job = samples::observed(samples::native_job());
  job.spec.capacity = Capacity{.spot = SpotUse::kPrefer, .on_demand_min = 1};
  const TimePoint now{std::chrono::seconds{1'800'000'000}};
  job.status.capacity = {.is_spot_avoided = true,
                         .since = now,
                         .until = now + std::chrono::minutes{5},
                         .times = 2,
                         .lost_since = now,
                         .lost_pods = {"a-1-1-0"}};
  const auto decoded = decode_training_job(encode_training_job(job));
  REQUIRE(decoded.has_value());
  CHECK(decoded->spec.capacity == job.spec.capacity);
  CHECK(decoded->status.capacity == job.status.capacity);
  const Capacity never{};
  job.spec.capacity = never;
  job.status.capacity = {};
  const nlohmann::json object = encode_training_job(job);
  CHECK_FALSE(object["status"].contains("capacity"));
  CHECK(decode_training_job(object)->spec.capacity == never);
}

TEST_CASE("codec: an elastic TrainingJob survives encode and decode", "[api]") {
  TrainingJob job = samples::full_job();
  job.spec.strategy = Strategy::kInPlace;
  job.spec.elastic = Elastic{.min_replicas = 2,
                             .max_replicas = 9,
                             .stabilization_seconds = 30,
                             .on_shortage = OnShortage::kFail,
                             .shortage_seconds = 7};
  const Result<TrainingJob> decoded = decode_training_job(encode_training_job(job));
  REQUIRE(decoded.has_value());
  CHECK(decoded->spec == job.spec);
}

TEST_CASE("codec: a TrainingJob with nothing set survives encode and decode", "[api]") {
  const TrainingJob job;
  const Result<TrainingJob> decoded = decode_training_job(encode_training_job(job));
  REQUIRE(decoded.has_value());
  CHECK(*decoded == job);
}

TEST_CASE("codec: decoding a TrainingJob applies the schema's defaults", "[api]") {
  const Result<TrainingJob> job = decode_training_job(samples::native_job());
  REQUIRE(job.has_value());
  CHECK(job->spec.replicas == 1);
  CHECK(job->spec.max_restarts == 6);
  CHECK_FALSE(job->spec.processes_per_worker.has_value());
  CHECK(job->spec.runtime_kind == RuntimeKind::kNative);
  CHECK_FALSE(job->spec.checkpoint.has_value());
}

TEST_CASE("codec: the number of parameter servers is kept", "[api]") {
  json object = samples::torch_job();
  object["spec"]["runtime"] = {{"kind", "TensorFlow"}, {"parameterServers", 2}};
  const Result<TrainingJob> job = decode_training_job(object);
  REQUIRE(job.has_value());
  CHECK(job->spec.parameter_servers == 2);
  CHECK(decode_training_job(encode_training_job(*job))->spec == job->spec);
}

TEST_CASE("codec: auto reads as not set", "[api]") {
  json object = samples::native_job();
  object["spec"]["processesPerWorker"] = "auto";
  object["spec"]["checkpoint"] = {{"uri", "file:///c"}, {"everySeconds", "auto"}};
  const Result<TrainingJob> job = decode_training_job(object);
  REQUIRE(job.has_value());
  CHECK_FALSE(job->spec.processes_per_worker.has_value());
  REQUIRE(job->spec.checkpoint.has_value());
  CHECK_FALSE(job->spec.checkpoint->every_seconds.has_value());
  CHECK(job->spec.checkpoint->keep == 3);
}

TEST_CASE("codec: a wrong type in a TrainingJob names the field", "[api]") {
  struct Row {
    const char* pointer;
    json value;
    const char* field;
  };
  const std::vector<Row> rows = {
      {"/metadata", 3, "metadata"},
      {"/metadata/name", 3, "metadata.name"},
      {"/metadata/labels", json{{"a", 1}}, "metadata.labels.a"},
      {"/metadata/creationTimestamp", "yesterday", "metadata.creationTimestamp"},
      {"/metadata/ownerReferences", json::array({{{"uid", 1}}}), "metadata.ownerReferences[0].uid"},
      {"/spec", json::array(), "spec"},
      {"/spec/replicas", "two", "spec.replicas"},
      {"/spec/replicas", 2.5, "spec.replicas"},
      {"/spec/replicas", 99'999'999'999LL, "spec.replicas"},
      {"/spec/suspend", "true", "spec.suspend"},
      {"/spec/processesPerWorker", "many", "spec.processesPerWorker"},
      {"/spec/template", "pod", "spec.template"},
      {"/spec/failurePolicy", 3, "spec.failurePolicy"},
      {"/spec/failurePolicy", json{{"maxRestarts", true}}, "spec.failurePolicy.maxRestarts"},
      {"/spec/checkpoint", json::object(), "spec.checkpoint.uri"},
      {"/spec/checkpoint", json{{"uri", "file:///c"}, {"keep", "3"}}, "spec.checkpoint.keep"},
      {"/spec/runtime", json{{"kind", "Magic"}}, "spec.runtime.kind"},
      {"/spec/runtime", json{{"config", 1}}, "spec.runtime.config"},
      {"/spec/ttlSecondsAfterFinished", 18446744073709551615ULL, "spec.ttlSecondsAfterFinished"},
      {"/status", 1, "status"},
      {"/status", json{{"conditions", json::object()}}, "status.conditions"},
      {"/status", json{{"progress", {{"step", "1"}}}}, "status.progress.step"},
      {"/status", json{{"restarts", {{"byCause", {{"OOM", "1"}}}}}}, "status.restarts.byCause.OOM"},
  };
  for (const Row& row : rows) {
    json object = samples::native_job();
    object[json::json_pointer(row.pointer)] = row.value;
    const Result<TrainingJob> job = decode_training_job(object);
    INFO(row.pointer << " = " << row.value.dump());
    REQUIRE_FALSE(job.has_value());
    CHECK(job.error().code == Code::kInvalid);
    CHECK(job.error().message.starts_with(std::string(row.field) + ": "));
  }
}

TEST_CASE("codec: null members and unknown members are ignored", "[api]") {
  json object = samples::native_job();
  object["spec"]["replicas"] = nullptr;
  object["spec"]["fromTheFuture"] = 1;
  const Result<TrainingJob> job = decode_training_job(object);
  REQUIRE(job.has_value());
  CHECK(job->spec.replicas == 1);
}

TEST_CASE("codec: what is no object is Invalid", "[api]") {
  for (const json& object : {json(), json(3), json::array(), json("x")}) {
    CHECK_FALSE(decode_training_job(object).has_value());
    CHECK_FALSE(decode_worker_group(object).has_value());
    CHECK_FALSE(decode_pod(object).has_value());
    CHECK_FALSE(decode_meta(object).has_value());
  }
}

TEST_CASE("codec: an encoded status has no field that is not set", "[api]") {
  const json status = encode_status(TrainingJobStatus{});
  for (const char* name :
       {"phase", "startTime", "progress", "checkpoint", "lastFailure", "conditions"}) {
    CHECK_FALSE(status.contains(name));
  }
  CHECK(status["replicas"] == 0);  // what an autoscaler reads
}

TEST_CASE("codec: texts in status are cut to their bounds, at a character", "[api]") {
  std::string long_text;
  for (int i = 0; i < 1000; ++i) long_text += "\xC3\xA4";  // ä: 2,000 bytes
  TrainingJobStatus status;
  status.message = long_text;
  const auto message = encode_status(status)["message"].get<std::string>();
  CHECK(message.size() == 1024);
  CHECK(message == long_text.substr(0, 1024));
  status.message = "x" + long_text;
  CHECK(encode_status(status)["message"].get<std::string>().size() == 1023);
}

TEST_CASE("codec: the merge patch between two objects turns one into the other", "[api]") {
  const json full = encode_status(samples::full_job().status);
  const json empty = encode_status(TrainingJobStatus{});
  for (const auto& [before, after] : {std::pair{full, empty}, {empty, full}, {full, full}}) {
    json patched = before;
    patched.merge_patch(merge_patch_between(before, after));
    CHECK(patched == after);
  }
  CHECK(merge_patch_between(full, full) == json::object());
  const json before = {{"a", {{"b", 1}, {"c", 2}}}, {"list", {1, 2}}};
  const json after = {{"a", {{"b", 1}}}, {"list", {2}}};
  CHECK(merge_patch_between(before, after) == json{{"a", {{"c", nullptr}}}, {"list", {2}}});
}

}  // namespace
}  // namespace pawl::api
