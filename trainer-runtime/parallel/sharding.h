// How the flat array of gradients is cut: into buckets, which are summed as soon as they are final,
// and each bucket into one chunk a rank, whose optimizer states that rank holds where they are
// sharded. Pure functions.
#pragma once

#include <span>
#include <vector>

#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/optim/ownership.h"

namespace pawl::parallel {

using kernels::Index;

// Of a bucket. 1 MB: a ring's chunks then stay in the cache. More with many ranks, so that each has
// kUnitsOfRank of its units and none has more than its part.
inline constexpr Index kBucketElements = Index{1} << 18;
inline constexpr Index kUnitsOfRank = 8;
constexpr Index bucket_elements(int world_size) {
  const Index least = kUnitsOfRank * world_size * static_cast<Index>(collective::kChunkUnit);
  return least > kBucketElements ? least : kBucketElements;
}

struct Bucket {
  Index first = 0, last = 0;
  std::size_t count() const { return static_cast<std::size_t>(last - first); }
};
template <typename T>
std::span<T> part_of(std::span<T> all, const Bucket& bucket) {
  return all.subspan(static_cast<std::size_t>(bucket.first), bucket.count());
}
// In the order in which gradients become final: from the end of the array to its start. Where
// buckets are a chunk unit or more, all but the array's end lies on multiples of it.
std::vector<Bucket> buckets_of(Index count, Index elements);

// What `rank` holds of `count` parameters.
optim::Ownership ownership_of(Index count, int rank, int world_size);

// Puts the sums of squares of the norm's blocks (kernels::kNormBlock) that are held into `blocks`,
// which has norm_blocks() of them; those
// of others are left alone. The sum of all, in order, has the bits of kernels' squared_norm.
void put_squares(std::span<const float> values, const optim::Ownership& owned,
                 std::span<double> blocks);
constexpr std::size_t norm_blocks(std::size_t count) {
  return (count + static_cast<std::size_t>(kernels::kNormBlock) - 1) /
         static_cast<std::size_t>(kernels::kNormBlock);
}

}  // namespace pawl::parallel
