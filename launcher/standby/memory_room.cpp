#include "launcher/standby/memory_room.h"

#include <algorithm>
#include <fstream>
#include <optional>

namespace pawl::launcher {
namespace {

std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

// The number after `key` in a file of "key number" lines.
std::int64_t read_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name, line;
  while (file >> name) {
    std::int64_t value = 0;
    if (name == key && file >> value) return value;
    std::getline(file, line);
  }
  return 0;
}

struct Files {
  const char *limit, *used, *fields, *droppable, *ends_all;
};

// https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
constexpr Files kVersion2{"/memory.max", "/memory.current", "/memory.stat", "inactive_file",
                          "/memory.oom.group"};
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html#user-interface
constexpr Files kVersion1{"/memory/memory.limit_in_bytes", "/memory/memory.usage_in_bytes",
                          "/memory/memory.stat", "total_inactive_file", ""};

std::int64_t room_of(const std::string& root, const Files& files) {
  const auto limit = read_number(root + files.limit), used = read_number(root + files.used);
  if (!limit || !used) return kRoomUnknown;
  const bool ends_all = read_number(root + files.ends_all).value_or(0) == 1;
  return *limit - (ends_all ? *limit / 8 : 0) -
         (*used - read_field(root + files.fields, files.droppable));
}

}  // namespace

std::int64_t memory_room(const std::string& root, const std::string& meminfo) {
  const std::int64_t available = read_field(meminfo, "MemAvailable:") * 1024;
  return std::min({room_of(root, kVersion2), room_of(root, kVersion1),
                   available > 0 ? available : kRoomUnknown});
}

}  // namespace pawl::launcher
