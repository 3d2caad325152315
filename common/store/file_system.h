// The seam between FileStore and the operating system: one virtual function a system call, so that
// tests can count calls, fail any of them, and forget at a "crash" what was not synced. Every
// function returns the call's result, or -errno as the kernel does; the real one repeats what a
// signal interrupted. Paths are absolute. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pawl::store {

enum class EntryKind {
  kFile,
  kFolder,
  kOther
};  // kOther: links, sockets and the like; never followed

struct FileStat {
  EntryKind kind = EntryKind::kFile;
  std::uint64_t bytes = 0, inode = 0, links = 0;
};
struct FolderEntry {
  std::string name;
  EntryKind kind = EntryKind::kFile;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open_new(const std::string& path) = 0;     // for writing; -EEXIST when it is there
  virtual int open_read(const std::string& path) = 0;    // a file
  virtual int open_folder(const std::string& path) = 0;  // to sync it
  virtual std::int64_t write(int fd, std::span<const std::byte> bytes) = 0;  // may be short
  virtual std::int64_t read(int fd, std::uint64_t offset, std::span<std::byte> bytes) = 0;
  virtual int sync(int fd) = 0;
  virtual int close(int fd) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  // -EEXIST when `to` is there; -EINVAL or the like where the file system cannot do it (NFS).
  virtual int rename_no_replace(const std::string& from, const std::string& to) = 0;
  virtual int link(const std::string& from, const std::string& to) = 0;
  virtual int remove_file(const std::string& path) = 0;
  virtual int make_folder(const std::string& path) = 0;
  virtual int remove_folder(const std::string& path) = 0;  // an empty one
  virtual int stat(const std::string& path, FileStat& found) = 0;
  virtual int list(const std::string& path, std::vector<FolderEntry>& found) = 0;
};

std::unique_ptr<FileSystem> make_posix_file_system();

}  // namespace pawl::store
