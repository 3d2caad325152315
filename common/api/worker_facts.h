// What the operator tells the launcher of one worker: the value of kEnvWorker, one JSON object. One
// variable, because every variable of a pod costs the control plane far more than its bytes (each
// is a path in managedFields, computed again at every write to the pod). What only the cluster
// knows (UID, address, node) comes by variables of its own. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/api/types.h"
#include "common/base/result.h"

namespace pawl::api {

struct WorkerFacts {
  std::string job_name, job_uid, ns, pod;
  std::int64_t attempt = 1;
  int slot = 0, processes = 1;
  int slots = 1;  // MPI: ranks that mpirun may start here; the launcher itself starts one program
  int cpus = 0, gpus = 0;     // Ray: what its node here offers; 0: what it finds itself
  int parameter_servers = 0;  // TensorFlow: how many of the workers are, the last ones
  RuntimeKind runtime = RuntimeKind::kCustom;
  bool is_in_place = false;  // spec.runtime.inPlace
  struct Checkpoint {
    std::string uri;
    int seconds = 0;  // 0: auto
    int keep = 3;
  };
  std::optional<Checkpoint> checkpoint;  // spec.checkpoint, if it is set
};

std::string encode_worker_facts(const WorkerFacts& facts);
// Invalid with one sentence: no JSON, another kContractVersion, or the field that is missing or out
// of range.
Result<WorkerFacts> decode_worker_facts(std::string_view text);

}  // namespace pawl::api
