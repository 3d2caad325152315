#include "trainer-runtime/parallel/make_reducer.h"

#include "common/base/check.h"
#include "trainer-runtime/parallel/compressed_reducer.h"

namespace pawl::parallel {
namespace {

compress::Kind kind_of(const std::string& compression) {
  if (compression == "bf16") return compress::Kind::kBf16;
  if (compression == "int8") return compress::Kind::kInt8;
  if (compression == "sign") return compress::Kind::kSign;
  PAWL_CHECK(compression == "top_k", "no such compression");
  return compress::Kind::kTopK;
}

CompressionOptions options_of(const ParallelConfig& config) {
  return {.kind = kind_of(config.compression), .share = config.compression_share};
}

}  // namespace

std::unique_ptr<GradientReducer> make_reducer(const TrainerConfig& config,
                                              collective::Collective& ring,
                                              std::span<float> gradients,
                                              optim::Residual& residual) {
  if (config.is_compressed())
    return make_compressed_reducer(ring, gradients, residual, options_of(config.parallel));
  const ReducerOptions options{.is_sharded = config.is_sharded()};
  if (config.is_exact()) {
    return make_exact_reducer(ring, gradients, config.batch.global / config.batch.micro, options);
  }
  return std::make_unique<GradientReducer>(ring, gradients, options);
}

std::size_t reducer_bytes(const TrainerConfig& config, models::Index parameters, int world_size) {
  const auto count = static_cast<std::size_t>(parameters);
  if (config.is_exact()) return count * (sizeof(float) + sizeof(std::int64_t));
  if (!config.is_compressed()) return count * sizeof(float);
  const auto buckets = buckets_of(parameters, bucket_elements(world_size));
  return 3 * count * sizeof(float) + static_cast<std::size_t>(world_size) *
                                         slots_of(options_of(config.parallel), buckets).bytes;
}

}  // namespace pawl::parallel
