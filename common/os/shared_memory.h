// Shared memory of a descriptor, mapped for reading and writing as long as this lives. Whoever maps
// what another process may make smaller is killed by a read behind its end: see F_SEAL_SHRINK. What
// lies there is anybody's who has the descriptor; use atomics.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "common/base/result.h"

namespace pawl::os {

class SharedMemory {
 public:
  SharedMemory() = default;
  // Io when it cannot be mapped. The descriptor may be closed afterwards.
  static Result<SharedMemory> map(int fd, std::size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace pawl::os
