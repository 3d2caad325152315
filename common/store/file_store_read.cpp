// The reading half of FileStore, names and keys.
#include <algorithm>
#include <cerrno>

#include "common/store/file_error.h"
#include "common/store/file_store.h"

namespace pawl::store {
namespace {

constexpr std::size_t kKeyBytesMax = 1024;
constexpr std::size_t kPartBytesMax = 255;

// The descriptor of an open file; closed at the end of the scope. Reading has no close error worth
// a word.
class OpenFile {
 public:
  OpenFile(FileSystem& files, int fd) : files_(files), fd_(fd) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) files_.close(fd_);
  }
  int fd() const { return fd_; }

 private:
  FileSystem& files_;
  int fd_;
};

}  // namespace

Status validate_key(const std::string& key) {
  const std::string quoted = "storage key \"" + key + "\"";
  if (key.empty()) return fail(Code::kInvalid, "a storage key is empty");
  if (key.size() > kKeyBytesMax) return fail(Code::kInvalid, quoted + " is longer than 1024 bytes");
  const bool has_control = std::any_of(key.begin(), key.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (has_control) return fail(Code::kInvalid, "a storage key has a control character");
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t end = std::min(key.find('/', start), key.size());
    const std::size_t bytes = end - start;
    if (bytes == 0) return fail(Code::kInvalid, quoted + " is absolute or has an empty part");
    if (key[start] == '.') return fail(Code::kInvalid, quoted + " has a part with a leading dot");
    if (bytes > kPartBytesMax) return fail(Code::kInvalid, quoted + " has a part over 255 bytes");
    start = end + 1;
  }
  return {};
}

Result<std::string> FileStore::path_of(const std::string& key) const {
  PAWL_TRY_VOID(validate_key(key));
  return root_ + "/" + key;
}

Result<std::string> FileStore::folder_path(const std::string& prefix) const {
  if (prefix.empty()) return root_;
  return path_of(prefix.back() == '/' ? prefix.substr(0, prefix.size() - 1) : prefix);
}

std::string FileStore::uri_of(const std::string& key) const {
  return "file://" + root_ + (key.empty() ? "" : "/" + key);
}

Result<std::vector<std::byte>> FileStore::get(const std::string& key) const {
  PAWL_TRY(path, path_of(key));
  const OpenFile file{*files_, files_->open_read(path)};
  if (file.fd() < 0) return file_error(file.fd(), "reading", path);
  std::vector<std::byte> bytes;
  for (std::size_t room = 4096;; room *= 2) {
    std::size_t used = bytes.size();
    bytes.resize(used + room);
    while (used < bytes.size()) {
      const auto got = files_->read(file.fd(), used, std::span{bytes}.subspan(used));
      if (got < 0) return file_error(static_cast<int>(got), "reading", path);
      if (got == 0) {
        bytes.resize(used);
        return bytes;
      }
      used += static_cast<std::size_t>(got);
    }
  }
}

Status FileStore::read(const std::string& key, std::uint64_t offset,
                       std::span<std::byte> bytes) const {
  PAWL_TRY(path, path_of(key));
  const OpenFile file{*files_, files_->open_read(path)};
  if (file.fd() < 0) return file_error(file.fd(), "reading", path);
  while (!bytes.empty()) {
    const auto got = files_->read(file.fd(), offset, bytes);
    if (got < 0) return file_error(static_cast<int>(got), "reading", path);
    if (got == 0)
      return fail(Code::kCorrupt, path + " ends early, at byte " + std::to_string(offset));
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<Entry> FileStore::stat(const std::string& key) const {
  PAWL_TRY(path, path_of(key));
  FileStat found;
  const int result = files_->stat(path, found);
  if (result != 0) return file_error(result, "looking at", path);
  if (found.kind != EntryKind::kFile) return fail(Code::kNotFound, path + " is not a file");
  return Entry{key, found.bytes};
}

Result<std::vector<Entry>> FileStore::list(const std::string& prefix) const {
  PAWL_TRY(path, folder_path(prefix));
  std::vector<Entry> found;
  const std::string key = path.size() == root_.size() ? "" : path.substr(root_.size() + 1) + "/";
  PAWL_TRY_VOID(list_into(path, key, found));
  std::sort(found.begin(), found.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
  return found;
}

Status FileStore::list_into(const std::string& path, const std::string& key,
                            std::vector<Entry>& found) const {
  std::vector<FolderEntry> entries;
  const int listed = files_->list(path, entries);
  if (listed == -ENOENT) return {};
  if (listed != 0) return file_error(listed, "listing", path);
  for (const auto& entry : entries) {
    if (!validate_key(key + entry.name)) continue;  // ours and unfinished, or nobody's
    const std::string child = path + "/" + entry.name;
    if (entry.kind == EntryKind::kFolder)
      PAWL_TRY_VOID(list_into(child, key + entry.name + "/", found));
    FileStat status;
    if (entry.kind != EntryKind::kFile) continue;
    const int seen = files_->stat(child, status);
    if (seen == -ENOENT) continue;  // removed meanwhile
    if (seen != 0) return file_error(seen, "listing", child);
    found.push_back({key + entry.name, status.bytes});
  }
  return {};
}

Result<std::vector<std::string>> FileStore::list_folders(const std::string& prefix) const {
  PAWL_TRY(path, folder_path(prefix));
  std::vector<FolderEntry> entries;
  const int listed = files_->list(path, entries);
  if (listed != 0 && listed != -ENOENT) return file_error(listed, "listing", path);
  std::vector<std::string> names;
  for (const auto& entry : entries) {
    if (entry.kind == EntryKind::kFolder && validate_key(entry.name)) names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace pawl::store
