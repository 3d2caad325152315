#include "common/base/hash.h"

#include <openssl/evp.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace pawl {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  Random random{seed};
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

std::string openssl_sha256(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  REQUIRE(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) == 1);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < length; ++i) hex += {kDigits[digest[i] >> 4], kDigits[digest[i] & 0xf]};
  return hex;
}

// The definition, one bit at a time.
std::uint32_t slow_crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

std::uint32_t crc_of(std::string_view text, HashPath path) {
  return crc32c(std::as_bytes(std::span{text}), 0, path);
}

constexpr HashPath kPaths[] = {HashPath::kFastest, HashPath::kPortable};

}  // namespace

TEST_CASE("hash: SHA-256 equals OpenSSL at every length and both paths", "[base]") {
  const auto bytes = random_bytes(70'000, 1);
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length <= 300; ++length) lengths.push_back(length);
  for (const std::size_t length : {1023, 1024, 4096, 65'535, 65'536, 70'000})
    lengths.push_back(length);
  for (const std::size_t length : lengths) {
    const auto part = std::span{bytes}.first(length);
    const std::string expected = openssl_sha256(part);
    for (const HashPath path : kPaths) {
      Sha256 hasher{path};
      hasher.update(part);
      if (hasher.hex_digest() != expected) FAIL("length " << length);
    }
  }
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("hash: SHA-256 does not depend on how the input is split", "[base]") {
  Random random{2};
  for (int round = 0; round < 300; ++round) {
    const auto bytes = random_bytes(random.below(2000), 100 + static_cast<std::uint64_t>(round));
    const std::string expected = openssl_sha256(bytes);
    for (const HashPath path : kPaths) {
      Sha256 hasher{path};
      for (std::span<const std::byte> rest{bytes}; !rest.empty();) {
        const std::size_t taken = 1 + random.below(std::min<std::size_t>(rest.size(), 200));
        hasher.update(rest.first(taken));
        rest = rest.subspan(taken);
      }
      if (hasher.hex_digest() != expected) FAIL("round " << round);
    }
  }
}

TEST_CASE("hash: CRC32C equals the published values and the definition", "[base]") {
  for (const HashPath path : kPaths) {
    CHECK(crc_of("", path) == 0);
    CHECK(crc_of("123456789", path) == 0xe3069283);            // the check value of CRC-32C
    CHECK(crc_of(std::string(32, '\0'), path) == 0x8a9136aa);  // RFC 3720, B.4
    CHECK(crc_of(std::string(32, '\xff'), path) == 0x62a8ab43);
  }
  const auto bytes = random_bytes(40'000, 3);
  for (std::size_t length = 0; length <= bytes.size(); length += length < 100 ? 1 : 977) {
    for (std::size_t start = 0; start < 8 && start <= length; start += 3) {  // unaligned too
      const auto part = std::span{bytes}.subspan(start, length - start);
      const std::uint32_t expected = slow_crc32c(part);
      for (const HashPath path : kPaths) {
        if (crc32c(part, 0, path) != expected) FAIL("length " << length << " from " << start);
      }
    }
  }
}

TEST_CASE("hash: CRC32C continues over split input", "[base]") {
  const auto bytes = random_bytes(20'000, 4);
  Random random{5};
  const std::uint32_t expected = slow_crc32c(bytes);
  for (int round = 0; round < 100; ++round) {
    const std::size_t split = random.below(bytes.size() + 1);
    for (const HashPath path : kPaths) {
      const std::uint32_t first = crc32c(std::span{bytes}.first(split), 0, path);
      if (crc32c(std::span{bytes}.subspan(split), first, path) != expected) FAIL("split " << split);
    }
  }
}

}  // namespace pawl
