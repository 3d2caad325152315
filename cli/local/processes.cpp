#include "cli/local/processes.h"

#include <dirent.h>
#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

namespace pawl::local {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "pid (name) S ppid pgrp session …"; the name may hold anything, so reading starts behind its last
// parenthesis.
std::optional<ProcessInfo> read_process(pid_t pid) {
  const std::string line = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields{line.substr(name_end + 1)};
  ProcessInfo info;
  char run_state = '?';
  pid_t group = 0;
  info.pid = pid;
  if (!(fields >> run_state >> info.parent >> group >> info.session)) return std::nullopt;
  info.is_zombie = run_state == 'Z';
  return info;
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

std::vector<ProcessInfo> list_processes() {
  std::vector<ProcessInfo> processes;
  const std::unique_ptr<DIR, CloseFolder> folder{::opendir("/proc")};
  if (!folder) return processes;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name{entry->d_name};
    pid_t pid = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc{} || stop != name.data() + name.size()) continue;
    if (const auto info = read_process(pid)) processes.push_back(*info);
  }
  return processes;
}

std::vector<ProcessInfo> descendants_of(pid_t ancestor) {
  std::multimap<pid_t, ProcessInfo> children;
  for (const ProcessInfo& info : list_processes()) children.emplace(info.parent, info);
  std::vector<ProcessInfo> found;
  std::vector<pid_t> open = {ancestor};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [first, last] = children.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      found.push_back(child->second);
      open.push_back(child->second.pid);
    }
  }
  return found;
}

bool has_environment(pid_t pid, const std::string& entry) {
  const std::string all = read_file("/proc/" + std::to_string(pid) + "/environ");
  for (std::size_t place = all.find(entry); place != std::string::npos;
       place = all.find(entry, place + 1)) {
    const bool is_start = place == 0 || all[place - 1] == '\0';
    const std::size_t end = place + entry.size();
    if (is_start && (end == all.size() || all[end] == '\0')) return true;
  }
  return false;
}

}  // namespace pawl::local
