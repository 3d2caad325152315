// How two programs of one generation know each other: HMAC-SHA256 with its key, over what both
// have drawn at random, so that nothing that was heard before is of use. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pawl::launcher::mpi {

enum class Side : char { kAgent = 'A', kCaller = 'C' };  // who listens, who connects

inline constexpr std::size_t kNonceBytes = 64, kMacBytes = 32;

struct Nonces {
  std::string agent, caller;
};

std::string make_nonce();
std::string mac(std::string_view key, std::string_view text);
std::string hex(std::string_view bytes);
// Takes the same time wherever they differ.
bool are_equal(std::string_view a, std::string_view b);

// That this side knows the key.
std::string proof_of(Side side, std::string_view key, const Nonces& nonces);
// For the frames of this connection.
std::string session_key(std::string_view key, const Nonces& nonces);
std::string frame_mac(std::string_view session, Side sender, std::uint64_t number,
                      std::string_view body);

}  // namespace pawl::launcher::mpi
