// What a gang reports of itself: progress, checkpoint, failures. The same words stand in
// WorkerGroup.status (the launchers') and TrainingJob.status (the operator's copy), and in a pod's
// termination message. Quantities that are not integers are strings, as in the API. Values; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/api/contract.h"
#include "common/base/clock.h"

namespace pawl::api {

// A rank that holds up the others (docs/trainer.md, "A slow rank").
struct Straggler {
  int rank = 0;
  std::string pod, node;
  std::string factor;  // a decimal number: of the time that the others take
  bool operator==(const Straggler&) const = default;
};

// What the program's held-out data says of the model.
struct Validation {
  std::int64_t step = 0;  // the newest result's
  std::string loss;       // decimal numbers, "" if unknown
  std::string accuracy;   // 0 to 1, of a classification
  std::int64_t best_step = 0;
  std::string best_loss;  // the lowest of the run
  bool operator==(const Validation&) const = default;
};

struct Progress {
  std::int64_t step = 0, total_steps = 0;
  int percent = 0;
  std::optional<std::int64_t> eta_seconds;
  std::string loss, samples_per_second, tokens_per_second;  // decimal numbers, "" if unknown
  std::int64_t epoch = 0;
  std::optional<Validation> validation;
  std::optional<Straggler> straggler;
  std::optional<TimePoint> time;
  bool operator==(const Progress&) const = default;
};

struct CheckpointStatus {
  std::int64_t step = 0;
  std::string uri;  // of the checkpoint's directory
  std::optional<TimePoint> time;
  std::int64_t size_bytes = 0;
  std::string digest;      // "sha256:…" of the manifest
  std::int64_t count = 0;  // published by this job, ever
  bool operator==(const CheckpointStatus&) const = default;
};

struct Failure {
  int rank = -1;  // -1: not known
  std::string pod, node;
  std::string pod_uid;
  std::optional<int> exit_code, signal;
  // Error, Signal, OOM, Hang, GpuFault, Interrupted, Evicted, NodeLost, Victim, Unreached, Unknown
  std::string cause;
  std::string message;
  std::string log_tail;
  std::int64_t attempt = 0;
  std::int64_t generation = 0;  // in which it happened; a gang of a newer one has outlived it
  std::optional<TimePoint> time;
  bool operator==(const Failure&) const = default;
};

// Nothing is known but that a launcher is not heard, or not reached by all others.
inline bool is_silence(const Failure& failure) {
  const bool has_no_reason = failure.cause == kCauseUnknown || failure.cause == kCauseUnreached;
  return has_no_reason && !failure.exit_code && !failure.signal;
}

}  // namespace pawl::api
