#include "common/api/native_batch.h"
#include "operator/core/steps.h"

namespace pawl::core {

using namespace api;

bool lower_memory(Pass& pass, const Failure& failure, std::string& advice) {
  if (failure.cause != cause::kOutOfMemory) return false;
  const std::string limit = memory_limit(pass.job);
  const std::string raise = "raise resources.limits.memory of the worker container" +
                            (limit.empty() ? std::string() : " (now " + limit + ")");
  if (pass.job.spec.runtime_kind != RuntimeKind::kNative) {
    advice = "; " + raise + ", or lower the batch that your program takes in one pass";
    return false;
  }
  const NativeBatch batch = native_batch(pass.job);
  const auto lower = smaller_micro_batch(batch);
  if (!lower) {
    advice = "; the micro-batch is 1 already: " + raise;
    return false;
  }
  pass.next.micro_batch = lower;
  advice = "; the micro-batch goes from " + std::to_string(batch.micro) + " to " +
           std::to_string(*lower) + ", the global batch of " + std::to_string(batch.global) +
           " stays";
  return true;
}

}  // namespace pawl::core
