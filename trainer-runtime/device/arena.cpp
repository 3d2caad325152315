#include "trainer-runtime/device/arena.h"

#include <sys/mman.h>

namespace pawl::device {

Arena::Arena(std::size_t bytes) : bytes_(aligned(bytes)) {
  if (bytes_ == 0) return;
  void* memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PAWL_CHECK(memory != MAP_FAILED, "out of memory: the model does not fit this machine");
  memory_ = static_cast<std::byte*>(memory);
  ::madvise(memory, bytes_, MADV_HUGEPAGE);  // only a wish
}

Arena::~Arena() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

}  // namespace pawl::device
