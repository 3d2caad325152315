#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"
#include "trainer-runtime/compress/compressor.h"

namespace pawl::compress {
namespace {

constexpr Key kKeyMax = std::numeric_limits<Key>::max();

Key key_of(float value) { return static_cast<Key>(std::bit_cast<std::uint32_t>(value) << 1 >> 1); }

// Of a bucket: enough that some 32 of them are among those to be sent, but not more than a pass
// over the bucket costs.
Index sample_max(double share) {
  return static_cast<Index>(std::clamp(32 / share, 1024.0, 8192.0));
}

// Takes time in proportion to the number of elements, whatever they are. 1. A sample gives a
// threshold that somewhat more than the wanted elements are likely to reach. 2. One pass collects
// those that do; whenever there is room for no more, only the largest stay, and the smallest of
// these is the new threshold. So the frame holds the largest elements exactly, unless the sample
// misled: then it holds fewer, and the residual keeps the others.
class TopK final : public Compressor {
 public:
  explicit TopK(const Options& options)
      : table_(*options.kernels),
        share_(options.share),
        count_max_(options.count_max),
        sample_max_(sample_max(options.share)),
        indices_(static_cast<std::size_t>(capacity(entries_max(options.count_max)))),
        keys_(std::max(indices_.size(), static_cast<std::size_t>(sample_max_))) {
    PAWL_CHECK(share_ > 0 && share_ <= 1 && count_max_ <= std::numeric_limits<std::uint32_t>::max(),
               "top-k takes a share of less than 2^32 elements");
  }

  std::size_t frame_bytes_max(Index count) const override {
    return 4 + 8 * static_cast<std::size_t>(entries_max(count));
  }

  std::size_t encode(std::span<const float> values, std::span<float> residual,
                     std::span<std::byte> frame) override {
    const auto count = static_cast<Index>(values.size());
    PAWL_CHECK(count <= count_max_ && residual.size() == values.size() &&
                   frame.size() >= frame_bytes_max(count),
               "a buffer is too small, or was not planned");
    const Key largest = table_.accumulate(count, values.data(), residual.data());
    const Index found = largest > 0 ? collect(residual) : 0;
    const auto entries = static_cast<std::uint32_t>(found);
    std::memcpy(frame.data(), &entries, 4);
    std::memcpy(frame.data() + 4, indices_.data(), 4 * std::size_t{entries});
    std::byte* const said = frame.data() + 4 + 4 * std::size_t{entries};
    for (std::size_t i = 0; i < entries; ++i) {
      std::memcpy(said + 4 * i, &residual[indices_[i]], 4);
      residual[indices_[i]] = 0;
    }
    // There may be more of these than fit; as they are the largest, the frame has one at least.
    if (largest >= kInfinity) table_.drop_not_finite(count, residual.data());
    return 4 + 8 * std::size_t{entries};
  }

  Status decode_add(std::span<const std::byte> frame, std::span<float> sum) const override {
    std::uint32_t entries = 0;
    if (frame.size() >= 4) std::memcpy(&entries, frame.data(), 4);
    if (frame.size() != 4 + 8 * std::size_t{entries} ||
        entries > static_cast<std::size_t>(entries_max(static_cast<Index>(sum.size())))) {
      return fail(Code::kCorrupt, "a frame of " + std::to_string(frame.size()) +
                                      " bytes cannot hold " + std::to_string(entries) + " of " +
                                      std::to_string(sum.size()) + " elements");
    }
    const std::byte* const indices = frame.data() + 4;
    const std::byte* const said = indices + 4 * std::size_t{entries};
    std::uint32_t index = 0;
    std::size_t first_free = 0;
    for (std::size_t i = 0; i < entries; ++i) {
      std::memcpy(&index, indices + 4 * i, 4);
      if (index < first_free || index >= sum.size()) {
        return fail(Code::kCorrupt, "a frame has element " + std::to_string(index) + " of " +
                                        std::to_string(sum.size()) + " out of order");
      }
      first_free = std::size_t{index} + 1;
    }
    for (std::size_t i = 0; i < entries; ++i) {
      float value = 0;
      std::memcpy(&index, indices + 4 * i, 4);
      std::memcpy(&value, said + 4 * i, 4);
      sum[index] += value;
    }
    return {};
  }

 private:
  Index entries_max(Index count) const {
    const auto entries = static_cast<Index>(share_ * static_cast<double>(count));
    return std::clamp<Index>(entries, std::min<Index>(count, 1), count);
  }
  static Index capacity(Index entries) { return 2 * entries + 2 * kSearchGroup; }

  // Puts the indices of what is to be sent in indices_, rising; returns how many.
  Index collect(std::span<const float> values) {
    const Index entries = entries_max(static_cast<Index>(values.size()));
    Search search{.values = values.data(),
                  .count = static_cast<Index>(values.size()),
                  .threshold = sampled_threshold(values),
                  .indices = indices_.data(),
                  .capacity = capacity(entries)};
    do {
      table_.search(search);
      if (search.found > entries) keep_largest(search, entries);
    } while (search.next < search.count);
    return search.found;
  }

  // The sample depends on nothing but the number of elements.
  Key sampled_threshold(std::span<const float> values) {
    const auto count = static_cast<Index>(values.size());
    const Index sample = std::min(count, sample_max_), stride = count / sample;
    for (Index i = 0; i < sample; ++i) {
      const auto at = static_cast<Index>(
          Random(static_cast<std::uint64_t>(i)).below(static_cast<std::uint64_t>(stride)));
      keys_[static_cast<std::size_t>(i)] =
          key_of(values[static_cast<std::size_t>(i * stride + at)]);
    }
    // Two standard deviations more than are expected among the sample.
    const double hits = static_cast<double>(sample) * static_cast<double>(entries_max(count)) /
                        static_cast<double>(count);
    const Index rank = std::min(static_cast<Index>(hits + 2 * std::sqrt(hits)), sample - 1);
    return std::max(nth_largest(sample, rank), 1);
  }

  Key nth_largest(Index count, Index rank) {
    const auto nth = keys_.begin() + rank;
    std::nth_element(keys_.begin(), nth, keys_.begin() + count, std::greater<>());
    return *nth;
  }

  // Of those found, the first where several are equally large.
  void keep_largest(Search& search, Index entries) {
    const auto key_at = [&](Index i) { return key_of(search.values[search.indices[i]]); };
    for (Index i = 0; i < search.found; ++i) keys_[static_cast<std::size_t>(i)] = key_at(i);
    const Key least = nth_largest(search.found, entries - 1);
    Index equals = entries;
    for (Index i = 0; i < search.found; ++i) equals -= key_at(i) > least ? 1 : 0;
    Index kept = 0;
    for (Index i = 0; i < search.found; ++i) {
      const Key key = key_at(i);
      if (key > least || (key == least && equals-- > 0)) search.indices[kept++] = search.indices[i];
    }
    search.found = kept;
    if (least == kKeyMax) {
      search.next = search.count;
    } else {
      search.threshold = least + 1;
    }
  }

  const KernelTable& table_;
  const double share_;
  const Index count_max_, sample_max_;
  std::vector<std::uint32_t> indices_;  // of the candidates
  std::vector<Key> keys_;               // of the candidates, or of the sample
};

}  // namespace

std::unique_ptr<Compressor> make_top_k(const Options& options) {
  return std::make_unique<TopK>(options);
}

}  // namespace pawl::compress
