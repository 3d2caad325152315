#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/store/file_system.h"

namespace pawl::store {
namespace {

// Linux writes and reads at most 0x7ffff000 bytes a call; a rounder bound is as good.
constexpr std::size_t kBytesPerCall = std::size_t{1} << 30;

template <typename Call>
auto repeated(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result < 0 ? static_cast<decltype(result)>(-errno) : result;
}

EntryKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::kFile;
  return S_ISDIR(mode) ? EntryKind::kFolder : EntryKind::kOther;
}

class PosixFileSystem final : public FileSystem {
 public:
  int open_new(const std::string& path) override {
    return repeated(
        [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); });
  }
  int open_read(const std::string& path) override {
    return repeated([&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC); });
  }
  int open_folder(const std::string& path) override {
    return repeated([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  }
  std::int64_t write(int fd, std::span<const std::byte> bytes) override {
    return repeated(
        [&] { return ::write(fd, bytes.data(), std::min(bytes.size(), kBytesPerCall)); });
  }
  std::int64_t read(int fd, std::uint64_t offset, std::span<std::byte> bytes) override {
    return repeated([&] {
      return ::pread(fd, bytes.data(), std::min(bytes.size(), kBytesPerCall),
                     static_cast<off_t>(offset));
    });
  }
  int sync(int fd) override {
    return repeated([&] { return ::fsync(fd); });
  }
  // Not repeated: Linux has closed the descriptor even when it says EINTR.
  int close(int fd) override { return ::close(fd) == 0 || errno == EINTR ? 0 : -errno; }
  int rename(const std::string& from, const std::string& to) override {
    return repeated([&] { return ::rename(from.c_str(), to.c_str()); });
  }
  // By number, because older C libraries (musl) lack the function.
  int rename_no_replace(const std::string& from, const std::string& to) override {
    return static_cast<int>(repeated([&] {
      return ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                       RENAME_NOREPLACE);
    }));
  }
  int link(const std::string& from, const std::string& to) override {
    return repeated([&] { return ::link(from.c_str(), to.c_str()); });
  }
  int remove_file(const std::string& path) override {
    return repeated([&] { return ::unlink(path.c_str()); });
  }
  int make_folder(const std::string& path) override {
    return repeated([&] { return ::mkdir(path.c_str(), 0755); });
  }
  int remove_folder(const std::string& path) override {
    return repeated([&] { return ::rmdir(path.c_str()); });
  }
  int stat(const std::string& path, FileStat& found) override {
    struct ::stat status{};
    const int result = repeated([&] { return ::lstat(path.c_str(), &status); });
    if (result != 0) return result;
    found = {kind_of(status.st_mode), static_cast<std::uint64_t>(status.st_size), status.st_ino,
             status.st_nlink};
    return 0;
  }
  int list(const std::string& path, std::vector<FolderEntry>& found) override {
    found.clear();
    DIR* folder = ::opendir(path.c_str());
    if (folder == nullptr) return -errno;
    int result = 0;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(folder);
      if (entry == nullptr) {
        result = -errno;
        break;
      }
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      FileStat status;
      if (entry->d_type == DT_REG || entry->d_type == DT_DIR) {
        status.kind = entry->d_type == DT_REG ? EntryKind::kFile : EntryKind::kFolder;
      } else if (stat(path + "/" + name, status) != 0) {
        continue;  // gone meanwhile
      }
      found.push_back({name, status.kind});
    }
    ::closedir(folder);
    return result;
  }
};

}  // namespace

std::unique_ptr<FileSystem> make_posix_file_system() { return std::make_unique<PosixFileSystem>(); }

}  // namespace pawl::store
