#include <catch2/catch_test_macros.hpp>

#include "common/api/codec.h"
#include "common/api/validate.h"
#include "samples.h"

namespace pawl::api {
namespace {

using nlohmann::json;

void check_refused(const json& before, const json& after, const std::string& field) {
  const std::vector<FieldError> errors = validate_training_job_update(before, after);
  INFO(join_errors(errors));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].field == field);
}

json with_image(json job, const char* image) {
  job["spec"]["template"]["spec"]["containers"][0]["image"] = image;
  return job;
}

json suspended(json job, bool is_suspended) {
  job["spec"]["suspend"] = is_suspended;
  return job;
}

json finished(json job, const char* type, const char* status = "True") {
  job["status"]["conditions"] = json::array({{{"type", type}, {"status", status}}});
  return job;
}

TEST_CASE("update: a program stays when its gang changes, or never does", "[api]") {
  const json job = samples::torch_job();
  json other = job;
  other["spec"]["runtime"]["inPlace"] = true;
  check_refused(job, other, "spec.runtime.inPlace");
  check_refused(suspended(other, true), suspended(job, true), "spec.runtime.inPlace");
  json same = job;
  same["spec"]["runtime"]["inPlace"] = false;
  CHECK(validate_training_job_update(job, same).empty());
}

TEST_CASE("update: the template is frozen unless the job was suspended before", "[api][A21][D5]") {
  const json job = samples::torch_job();
  const json other = with_image(job, "other");
  check_refused(job, other, "spec.template");
  check_refused(job, suspended(other, true), "spec.template");
  CHECK(validate_training_job_update(suspended(job, true), suspended(other, true)).empty());
  CHECK(validate_training_job_update(suspended(job, true), suspended(other, false)).empty());
  json gone = job;
  gone["spec"].erase("template");
  check_refused(job, gone, "spec.template");
  check_refused(gone, job, "spec.template");
}

TEST_CASE("update: processesPerWorker is frozen too; its default is no change", "[api]") {
  const json job = samples::torch_job();
  json same = job;
  same["spec"]["processesPerWorker"] = "auto";
  CHECK(validate_training_job_update(job, same).empty());
  json other = job;
  other["spec"]["processesPerWorker"] = 2;
  check_refused(job, other, "spec.processesPerWorker");
  CHECK(validate_training_job_update(suspended(job, true), suspended(other, true)).empty());
}

TEST_CASE("update: the queue of a job cannot change while it is not suspended", "[api][C11]") {
  const json job = samples::torch_job();
  json queued = job;
  queued["spec"]["scheduling"]["queueName"] = "a";
  json other = queued;
  other["spec"]["scheduling"]["queueName"] = "b";
  check_refused(job, queued, "spec.scheduling");
  check_refused(queued, job, "spec.scheduling");
  check_refused(queued, other, "spec.scheduling");
  CHECK(validate_training_job_update(suspended(queued, true), other).empty());
  json empty = job;
  empty["spec"]["scheduling"] = json::object();
  CHECK(validate_training_job_update(job, empty).empty());
}

TEST_CASE("update: so is the number of parameter servers", "[api]") {
  json job = samples::torch_job();
  job["spec"]["runtime"] = {{"kind", "TensorFlow"}};
  job["spec"]["replicas"] = 3;
  json other = job;
  other["spec"]["runtime"]["parameterServers"] = 0;
  CHECK(validate_training_job_update(job, other).empty());
  other["spec"]["runtime"]["parameterServers"] = 1;
  check_refused(job, other, "spec.runtime.parameterServers");
  check_refused(other, job, "spec.runtime.parameterServers");
  CHECK(validate_training_job_update(suspended(job, true), suspended(other, true)).empty());
}

TEST_CASE("update: runtime.kind and checkpoint.uri never change, not by leaving the block out",
          "[api]") {
  const json job = samples::native_job();
  json custom = job;
  custom["spec"].erase("runtime");
  check_refused(job, custom, "spec.runtime.kind");
  json saved = job;
  saved["spec"]["checkpoint"] = {{"uri", "file:///a"}};
  check_refused(job, saved, "spec.checkpoint");
  check_refused(saved, job, "spec.checkpoint");
  json moved = saved;
  moved["spec"]["checkpoint"]["uri"] = "file:///b";
  check_refused(saved, moved, "spec.checkpoint");
  json rarer = saved;
  rarer["spec"]["checkpoint"]["everySeconds"] = 600;
  CHECK(validate_training_job_update(saved, rarer).empty());
}

TEST_CASE("update: a finished job keeps its replicas and its end", "[api]") {
  const json job = samples::torch_job();
  json scaled = job;
  scaled["spec"]["replicas"] = 3;
  CHECK(validate_training_job_update(job, scaled).empty());
  for (const char* type : {"Complete", "Failed"}) {
    check_refused(finished(job, type), finished(scaled, type), "spec.replicas");
    check_refused(finished(job, type), finished(job, type, "False"), "status.conditions");
    check_refused(finished(job, type), job, "status.conditions");
    json longer = finished(job, type);
    longer["spec"]["ttlSecondsAfterFinished"] = 60;
    CHECK(validate_training_job_update(finished(job, type), longer).empty());
  }
  CHECK(validate_training_job_update(finished(job, "Failed", "False"), job).empty());
}

TEST_CASE("update: the attempt of a job never goes back", "[api]") {
  json before = samples::torch_job(), after = before;
  before["status"]["attempt"] = 2;
  after["status"]["attempt"] = 1;
  check_refused(before, after, "status.attempt");
  check_refused(before, samples::torch_job(), "status.attempt");
  CHECK(validate_training_job_update(after, before).empty());
}

TEST_CASE("update: a WorkerGroup's counters only move forward, its generation by one", "[api]") {
  const json base = encode_worker_group(samples::full_group());
  struct Row {
    const char* pointer;
    int value;
    bool is_accepted;
  };
  const std::vector<Row> rows = {
      {"/spec/attempt", 1, false},      {"/spec/attempt", 3, true},
      {"/status/attempt", 1, false},    {"/status/attempt", 2, true},
      {"/status/term", 2, false},       {"/status/term", 9, true},
      {"/status/generation", 6, false}, {"/status/generation", 7, true},
      {"/status/generation", 8, true},  {"/status/generation", 9, false},
  };
  for (const Row& row : rows) {
    json after = base;
    after[json::json_pointer(row.pointer)] = row.value;
    const std::vector<FieldError> errors = validate_worker_group_update(base, after);
    INFO(row.pointer << " = " << row.value << ": " << join_errors(errors));
    CHECK(errors.empty() == row.is_accepted);
    std::string field = std::string(row.pointer).substr(1);
    field.replace(field.find('/'), 1, ".");
    if (!row.is_accepted) CHECK(errors[0].field == field);
  }
}

TEST_CASE("update: the first record is generation 1, and a higher attempt does not restart it",
          "[api]") {
  json before = encode_worker_group(samples::full_group());
  before.erase("status");
  json after = before;
  after["status"] = {{"attempt", 2}, {"generation", 1}};
  CHECK(validate_worker_group_update(before, after).empty());
  after["status"]["generation"] = 2;
  CHECK(validate_worker_group_update(before, after).size() == 1);

  before = encode_worker_group(samples::full_group());
  before["spec"]["attempt"] = 3;
  after = before;
  after["status"]["attempt"] = 3;
  after["status"]["generation"] = 1;
  CHECK(validate_worker_group_update(before, after).size() == 1);
  after["status"]["generation"] = 8;
  CHECK(validate_worker_group_update(before, after).empty());
}

TEST_CASE("update: a record cannot be of an attempt that the operator did not ask for", "[api]") {
  json object = encode_worker_group(samples::full_group());
  object["status"]["attempt"] = 3;
  const std::vector<FieldError> errors = validate_worker_group(object);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].field == "status.attempt");
}

TEST_CASE("update: successPolicy and managedBy are for good; deadlines, rules and clean-up are not",
          "[api][A40][B14]") {
  const json job = samples::torch_job();
  json other = job;
  other["spec"]["successPolicy"] = "Rank0";
  check_refused(job, other, "spec.successPolicy");
  other["spec"]["successPolicy"] = "AllRanks";  // its default
  CHECK(validate_training_job_update(job, other).empty());
  other["spec"]["hostnames"] = false;  // its default
  CHECK(validate_training_job_update(job, other).empty());
  other["spec"]["hostnames"] = true;
  check_refused(job, other, "spec.hostnames");
  json managed = job;
  managed["spec"]["managedBy"] = "example.com/x";
  check_refused(job, managed, "spec.managedBy");
  check_refused(managed, job, "spec.managedBy");
  json free = job;
  free["spec"]["cleanPodPolicy"] = "All";
  free["spec"]["deadlines"] = {{"activeSeconds", 5}};
  free["spec"]["failurePolicy"] = {
      {"rules", {{{"name", "r"}, {"action", "Fail"}, {"onCauses", {"OOM"}}}}}};
  free["spec"]["ttlSecondsAfterFinished"] = 5;
  CHECK(validate_training_job_update(job, free).empty());
}

}  // namespace
}  // namespace pawl::api
