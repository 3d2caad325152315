#include "trainer-runtime/compress/compressor.h"

#include <cstring>
#include <string>

#include "common/base/check.h"

namespace pawl::compress {
namespace {

constexpr Index blocks_of(Index count, Index block) { return (count + block - 1) / block; }

// A frame whose size follows from the number of elements, and of which every bit pattern is one.
class FixedSize : public Compressor {
 public:
  using Encode = void (*)(Index count, const float* values, float* residual, std::byte* frame);
  using Add = void (*)(Index count, const std::byte* frame, float* sum);
  using Bytes = Index (*)(Index count);
  struct Format {
    Bytes bytes;
    Encode encode;
    Add add;
  };
  explicit FixedSize(const Format& format) : format_(format) {}

  std::size_t frame_bytes_max(Index count) const override {
    return static_cast<std::size_t>(format_.bytes(count));
  }

  std::size_t encode(std::span<const float> values, std::span<float> residual,
                     std::span<std::byte> frame) override {
    const auto count = static_cast<Index>(values.size());
    const std::size_t bytes = frame_bytes_max(count);
    PAWL_CHECK(residual.size() == values.size() && frame.size() >= bytes, "a buffer is too small");
    format_.encode(count, values.data(), residual.data(), frame.data());
    return bytes;
  }

  Status decode_add(std::span<const std::byte> frame, std::span<float> sum) const override {
    const auto count = static_cast<Index>(sum.size());
    const std::size_t bytes = frame_bytes_max(count);
    if (frame.size() != bytes) {
      return fail(Code::kCorrupt, "a frame of " + std::to_string(count) + " elements has " +
                                      std::to_string(bytes) + " bytes, not " +
                                      std::to_string(frame.size()));
    }
    format_.add(count, frame.data(), sum.data());
    return {};
  }

 private:
  const Format format_;
};

class Sign final : public FixedSize {
 public:
  explicit Sign(const Format& format) : FixedSize(format) {}

  Status decode_add(std::span<const std::byte> frame, std::span<float> sum) const override {
    const Index used = static_cast<Index>(sum.size()) % kSignBlock;
    constexpr std::size_t kBlockBytes = kSignWords * sizeof(std::uint32_t);
    if (used != 0 && frame.size() >= kBlockBytes) {
      std::uint32_t words[kSignWords];
      std::memcpy(words, frame.last(kBlockBytes).data(), kBlockBytes);
      for (Index i = used; i < kSignBlock; ++i) {
        if ((words[i % kSignWords] >> (i / kSignWords) & 1U) != 0)
          return fail(Code::kCorrupt, "a frame has signs behind its last element");
      }
    }
    return FixedSize::decode_add(frame, sum);
  }
};

Index bf16_bytes(Index count) { return 2 * count; }
Index int8_bytes(Index count) { return 4 * blocks_of(count, kInt8Block) + count; }
Index sign_bytes(Index count) { return (2 + 4 * kSignWords) * blocks_of(count, kSignBlock); }

}  // namespace

std::unique_ptr<Compressor> make_compressor(const Options& options) {
  const KernelTable& table = *options.kernels;
  switch (options.kind) {
    case Kind::kBf16:
      return std::make_unique<FixedSize>(
          FixedSize::Format{bf16_bytes, table.bf16_encode, table.bf16_add});
    case Kind::kInt8:
      return std::make_unique<FixedSize>(
          FixedSize::Format{int8_bytes, table.int8_encode, table.int8_add});
    case Kind::kSign:
      return std::make_unique<Sign>(
          FixedSize::Format{sign_bytes, table.sign_encode, table.sign_add});
    case Kind::kTopK:
      return make_top_k(options);
  }
  PAWL_CHECK(false, "no such compressor");
}

}  // namespace pawl::compress
