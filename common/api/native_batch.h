// The batch of a Native job: what a step's samples are cut into. The operator makes the pieces
// smaller after an out-of-memory kill; the trainer reads the result in its configuration. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/api/types.h"

namespace pawl::api {

// runtime.config.batch, with the trainer's own defaults.
struct NativeBatch {
  std::int64_t global = 32;  // samples in an optimizer step; never changed here
  std::int64_t micro = 4;    // samples in one forward and backward pass
  bool operator==(const NativeBatch&) const = default;
};

// As the trainer will see it: status.microBatch counts where it is lower. What the trainer itself
// will refuse (a micro-batch that does not divide the global one) is left as it is.
NativeBatch native_batch(const TrainingJob& job);
// About half of it, such that the global batch is still a multiple; nothing below one sample.
std::optional<std::int64_t> smaller_micro_batch(const NativeBatch& batch);
// runtime.config as compact JSON, with that micro-batch; "" if there is none.
std::string trainer_config(const TrainingJob& job);
// resources.limits.memory of the worker container, as the user wrote it; "" if there is none.
std::string memory_limit(const TrainingJob& job);

}  // namespace pawl::api
