// A disk in memory that forgets like a real one. What a program wrote is on the disk only after a
// sync: a file's data after the file's, a name after its folder's. A crash drops what was not
// synced, or keeps it, or any part of it (CrashLoss). Handles are "processes" on the disk: each can
// be made to die before its nth call, after which nothing that it does has an effect; or one call
// can be made to fail, with or without having been done. For tests of store and checkpoint. One
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/store/file_system.h"

namespace pawl::store {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

enum class CrashLoss {
  kNothing,   // everything reached the disk just in time
  kUnsynced,  // all that was not synced is gone
  kData,      // names and sizes survive, unsynced data reads as zeros
  kRandom,    // any subset of the changes of names, any part of the data
};

class MemoryDisk {
 public:
  MemoryDisk();
  void crash(CrashLoss loss, std::uint64_t seed = 0);

  bool refuses_no_replace = false;  // as NFS does
  std::uint64_t bytes_free = std::uint64_t{1} << 40;
  std::function<void(const std::string& call)> before_call;  // other processes' deeds in between
  // The bytes of a file as a program sees them now; for flipping bits. nullptr when it is not
  // there.
  std::vector<std::byte>* data_of(const std::string& path);
  std::vector<std::string> all_files() const;

 private:
  friend class MemoryFileSystem;
  using Number = std::uint64_t;
  struct Node {
    bool is_folder = false;
    std::vector<std::byte> data, synced_data;
    std::map<std::string, Number> names, synced_names;
  };
  struct Change {  // of one name; no node: removed
    Number folder = 0;
    std::string name;
    std::optional<Number> node;
  };
  using Operation = std::vector<Change>;  // atomic on the disk

  Number find(const std::string& path) const;  // 0: not there
  std::pair<Number, std::string> place_of(const std::string& path) const;
  void apply(Operation operation);
  void apply_synced(const Operation& operation);
  void sync_names(Number folder);
  std::uint64_t links_of(Number node) const;
  Number add(bool is_folder);
  void list_into(Number folder, const std::string& path, std::vector<std::string>& found) const;

  std::map<Number, Node> nodes_;
  std::vector<Operation> pending_;
  Number last_ = 1;  // 1 is the root
};

struct Fault {
  std::string call;      // "write", "sync", "link", …
  int nth = 1;           // of these calls
  int error = 0;         // positive errno
  bool is_done = false;  // the call has its effect and still reports the error
};

class MemoryFileSystem final : public FileSystem {
 public:
  explicit MemoryFileSystem(MemoryDisk& disk, long die_at = -1) : disk_(disk), die_at_(die_at) {}
  void fail(Fault fault) { faults_.push_back(std::move(fault)); }
  long calls() const { return calls_; }
  std::size_t open_files() const { return open_.size(); }
  bool is_dead() const { return die_at_ >= 0 && calls_ > die_at_; }

  int open_new(const std::string& path) override;
  int open_read(const std::string& path) override;
  int open_folder(const std::string& path) override;
  std::int64_t write(int fd, std::span<const std::byte> bytes) override;
  std::int64_t read(int fd, std::uint64_t offset, std::span<std::byte> bytes) override;
  int sync(int fd) override;
  int close(int fd) override;
  int rename(const std::string& from, const std::string& to) override;
  int rename_no_replace(const std::string& from, const std::string& to) override;
  int link(const std::string& from, const std::string& to) override;
  int remove_file(const std::string& path) override;
  int make_folder(const std::string& path) override;
  int remove_folder(const std::string& path) override;
  int stat(const std::string& path, FileStat& found) override;
  int list(const std::string& path, std::vector<FolderEntry>& found) override;

 private:
  std::int64_t call(const char* name, const std::function<std::int64_t()>& effect);
  std::int64_t opened(MemoryDisk::Number node);
  std::int64_t renamed(const std::string& from, const std::string& to, bool is_replacing);

  MemoryDisk& disk_;
  const long die_at_;
  long calls_ = 0;
  std::map<std::string, int> calls_of_;
  std::vector<Fault> faults_;
  std::map<int, MemoryDisk::Number> open_;
  int last_fd_ = 2;
};

}  // namespace pawl::store
