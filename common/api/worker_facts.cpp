#include "common/api/worker_facts.h"

#include <utility>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/api/json_fields.h"
#include "common/base/json.h"

namespace pawl::api {

using nlohmann::json;

namespace {

Status check(const WorkerFacts& facts) {
  const auto fault = [](const char* field, const std::string& what) {
    return fail(Code::kInvalid, std::string{kEnvWorker} + "." + field + ": " + what);
  };
  const auto is_from = [](std::int64_t value, std::int64_t low, std::int64_t high) {
    return value >= low && value <= high;
  };
  if (facts.job_name.empty()) return fault("job", "must be set");
  if (facts.job_uid.empty()) return fault("jobUid", "must be set");
  if (facts.ns.empty()) return fault("namespace", "must be set");
  if (facts.pod.empty()) return fault("pod", "must be set");
  if (facts.attempt < 1) return fault("attempt", "must be 1 or more");
  if (!is_from(facts.slot, 0, kReplicasMax - 1)) {
    return fault("slot", "must be from 0 to " + std::to_string(kReplicasMax - 1));
  }
  if (!is_from(facts.processes, 1, kProcessesMax)) {
    return fault("processes", "must be from 1 to " + std::to_string(kProcessesMax));
  }
  if (!is_from(facts.slots, 1, kProcessesMax)) {
    return fault("slots", "must be from 1 to " + std::to_string(kProcessesMax));
  }
  for (const auto& [field, count] : {std::pair{"cpus", facts.cpus}, {"gpus", facts.gpus}}) {
    if (!is_from(count, 0, kProcessesMax))
      return fault(field, "must be from 0 to " + std::to_string(kProcessesMax));
  }
  if (!is_from(facts.parameter_servers, 0, kReplicasMax - 1)) {
    return fault("parameterServers", "must be from 0 to " + std::to_string(kReplicasMax - 1));
  }
  if (!facts.checkpoint) return {};
  if (facts.checkpoint->uri.empty()) return fault("checkpoint.uri", "must be set");
  if (facts.checkpoint->seconds < 0) return fault("checkpoint.seconds", "must be 0 or more");
  if (facts.checkpoint->keep < 1) return fault("checkpoint.keep", "must be 1 or more");
  return {};
}

}  // namespace

std::string encode_worker_facts(const WorkerFacts& facts) {
  json object = {{"contract", kContractVersion},
                 {"job", facts.job_name},
                 {"jobUid", facts.job_uid},
                 {"namespace", facts.ns},
                 {"pod", facts.pod},
                 {"attempt", facts.attempt},
                 {"slot", facts.slot},
                 {"processes", facts.processes},
                 {"runtime", runtime_name(facts.runtime)}};
  if (facts.runtime == RuntimeKind::kMpi) object["slots"] = facts.slots;
  if (facts.is_in_place) object["inPlace"] = true;
  if (facts.cpus > 0) object["cpus"] = facts.cpus;
  if (facts.gpus > 0) object["gpus"] = facts.gpus;
  if (facts.parameter_servers > 0) object["parameterServers"] = facts.parameter_servers;
  if (facts.checkpoint) {
    object["checkpoint"] = {{"uri", facts.checkpoint->uri},
                            {"seconds", facts.checkpoint->seconds},
                            {"keep", facts.checkpoint->keep}};
  }
  return object.dump();
}

Result<WorkerFacts> decode_worker_facts(std::string_view text) {
  const json object = parse_json(text);
  if (!object.is_object()) {
    return fail(Code::kInvalid, std::string{kEnvWorker} + " is not a JSON object");
  }
  std::optional<Error> error;
  Fields fields(object, kEnvWorker, error);
  int contract = 0;
  fields.read("contract", contract);
  if (!error && contract != kContractVersion) {
    return fail(Code::kInvalid, "the operator speaks version " + std::to_string(contract) +
                                    " of the contract, this launcher " +
                                    std::to_string(kContractVersion) +
                                    ": install them from one release");
  }
  WorkerFacts facts;
  std::string runtime;
  fields.read("job", facts.job_name);
  fields.read("jobUid", facts.job_uid);
  fields.read("namespace", facts.ns);
  fields.read("pod", facts.pod);
  fields.read("attempt", facts.attempt);
  fields.read("slot", facts.slot);
  fields.read("processes", facts.processes);
  fields.read("slots", facts.slots);
  fields.read("cpus", facts.cpus);
  fields.read("gpus", facts.gpus);
  fields.read("parameterServers", facts.parameter_servers);
  fields.read("runtime", runtime);
  fields.read("inPlace", facts.is_in_place);
  fields.child("checkpoint", [&](Fields& inside) {
    WorkerFacts::Checkpoint& checkpoint = facts.checkpoint.emplace();
    inside.read("uri", checkpoint.uri);
    inside.read("seconds", checkpoint.seconds);
    inside.read("keep", checkpoint.keep);
  });
  const auto kind = runtime_kind(runtime);
  if (!kind)
    fields.set_error(fields.path_of("runtime"),
                     "must be Native, Torch, TensorFlow, JAX, MPI, Ray or Custom");
  if (error) return tl::unexpected(*error);
  facts.runtime = *kind;
  PAWL_TRY_VOID(check(facts));
  return facts;
}

}  // namespace pawl::api
