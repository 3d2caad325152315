// One flat block of memory for many arrays: parameters, gradients, moments, activations. It is
// sized at plan time, taken once from the operating system (zeroed, 64-byte aligned, huge pages
// where the kernel gives them) and never grows, so that a training step allocates nothing. Belongs
// to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "common/base/check.h"

namespace pawl::device {

inline constexpr std::size_t kAlignment = 64;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class Arena {
 public:
  Arena() = default;
  explicit Arena(std::size_t bytes);  // ends the process when the memory is not there
  Arena(Arena&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        used_(std::exchange(other.used_, 0)) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(used_, other.used_);
    return *this;
  }
  ~Arena();

  // The next `count` elements; the caller planned them with aligned(count * sizeof(T)).
  template <typename T>
  std::span<T> take(std::size_t count) {
    const std::size_t bytes = aligned(count * sizeof(T));
    PAWL_CHECK(used_ + bytes <= bytes_, "arena is smaller than its plan");
    T* first = reinterpret_cast<T*>(memory_ + used_);
    used_ += bytes;
    return {first, count};
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0;
};

// An arena that holds one array.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t count)
      : arena_(aligned(count * sizeof(T))), span_(arena_.take<T>(count)) {}
  std::span<T> span() { return span_; }
  std::span<const T> span() const { return span_; }
  T* data() { return span_.data(); }
  const T* data() const { return span_.data(); }
  std::size_t size() const { return span_.size(); }

 private:
  Arena arena_;
  std::span<T> span_;
};

}  // namespace pawl::device
