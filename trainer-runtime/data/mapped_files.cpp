#include "trainer-runtime/data/mapped_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/os/fd.h"
#include "common/os/process.h"
#include "trainer-runtime/data/dataset.h"

namespace pawl::data {

Status MappedFiles::add(const std::string& path) {
  PAWL_TRY(files, files_of(path));
  for (const std::string& file : files) PAWL_TRY_VOID(add_file(file));
  return {};
}

Status MappedFiles::add_file(const std::string& path) {
  const os::Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat about{};
  if (!fd.is_open() || ::fstat(fd.get(), &about) != 0) {
    return fail(code_of_file_error(errno), "data.paths: " + path + ": " + os::errno_text());
  }
  if (!S_ISREG(about.st_mode))
    return fail(Code::kInvalid, "data.paths: " + path + " is not a file");
  if (about.st_size == 0) return {};
  const auto size = static_cast<std::size_t>(about.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED)
    return fail(code_of_file_error(errno), "data.paths: " + path + ": " + os::errno_text());
  files_.push_back({path, bytes_, size, static_cast<const unsigned char*>(memory)});
  bytes_ += size;
  return {};
}

MappedFiles::~MappedFiles() {
  for (const File& file : files_) ::munmap(const_cast<unsigned char*>(file.memory), file.bytes);
}

const MappedFiles::File& MappedFiles::file_of(std::uint64_t at) const {
  return *(std::upper_bound(files_.begin(), files_.end(), at,
                            [](std::uint64_t byte, const File& f) { return byte < f.first; }) -
           1);
}

void MappedFiles::copy(std::uint64_t first, std::span<unsigned char> out) const {
  if (out.empty()) return;
  for (const File* file = &file_of(first); !out.empty(); ++file) {
    const std::uint64_t skipped = first - file->first;
    const auto length =
        static_cast<std::size_t>(std::min<std::uint64_t>(file->bytes - skipped, out.size()));
    std::memcpy(out.data(), file->memory + skipped, length);
    out = out.subspan(length);
    first += length;
  }
}

}  // namespace pawl::data
