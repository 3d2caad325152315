#include "common/api/worker_facts.h"
#include "common/base/json.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl;
using namespace pawl::api;
using nlohmann::json;

namespace {

json good() {
  return {
      {"contract", 2},      {"job", "job"},
      {"jobUid", "ju"},     {"namespace", "team"},
      {"pod", "pod"},       {"attempt", 2},
      {"slot", 1},          {"processes", 4},
      {"runtime", "Torch"}, {"checkpoint", {{"uri", "file:///c"}, {"seconds", 7}, {"keep", 2}}}};
}

}  // namespace

TEST_CASE("worker_facts: what was encoded is decoded", "[api]") {
  const auto facts = decode_worker_facts(good().dump());
  REQUIRE(facts.has_value());
  CHECK(facts->slot == 1);
  CHECK(facts->runtime == RuntimeKind::kTorch);
  CHECK(facts->checkpoint->seconds == 7);
  CHECK(parse_json(encode_worker_facts(*facts)) == good());
  json fewer = good();
  fewer.erase("checkpoint");
  CHECK_FALSE(decode_worker_facts(fewer.dump())->checkpoint.has_value());
  CHECK_FALSE(facts->is_in_place);
  json in_place = good();
  in_place["inPlace"] = true;
  CHECK(decode_worker_facts(in_place.dump())->is_in_place);
  CHECK(parse_json(encode_worker_facts(*decode_worker_facts(in_place.dump()))) == in_place);
  json more = good();
  more.merge_patch({{"runtime", "Ray"}, {"cpus", 8}, {"gpus", 2}, {"parameterServers", 3}});
  CHECK(parse_json(encode_worker_facts(*decode_worker_facts(more.dump()))) == more);
}

TEST_CASE("worker_facts: what is wrong is named", "[api]") {
  struct Row {
    json patch;
    const char* message;
  };
  const Row rows[] = {
      {{{"contract", 7}}, "the operator speaks version 7 of the contract"},
      {{{"jobUid", nullptr}}, "PAWL_WORKER.jobUid: must be set"},
      {{{"attempt", 0}}, "PAWL_WORKER.attempt: must be 1 or more"},
      {{{"slot", 2048}}, "PAWL_WORKER.slot: must be from 0 to 2047"},
      {{{"slot", "many"}}, "PAWL_WORKER.slot: must be"},
      {{{"processes", 65}}, "PAWL_WORKER.processes: must be from 1 to 64"},
      {{{"slots", 0}}, "PAWL_WORKER.slots: must be from 1 to 64"},
      {{{"cpus", -1}}, "PAWL_WORKER.cpus: must be from 0 to 64"},
      {{{"gpus", 65}}, "PAWL_WORKER.gpus: must be from 0 to 64"},
      {{{"parameterServers", 2048}}, "PAWL_WORKER.parameterServers: must be from 0 to 2047"},
      {{{"runtime", "Magic"}},
       "PAWL_WORKER.runtime: must be Native, Torch, TensorFlow, JAX, MPI, Ray or Custom"},
      {{{"checkpoint", {{"keep", 0}}}}, "PAWL_WORKER.checkpoint.keep: must be 1 or more"},
      {{{"checkpoint", {{"uri", nullptr}}}}, "PAWL_WORKER.checkpoint.uri: must be set"}};
  for (const Row& row : rows) {
    INFO(row.message);
    json object = good();
    object.merge_patch(row.patch);
    const auto facts = decode_worker_facts(object.dump());
    REQUIRE_FALSE(facts.has_value());
    CHECK(facts.error().message.find(row.message) == 0);
  }
  CHECK(decode_worker_facts("slot 1").error().message == "PAWL_WORKER is not a JSON object");
}
