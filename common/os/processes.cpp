#include "common/os/processes.h"

#include <dirent.h>
#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

namespace pawl::os {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The fields of /proc/PID/stat by their numbers in proc(5). The name, field 2, may hold anything:
// it ends with the last parenthesis.
std::vector<std::string> stat_fields(pid_t pid) {
  const std::string line = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto name_start = line.find('('), name_end = line.rfind(')');
  if (name_start == std::string::npos || name_end == std::string::npos) return {};
  std::istringstream rest{line.substr(name_end + 1)};
  std::vector<std::string> fields = {"", std::to_string(pid),
                                     line.substr(name_start + 1, name_end - name_start - 1)};
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

std::optional<ProcessInfo> read_process(pid_t pid) {
  constexpr std::size_t kName = 2, kState = 3, kParent = 4, kSession = 6;
  const auto fields = stat_fields(pid);
  if (fields.size() <= kSession) return std::nullopt;
  return ProcessInfo{pid, std::stoi(fields[kParent]), std::stoi(fields[kSession]),
                     fields[kState] == "Z", fields[kName]};
}

// Started with none, which is not the same as showing none: in the middle of exec and of its end a
// process has no memory to show. Exec sets the end of its environment to the beginning before it
// knows better, and the end of the code after both (Linux, load_elf_binary).
bool has_no_environment(pid_t pid) {
  constexpr std::size_t kCodeEnd = 27, kEnvironmentStart = 50, kEnvironmentEnd = 51;
  const auto fields = stat_fields(pid);
  return fields.size() > kEnvironmentEnd && fields[kCodeEnd] != "0" &&
         fields[kEnvironmentEnd] == fields[kEnvironmentStart];
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

std::optional<bool> has_environment(pid_t pid, const std::string& entry) {
  const std::string all = read_file("/proc/" + std::to_string(pid) + "/environ");
  if (all.empty() && !has_no_environment(pid)) return std::nullopt;
  for (std::size_t place = all.find(entry); place != std::string::npos;
       place = all.find(entry, place + 1)) {
    const bool is_start = place == 0 || all[place - 1] == '\0';
    const std::size_t end = place + entry.size();
    if (is_start && (end == all.size() || all[end] == '\0')) return true;
  }
  return false;
}

}  // namespace pawl::os
