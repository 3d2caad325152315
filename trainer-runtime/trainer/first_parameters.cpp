#include "trainer-runtime/trainer/first_parameters.h"

#include "common/base/hash.h"
#include "trainer-runtime/weights/gpt2_load.h"

namespace pawl::trainer {

// The hash goes through the ring and not into the Hello: when that is said nobody knows yet whether
// the run begins anew, and one that does not must not need the files.
Status take_weights(const TrainerConfig& config, const std::vector<models::Tensor>& tensors,
                    std::span<float> parameters, collective::Collective& ring) {
  if (config.model.weights.empty()) return {};
  PAWL_TRY_VOID(weights::load_gpt2(config.model, tensors, parameters));
  Sha256 hash;
  hash.update(std::as_bytes(parameters));
  PAWL_TRY(hashes, ring.all_gather(hash.hex_digest()));
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    return fail(Code::kInvalid, "model.weights: rank " + std::to_string(rank) +
                                    " has read other parameters than rank 0 "
                                    "(SHA-256 " +
                                    hashes[rank].substr(0, 12) + "…, " + hashes[0].substr(0, 12) +
                                    "…); give all workers equal files");
  }
  return {};
}

}  // namespace pawl::trainer
