#include "common/store/file_store.h"

#include <unistd.h>

#include <cerrno>

#include "common/os/process.h"
#include "common/store/file_error.h"

namespace pawl::store {
namespace {

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Unique across hosts: a pid alone is not, every container's is 1.
std::string hidden_name(const char* kind) {
  return "." + std::string{kind} + "-" + std::to_string(::getpid()) + "-" + os::random_hex(8);
}

bool is_unsupported(int result) {
  return result == -EINVAL || result == -ENOSYS || result == -EOPNOTSUPP;
}

}  // namespace

Result<std::unique_ptr<Store>> FileStore::open(std::unique_ptr<FileSystem> files,
                                               std::string root) {
  auto store = std::make_unique<FileStore>(std::move(files), std::move(root));
  FileStat found;
  const int seen = store->files_->stat(store->root_, found);
  if (seen != 0 && seen != -ENOENT) return file_error(seen, "looking at", store->root_);
  if (seen == 0 && found.kind == EntryKind::kFile)
    return fail(Code::kInvalid, store->root_ + " is a file, not a folder");
  return std::unique_ptr<Store>{std::move(store)};
}

Status FileStore::make_folders(const std::string& path) {
  int result = files_->make_folder(path);
  if (result == -ENOENT && path.rfind('/') > 0) {
    PAWL_TRY_VOID(make_folders(parent_of(path)));
    result = files_->make_folder(path);
  }
  FileStat found;
  if (result != 0 && (files_->stat(path, found) != 0 || found.kind == EntryKind::kFile)) {
    if (result == -EEXIST) return fail(Code::kInvalid, path + " is a file, not a folder");
    return file_error(result, "making folder", path);
  }
  const std::string parent = parent_of(path);
  const Status synced = sync_folder(parent.empty() ? "/" : parent);
  // What was there before may have a parent that we must not read. After any other answer it may be
  // ours.
  return result == -EEXIST ? Status{} : synced;
}

Status FileStore::put(const std::string& key, std::span<const std::byte> bytes, bool is_replacing) {
  return put_parts(key, {&bytes, 1}, is_replacing);
}

Status FileStore::put_parts(const std::string& key, Parts parts, bool is_replacing) {
  PAWL_TRY(path, path_of(key));
  PAWL_TRY(temporary, write_temporary(path, parts));
  const Status published = is_replacing ? replace(temporary, path) : publish(temporary, path);
  if (!published) {
    files_->remove_file(temporary);
    return published;
  }
  const Status synced = sync_folders_of(path);
  if (!synced) return fail(Code::kOutcomeUnknown, synced.error().message);
  return {};
}

Result<std::string> FileStore::write_temporary(const std::string& path, Parts parts) {
  const std::string temporary = parent_of(path) + "/" + hidden_name("tmp");
  int fd = files_->open_new(temporary);
  if (fd == -ENOENT) {
    PAWL_TRY_VOID(make_folders(parent_of(path)));
    fd = files_->open_new(temporary);
  }
  if (fd < 0) return file_error(fd, "creating", path);
  const Status filled = fill(path, fd, parts);
  const int closed = files_->close(fd);  // NFS reports a full disk here at the latest
  if (filled && closed == 0) return temporary;
  files_->remove_file(temporary);
  if (!filled) return tl::make_unexpected(filled.error());
  return file_error(closed, "closing", path);
}

Status FileStore::write_all(const std::string& path, int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t written = files_->write(fd, bytes);
    if (written <= 0)
      return file_error(written == 0 ? -EIO : static_cast<int>(written), "writing", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status FileStore::fill(const std::string& path, int fd, Parts parts) {
  for (const auto& part : parts) PAWL_TRY_VOID(write_all(path, fd, part));
  const int synced = files_->sync(fd);
  if (synced != 0) return file_error(synced, "syncing", path);
  return {};
}

Status FileStore::publish(const std::string& temporary, const std::string& path) {
  if (is_no_replace_refused_) return publish_by_link(temporary, path);
  FileStat before;
  const int seen = files_->stat(temporary, before);
  if (seen != 0) return file_error(seen, "publishing", path);
  const int result = files_->rename_no_replace(temporary, path);
  if (is_unsupported(result)) {
    is_no_replace_refused_ = true;
    return publish_by_link(temporary, path);
  }
  return rename_settled(temporary, path, result, before);
}

Status FileStore::replace(const std::string& temporary, const std::string& path) {
  FileStat before;
  const int seen = files_->stat(temporary, before);
  if (seen != 0) return file_error(seen, "publishing", path);
  return rename_settled(temporary, path, files_->rename(temporary, path), before);
}

// A lost reply looks like a failure (NFS repeats the request, which then fails): what counts is
// whether the file that we wrote stands under its name now.
Status FileStore::rename_settled(const std::string& temporary, const std::string& path, int result,
                                 const FileStat& before) {
  if (result == 0) return {};
  FileStat at_path, at_temporary;
  const int seen = files_->stat(path, at_path);
  if (seen == 0 && at_path.inode == before.inode &&
      files_->stat(temporary, at_temporary) == -ENOENT) {
    return {};
  }
  if (seen != 0 && seen != -ENOENT) {
    return fail(Code::kOutcomeUnknown, file_error(result, "publishing", path).value().message);
  }
  return file_error(result, "publishing", path);
}

Status FileStore::publish_by_link(const std::string& temporary, const std::string& path) {
  const int result = files_->link(temporary, path);
  if (result != 0) {
    FileStat found;
    const int seen = files_->stat(temporary, found);
    if (seen != 0) {
      return fail(Code::kOutcomeUnknown, file_error(result, "publishing", path).value().message);
    }
    if (found.links < 2) return file_error(result, "publishing", path);
  }
  files_->remove_file(temporary);  // a hidden file stays behind at worst
  return {};
}

Status FileStore::sync_folder(const std::string& path) {
  const int fd = files_->open_folder(path);
  if (fd < 0) return file_error(fd, "syncing folder", path);
  const int synced = files_->sync(fd);
  files_->close(fd);
  // EINVAL: this file system does not sync folders (some FUSE ones); there is nothing else to do.
  if (synced != 0 && synced != -EINVAL) return file_error(synced, "syncing folder", path);
  return {};
}

// Up to the root each time, although one sync would do where this process made no folder: another
// process may have made it a moment ago and not have synced it yet.
Status FileStore::sync_folders_of(const std::string& path) {
  for (std::string folder = parent_of(path);; folder = parent_of(folder)) {
    PAWL_TRY_VOID(sync_folder(folder));
    if (folder.size() <= root_.size()) return {};
  }
}

Status FileStore::remove_folder(const std::string& folder) {
  PAWL_TRY(path, path_of(folder));
  sweep_trash();
  const std::string trash = root_ + "/" + hidden_name("trash");
  const int renamed = files_->rename(path, trash);
  if (renamed == -ENOENT) return {};
  if (renamed != 0) return file_error(renamed, "removing", path);
  PAWL_TRY_VOID(sync_folders_of(path));
  return remove_tree(trash);
}

// What a crash in remove_folder left; whoever comes next finishes it.
void FileStore::sweep_trash() {
  std::vector<FolderEntry> entries;
  if (files_->list(root_, entries) != 0) return;
  for (const auto& entry : entries) {
    if (entry.name.starts_with(".trash-")) (void)remove_tree(root_ + "/" + entry.name);
  }
}

Status FileStore::remove_tree(const std::string& path) {
  std::vector<FolderEntry> entries;
  const int listed = files_->list(path, entries);
  if (listed == -ENOENT) return {};
  if (listed != 0) return file_error(listed, "removing", path);
  for (const auto& entry : entries) {
    const std::string child = path + "/" + entry.name;
    if (entry.kind == EntryKind::kFolder) {
      PAWL_TRY_VOID(remove_tree(child));
      continue;
    }
    const int removed = files_->remove_file(child);
    if (removed != 0 && removed != -ENOENT) return file_error(removed, "removing", child);
  }
  const int removed = files_->remove_folder(path);
  if (removed != 0 && removed != -ENOENT) return file_error(removed, "removing", path);
  return {};
}

Status FileStore::rename_folder(const std::string& from, const std::string& to) {
  PAWL_TRY(from_path, path_of(from));
  PAWL_TRY(to_path, path_of(to));
  int result = is_no_replace_refused_ ? -EINVAL : files_->rename_no_replace(from_path, to_path);
  if (is_unsupported(result)) {
    // Folders cannot be linked. A plain rename replaces an empty folder at most, and the look
    // before it makes even that a matter of two renames at the same instant.
    is_no_replace_refused_ = true;
    FileStat found;
    result = files_->stat(to_path, found) == 0 ? -EEXIST : files_->rename(from_path, to_path);
    if (result == -ENOTEMPTY) result = -EEXIST;
  }
  if (result != 0) return file_error(result, "renaming", from_path + " to " + to_path);
  PAWL_TRY_VOID(sync_folders_of(from_path));
  return sync_folders_of(to_path);
}

}  // namespace pawl::store
