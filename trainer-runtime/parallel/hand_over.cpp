#include "trainer-runtime/parallel/hand_over.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "common/base/hash.h"

namespace pawl::parallel {
namespace {

constexpr std::size_t kPieceElements = std::size_t{1} << 20;

std::string digest_of(optim::TrainingArrays& arrays) {
  std::uint32_t crc = 0;
  for (const std::span<float> span : arrays.spans()) crc = crc32c(std::as_bytes(span), crc);
  return std::to_string(crc);
}

// Into `values`, or, where this rank holds them already, through a buffer of its own.
Status broadcast(collective::Collective& ring, int source, std::span<float> values, bool is_kept) {
  std::vector<float> passing(is_kept ? 0 : std::min(values.size(), kPieceElements));
  for (std::size_t first = 0; first < values.size(); first += kPieceElements) {
    const std::size_t count = std::min(kPieceElements, values.size() - first);
    const auto piece = is_kept ? values.subspan(first, count) : std::span(passing).first(count);
    PAWL_TRY_VOID(ring.broadcast(std::as_writable_bytes(piece), source));
  }
  return {};
}

}  // namespace

Result<std::string> hand_over(collective::Collective& ring, const HandOver& how,
                              std::unique_ptr<optim::TrainingArrays>& arrays) {
  const bool is_source = ring.rank() == how.source;
  std::unique_ptr<optim::TrainingArrays> received;
  if (!how.has_state) {
    received = std::make_unique<optim::TrainingArrays>(
        static_cast<models::Index>(arrays->parameters.size()), arrays->states.size());
    received->residual.values = device::Buffer<float>(arrays->residual.values.size());
  }
  PAWL_TRY(holders, ring.all_gather(how.has_state ? "1" : ""));
  const auto source = static_cast<std::size_t>(how.source);
  if (source >= holders.size() || holders[source].empty()) {
    return fail(Code::kUnavailable, "rank " + std::to_string(how.source) +
                                        " was to feed the others and does not hold the state");
  }
  const bool is_needed = std::ranges::count(holders, "") > 0;
  for (const std::span<float> own : (received ? *received : *arrays).spans()) {
    if (is_needed) PAWL_TRY_VOID(broadcast(ring, how.source, own, is_source || received));
  }
  PAWL_TRY(digests, ring.all_gather(digest_of(received ? *received : *arrays)));
  for (std::size_t rank = 0; rank < digests.size(); ++rank) {
    if (digests[rank] == digests[source]) continue;
    return fail(Code::kCorrupt,
                "rank " + std::to_string(rank) +
                    " does not hold the same parameters and optimizer states as rank " +
                    std::to_string(how.source));
  }
  PAWL_TRY(scalars, ring.all_gather(is_source ? how.scalars : ""));
  if (received) arrays = std::move(received);
  return scalars[source];
}

Status hand_over_residual(collective::Collective& ring, optim::Residual& residual) {
  PAWL_TRY(holders, ring.all_gather(residual.is_summed ? "1" : ""));
  const auto source = static_cast<int>(std::ranges::find(holders, "1") - holders.begin());
  const bool is_needed = std::ranges::count(holders, "") > 0;
  if (source == ring.world_size() || !is_needed) return {};
  // Beside what is kept, as in hand_over.
  device::Buffer<float> received(residual.is_summed ? 0 : residual.values.size());
  PAWL_TRY_VOID(broadcast(ring, source,
                          residual.is_summed ? residual.values.span() : received.span(),
                          ring.rank() == source || !residual.is_summed));
  if (!residual.is_summed) std::swap(residual.values, received);
  residual.is_summed = true;
  return {};
}

}  // namespace pawl::parallel
