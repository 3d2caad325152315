// All-reduce, its halves, all-gather of bytes, and broadcast on a TCP ring. Large sums are cut into
// world_size chunks: chunk c is summed on its way from rank c + 1 around to rank c
// (reduce-scatter), then sent around (all-gather); each rank sends (n-1)/n of the bytes in either,
// and all ranks get the same bits.
//
// Operations run in the order of their start on one thread of this object, so that gradients are
// reduced while backward still computes.
#pragma once

#include <memory>

#include "trainer-runtime/collective/collective.h"
#include "trainer-runtime/collective/handshake.h"

namespace pawl::collective {

// Connects and authenticates; world_size of 2 or more.
Result<std::unique_ptr<Collective>> make_ring(const RingOptions& options, const os::Fd& listener);

}  // namespace pawl::collective
