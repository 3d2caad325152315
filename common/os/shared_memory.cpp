#include "common/os/shared_memory.h"

#include <sys/mman.h>

#include "common/os/process.h"

namespace pawl::os {

Result<SharedMemory> SharedMemory::map(int fd, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return fail(Code::kIo, "mapping " + std::to_string(bytes) + " bytes: " + errno_text());
  SharedMemory mapped;
  mapped.bytes_ = {static_cast<std::byte*>(memory), bytes};
  return mapped;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace pawl::os
