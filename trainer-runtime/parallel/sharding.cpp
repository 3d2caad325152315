#include "trainer-runtime/parallel/sharding.h"

#include <algorithm>
#include <utility>

namespace pawl::parallel {

static_assert(collective::kChunkUnit % static_cast<std::size_t>(kernels::kNormBlock) == 0,
              "a block of the norm has one owner");
static_assert(kBucketElements % static_cast<Index>(collective::kChunkUnit) == 0);

std::vector<Bucket> buckets_of(Index count, Index elements) {
  const auto unit = static_cast<Index>(collective::kChunkUnit);
  std::vector<Bucket> buckets;
  for (Index last = count; last > 0; last = buckets.back().first) {
    Index first = std::max<Index>(0, last - elements);
    if (elements >= unit) first = first / unit * unit;
    buckets.push_back({first, last});
  }
  return buckets;
}

optim::Ownership ownership_of(Index count, int rank, int world_size) {
  std::vector<optim::Owned> ranges;
  const std::vector<Bucket> buckets = buckets_of(count, bucket_elements(world_size));
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    const auto size = static_cast<std::size_t>(bucket->last - bucket->first);
    const collective::Chunk chunk = collective::chunk_of(size, rank, world_size);
    if (chunk.first == chunk.last) continue;
    ranges.push_back({bucket->first + static_cast<Index>(chunk.first),
                      bucket->first + static_cast<Index>(chunk.last)});
  }
  return optim::Ownership::of(std::move(ranges));
}

void put_squares(std::span<const float> values, const optim::Ownership& owned,
                 std::span<double> blocks) {
  for (const optim::Owned& range : owned.ranges()) {
    for (Index first = range.first; first < range.last; first += kernels::kNormBlock) {
      const Index count = std::min(kernels::kNormBlock, range.last - first);
      blocks[static_cast<std::size_t>(first / kernels::kNormBlock)] =
          kernels::exact().squared_norm(count, values.data() + first);
    }
  }
}

}  // namespace pawl::parallel
