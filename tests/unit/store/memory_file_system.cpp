#include "tests/unit/store/memory_file_system.h"

#include <algorithm>
#include <cerrno>

namespace pawl::store {
namespace {

constexpr std::size_t kShortWrite = 1000;  // so that nobody relies on whole writes

}  // namespace

MemoryDisk::MemoryDisk() { nodes_[1].is_folder = true; }

MemoryDisk::Number MemoryDisk::find(const std::string& path) const {
  Number node = 1;
  for (std::size_t start = 1; start < path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const auto& names = nodes_.at(node).names;
    const auto found = names.find(path.substr(start, end - start));
    if (found == names.end()) return 0;
    node = found->second;
    start = end + 1;
  }
  return node;
}

std::pair<MemoryDisk::Number, std::string> MemoryDisk::place_of(const std::string& path) const {
  const auto slash = path.rfind('/');
  const Number folder = find(slash == 0 ? "/" : path.substr(0, slash));
  return {folder, path.substr(slash + 1)};
}

void MemoryDisk::apply(Operation operation) {
  for (const auto& change : operation) {
    auto& names = nodes_.at(change.folder).names;
    if (change.node) {
      names[change.name] = *change.node;
    } else {
      names.erase(change.name);
    }
  }
  pending_.push_back(std::move(operation));
}

void MemoryDisk::apply_synced(const Operation& operation) {
  for (const auto& change : operation) {
    auto& names = nodes_.at(change.folder).synced_names;
    if (change.node) {
      names[change.name] = *change.node;
    } else {
      names.erase(change.name);
    }
  }
}

void MemoryDisk::sync_names(Number folder) {
  std::vector<Operation> rest;
  for (auto& operation : pending_) {
    const bool is_here = std::any_of(operation.begin(), operation.end(),
                                     [&](const Change& change) { return change.folder == folder; });
    if (is_here) {
      apply_synced(operation);
    } else {
      rest.push_back(std::move(operation));
    }
  }
  pending_ = std::move(rest);
}

void MemoryDisk::crash(CrashLoss loss, std::uint64_t seed) {
  Random random{seed};
  for (const auto& operation : pending_) {
    const bool is_kept = loss == CrashLoss::kNothing || loss == CrashLoss::kData ||
                         (loss == CrashLoss::kRandom && random.one_in(2));
    if (is_kept) apply_synced(operation);
  }
  pending_.clear();
  for (auto& [number, node] : nodes_) {
    node.names = node.synced_names;
    if (node.data != node.synced_data) {
      if (loss == CrashLoss::kUnsynced) node.data = node.synced_data;
      if (loss == CrashLoss::kData) std::fill(node.data.begin(), node.data.end(), std::byte{0});
      if (loss == CrashLoss::kRandom) node.data.resize(random.below(node.data.size() + 1));
    }
    node.synced_data = node.data;
  }
}

std::uint64_t MemoryDisk::links_of(Number number) const {
  std::uint64_t links = 0;
  for (const auto& [folder, node] : nodes_) {
    for (const auto& [name, target] : node.names) links += target == number ? 1 : 0;
  }
  return links;
}

MemoryDisk::Number MemoryDisk::add(bool is_folder) {
  nodes_[++last_].is_folder = is_folder;
  return last_;
}

std::vector<std::byte>* MemoryDisk::data_of(const std::string& path) {
  const Number node = find(path);
  return node == 0 ? nullptr : &nodes_.at(node).data;
}

std::vector<std::string> MemoryDisk::all_files() const {
  std::vector<std::string> found;
  list_into(1, "", found);
  return found;
}

void MemoryDisk::list_into(Number folder, const std::string& path,
                           std::vector<std::string>& found) const {
  for (const auto& [name, number] : nodes_.at(folder).names) {
    if (nodes_.at(number).is_folder) {
      list_into(number, path + "/" + name, found);
    } else {
      found.push_back(path + "/" + name);
    }
  }
}

std::int64_t MemoryFileSystem::call(const char* name, const std::function<std::int64_t()>& effect) {
  ++calls_;
  if (is_dead()) return -EIO;
  if (const auto hook = disk_.before_call) hook(name);  // a copy: it may take itself away
  const int nth = ++calls_of_[name];
  for (const auto& fault : faults_) {
    if (fault.call != name || fault.nth != nth) continue;
    const auto before = open_;
    if (fault.is_done) effect();
    open_ = before;  // an open that fails gives no descriptor
    return -fault.error;
  }
  return effect();
}

std::int64_t MemoryFileSystem::opened(MemoryDisk::Number node) {
  open_[++last_fd_] = node;
  return last_fd_;
}

int MemoryFileSystem::open_new(const std::string& path) {
  return static_cast<int>(call("open_new", [&]() -> std::int64_t {
    const auto [folder, name] = disk_.place_of(path);
    if (folder == 0) return -ENOENT;
    if (disk_.find(path) != 0) return -EEXIST;
    const auto node = disk_.add(false);
    disk_.apply({{folder, name, node}});
    return opened(node);
  }));
}

int MemoryFileSystem::open_read(const std::string& path) {
  return static_cast<int>(call("open_read", [&]() -> std::int64_t {
    const auto node = disk_.find(path);
    return node == 0 ? -ENOENT : opened(node);
  }));
}

int MemoryFileSystem::open_folder(const std::string& path) {
  return static_cast<int>(call("open_folder", [&]() -> std::int64_t {
    const auto node = disk_.find(path);
    if (node == 0) return -ENOENT;
    return disk_.nodes_.at(node).is_folder ? opened(node) : -ENOTDIR;
  }));
}

std::int64_t MemoryFileSystem::write(int fd, std::span<const std::byte> bytes) {
  return call("write", [&]() -> std::int64_t {
    const std::size_t count =
        std::min({bytes.size(), kShortWrite, static_cast<std::size_t>(disk_.bytes_free)});
    if (count == 0 && !bytes.empty()) return -ENOSPC;
    disk_.bytes_free -= count;
    auto& data = disk_.nodes_.at(open_.at(fd)).data;
    data.insert(data.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<std::int64_t>(count);
  });
}

std::int64_t MemoryFileSystem::read(int fd, std::uint64_t offset, std::span<std::byte> bytes) {
  return call("read", [&]() -> std::int64_t {
    const auto& node = disk_.nodes_.at(open_.at(fd));
    if (node.is_folder) return -EISDIR;
    if (offset >= node.data.size()) return 0;
    const auto count = std::min<std::uint64_t>(bytes.size(), node.data.size() - offset);
    std::copy_n(node.data.begin() + static_cast<std::ptrdiff_t>(offset), count, bytes.begin());
    return static_cast<std::int64_t>(count);
  });
}

int MemoryFileSystem::sync(int fd) {
  return static_cast<int>(call("sync", [&]() -> std::int64_t {
    const auto number = open_.at(fd);
    auto& node = disk_.nodes_.at(number);
    if (node.is_folder) disk_.sync_names(number);
    node.synced_data = node.data;
    return 0;
  }));
}

int MemoryFileSystem::close(int fd) {
  open_.erase(fd);
  return static_cast<int>(call("close", [] { return 0; }));
}

std::int64_t MemoryFileSystem::renamed(const std::string& from, const std::string& to,
                                       bool is_replacing) {
  const auto node = disk_.find(from);
  const auto target = disk_.find(to);
  const auto [from_folder, from_name] = disk_.place_of(from);
  const auto [to_folder, to_name] = disk_.place_of(to);
  if (node == 0 || to_folder == 0) return -ENOENT;
  if (target != 0 && !is_replacing) return -EEXIST;
  if (target != 0 && !disk_.nodes_.at(target).names.empty()) return -ENOTEMPTY;
  disk_.apply({{from_folder, from_name, std::nullopt}, {to_folder, to_name, node}});
  return 0;
}

int MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  return static_cast<int>(call("rename", [&] { return renamed(from, to, true); }));
}

int MemoryFileSystem::rename_no_replace(const std::string& from, const std::string& to) {
  return static_cast<int>(call("rename_no_replace", [&]() -> std::int64_t {
    return disk_.refuses_no_replace ? -EINVAL : renamed(from, to, false);
  }));
}

int MemoryFileSystem::link(const std::string& from, const std::string& to) {
  return static_cast<int>(call("link", [&]() -> std::int64_t {
    const auto node = disk_.find(from);
    const auto [folder, name] = disk_.place_of(to);
    if (node == 0 || folder == 0) return -ENOENT;
    if (disk_.find(to) != 0) return -EEXIST;
    disk_.apply({{folder, name, node}});
    return 0;
  }));
}

int MemoryFileSystem::remove_file(const std::string& path) {
  return static_cast<int>(call("remove_file", [&]() -> std::int64_t {
    const auto [folder, name] = disk_.place_of(path);
    if (disk_.find(path) == 0) return -ENOENT;
    disk_.apply({{folder, name, std::nullopt}});
    return 0;
  }));
}

int MemoryFileSystem::make_folder(const std::string& path) {
  return static_cast<int>(call("make_folder", [&]() -> std::int64_t {
    const auto [folder, name] = disk_.place_of(path);
    if (folder == 0) return -ENOENT;
    if (disk_.find(path) != 0) return -EEXIST;
    disk_.apply({{folder, name, disk_.add(true)}});
    return 0;
  }));
}

int MemoryFileSystem::remove_folder(const std::string& path) {
  return static_cast<int>(call("remove_folder", [&]() -> std::int64_t {
    const auto node = disk_.find(path);
    const auto [folder, name] = disk_.place_of(path);
    if (node == 0) return -ENOENT;
    if (!disk_.nodes_.at(node).names.empty()) return -ENOTEMPTY;
    disk_.apply({{folder, name, std::nullopt}});
    return 0;
  }));
}

int MemoryFileSystem::stat(const std::string& path, FileStat& found) {
  return static_cast<int>(call("stat", [&]() -> std::int64_t {
    const auto number = disk_.find(path);
    if (number == 0) return -ENOENT;
    const auto& node = disk_.nodes_.at(number);
    found = {node.is_folder ? EntryKind::kFolder : EntryKind::kFile, node.data.size(), number,
             disk_.links_of(number)};
    return 0;
  }));
}

int MemoryFileSystem::list(const std::string& path, std::vector<FolderEntry>& found) {
  return static_cast<int>(call("list", [&]() -> std::int64_t {
    found.clear();
    const auto number = disk_.find(path);
    if (number == 0) return -ENOENT;
    if (!disk_.nodes_.at(number).is_folder) return -ENOTDIR;
    for (const auto& [name, node] : disk_.nodes_.at(number).names) {
      found.push_back(
          {name, disk_.nodes_.at(node).is_folder ? EntryKind::kFolder : EntryKind::kFile});
    }
    return 0;
  }));
}

}  // namespace pawl::store
