// SHA-256 (FIPS 180-4) and CRC32C (Castagnoli), with the processor's instructions where it has
// them. In our own code because the trainer builds without OpenSSL; the unit tests compare with
// OpenSSL. Pure; a hasher belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pawl {

// Which code computes a hash. Only tests ask for kPortable; kFastest is it too where the processor
// lacks the instructions.
enum class HashPath { kFastest, kPortable };

class Sha256 {
 public:
  explicit Sha256(HashPath path = HashPath::kFastest);
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // The digest of everything so far as 64 lower-case hex digits. The hasher is spent afterwards.
  std::string hex_digest();

 private:
  using Chain = std::array<std::uint32_t, 8>;
  // Folds `count` blocks of 64 bytes into the chain.
  void (*compress_)(Chain& chain, const std::byte* blocks, std::size_t count);
  Chain chain_;
  std::array<std::byte, 64> block_{};
  std::size_t block_used_ = 0;
  std::uint64_t total_bytes_ = 0;
};

std::string sha256_hex(std::string_view text);

// Continues `crc` (0 for a new one) over `bytes`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0,
                     HashPath path = HashPath::kFastest);

}  // namespace pawl
