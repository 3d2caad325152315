// A Store in a folder of a file system that all users of it share (a local disk, a claim, NFS).
//
// put: (1) write a new file ".tmp-…" beside the key, (2) sync it, (3) rename it to the key,
// refusing to replace (link and unlink where the file system cannot refuse), (4) sync the folders
// up to the root. So a reader sees a whole object or none, also after a crash at any point; what a
// crash leaves is a hidden file or folder. A failed sync is never repeated: the kernel may have
// dropped the pages. Names with a leading dot are ours alone. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "common/store/file_system.h"
#include "common/store/store.h"

namespace pawl::store {

class FileStore final : public Store {
 public:
  // `root` is absolute, without a trailing slash. Only looked at: the first put makes it, with its
  // parents. Who reads from a place that is not mounted must not leave an empty folder there.
  static Result<std::unique_ptr<Store>> open(std::unique_ptr<FileSystem> files, std::string root);
  FileStore(std::unique_ptr<FileSystem> files, std::string root)
      : files_(std::move(files)), root_(std::move(root)) {}

  using Parts = std::span<const std::span<const std::byte>>;
  Status put(const std::string& key, std::span<const std::byte> bytes, bool is_replacing) override;
  // The same of an object whose bytes lie in several places.
  Status put_parts(const std::string& key, Parts parts, bool is_replacing);
  Result<std::vector<std::byte>> get(const std::string& key) const override;
  Status read(const std::string& key, std::uint64_t offset,
              std::span<std::byte> bytes) const override;
  Result<Entry> stat(const std::string& key) const override;
  Result<std::vector<Entry>> list(const std::string& prefix) const override;
  Result<std::vector<std::string>> list_folders(const std::string& prefix) const override;
  Status remove_folder(const std::string& folder) override;
  Status rename_folder(const std::string& from, const std::string& to) override;
  std::string uri_of(const std::string& key) const override;

 private:
  Result<std::string> path_of(const std::string& key) const;
  Result<std::string> folder_path(const std::string& prefix) const;  // "" is the root
  Status make_folders(const std::string& path);
  Result<std::string> write_temporary(const std::string& path, Parts parts);
  Status write_all(const std::string& path, int fd, std::span<const std::byte> bytes);
  Status fill(const std::string& path, int fd, Parts parts);
  Status publish(const std::string& temporary, const std::string& path);
  Status publish_by_link(const std::string& temporary, const std::string& path);
  Status replace(const std::string& temporary, const std::string& path);
  Status rename_settled(const std::string& temporary, const std::string& path, int result,
                        const FileStat& before);
  Status sync_folder(const std::string& path);
  Status sync_folders_of(const std::string& path);
  Status remove_tree(const std::string& path);
  void sweep_trash();
  Status list_into(const std::string& path, const std::string& key,
                   std::vector<Entry>& found) const;

  const std::unique_ptr<FileSystem> files_;
  const std::string root_;
  // Learned from the first refusal; both ways are right at any time, so a race costs one more
  // refused call.
  std::atomic<bool> is_no_replace_refused_ = false;
};

// A key: relative, at most 1024 bytes, no empty part, no part with a leading dot, no control
// characters.
Status validate_key(const std::string& key);

}  // namespace pawl::store
