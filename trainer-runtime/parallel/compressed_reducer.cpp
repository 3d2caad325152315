#include "trainer-runtime/parallel/compressed_reducer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace pawl::parallel {
namespace {

class CompressedReducer final : public GradientReducer {
 public:
  CompressedReducer(collective::Collective& ring, std::span<float> gradients,
                    optim::Residual& residual, const CompressionOptions& options)
      : GradientReducer(ring, gradients, {.bucket_elements = options.bucket_elements}),
        residual_(residual),
        next_(gradients.size()),
        slots_(slots_of(options, buckets())) {
    PAWL_CHECK(residual.values.size() == gradients.size(), "a residual is of other gradients");
    const auto world_size = static_cast<std::size_t>(ring.world_size());
    frames_ = device::Buffer<std::byte>(slots_.bytes * world_size);
    std::size_t first = 0;
    for (const std::size_t bytes : slots_.of_bucket) {
      places_.push_back(first);
      first += bytes * world_size;
    }
  }

  void commit() override {
    std::swap(residual_.values, next_);
    residual_.is_summed = false;
  }

  Status sum_residuals() override {
    if (residual_.is_summed) return {};
    // Beside what is kept: when the ring breaks, some ranks may have the sum and others not.
    std::ranges::copy(residual_.values.span(), next_.span().begin());
    collective::Ticket last;
    for (std::size_t i = 0; i < buckets().size(); ++i)
      last = ring_.start_all_reduce(part_of(next_.span(), buckets()[i]), static_cast<int>(i));
    PAWL_TRY_VOID(ring_.wait(last));
    std::swap(residual_.values, next_);
    residual_.is_summed = true;
    return {};
  }

 private:
  collective::Ticket start(const Bucket& bucket, int index) override {
    const std::span<float> next = part_of(next_.span(), bucket);
    take_residual(bucket, next);
    const std::span<std::byte> own = slot(index, ring_.rank()), frame = own.subspan(kSlotHead);
    const std::size_t bytes = slots_.compressor->encode(part_of(gradients_, bucket), next, frame);
    PAWL_CHECK(bytes <= std::numeric_limits<std::uint32_t>::max(), "a frame is too long");
    const auto said = static_cast<std::uint32_t>(bytes);
    std::memcpy(own.data(), &said, kSlotHead);
    std::ranges::fill(frame.subspan(bytes), std::byte{0});
    return ring_.start_all_gather(frames(index), index);
  }

  Status arrived(const Bucket& bucket, int index) override {
    const std::span<float> sum = part_of(gradients_, bucket);
    std::ranges::fill(sum, 0.0F);
    for (int rank = 0; rank < ring_.world_size(); ++rank) {
      const std::span<const std::byte> theirs = slot(index, rank);
      std::uint32_t bytes = 0;
      std::memcpy(&bytes, theirs.data(), kSlotHead);
      const std::size_t room = theirs.size() - kSlotHead;
      const Status added = slots_.compressor->decode_add(
          theirs.subspan(kSlotHead, std::min<std::size_t>(bytes, room)), sum);
      if (bytes <= room && added) continue;
      return fail(
          Code::kUnavailable,
          "rank " + std::to_string(rank) + " sent no gradient for bucket " + std::to_string(index) +
              (added ? ": its frame is longer than its slot" : ": " + added.error().message));
    }
    return {};
  }

  void take_residual(const Bucket& bucket, std::span<float> next) {
    const auto kept = part_of(residual_.values.span(), bucket);
    collective::Chunk own{0, kept.size()};
    if (residual_.is_summed) {
      std::ranges::fill(next, 0.0F);
      own = collective::chunk_of(kept.size(), ring_.rank(), ring_.world_size());
    }
    std::ranges::copy(kept.subspan(own.first, own.last - own.first),
                      next.subspan(own.first).begin());
  }

  // Of all ranks, one behind the other.
  std::span<std::byte> frames(int index) {
    const auto i = static_cast<std::size_t>(index);
    const auto world_size = static_cast<std::size_t>(ring_.world_size());
    return frames_.span().subspan(places_[i], slots_.of_bucket[i] * world_size);
  }
  std::span<std::byte> slot(int index, int rank) {
    const std::size_t bytes = slots_.of_bucket[static_cast<std::size_t>(index)];
    return frames(index).subspan(bytes * static_cast<std::size_t>(rank), bytes);
  }

  optim::Residual& residual_;
  device::Buffer<float> next_;  // of the step that is made, or given up
  const Slots slots_;
  device::Buffer<std::byte> frames_;  // by bucket, then by rank
  std::vector<std::size_t> places_;   // where a bucket's begin
};

}  // namespace

Slots slots_of(const CompressionOptions& options, const std::vector<Bucket>& buckets) {
  models::Index largest = 0;
  for (const Bucket& bucket : buckets) largest = std::max(largest, bucket.last - bucket.first);
  Slots slots;
  slots.compressor = compress::make_compressor(
      {.kind = options.kind, .count_max = largest, .share = options.share});
  for (const Bucket& bucket : buckets) {
    slots.of_bucket.push_back(kSlotHead +
                              slots.compressor->frame_bytes_max(bucket.last - bucket.first));
    slots.bytes += slots.of_bucket.back();
  }
  return slots;
}

std::unique_ptr<GradientReducer> make_compressed_reducer(collective::Collective& ring,
                                                         std::span<float> gradients,
                                                         optim::Residual& residual,
                                                         const CompressionOptions& options) {
  return std::make_unique<CompressedReducer>(ring, gradients, residual, options);
}

}  // namespace pawl::parallel
