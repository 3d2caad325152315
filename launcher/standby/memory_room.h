// How much more memory this container may use before the kernel ends something in it. Asked by
// StandbySet, which takes memory only while there is plenty. Reads some small files, which takes up
// to milliseconds on a large machine; any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace pawl::launcher {

inline constexpr std::int64_t kRoomUnknown = std::numeric_limits<std::int64_t>::max();

// Bytes: what is left of the memory cgroup's limit, or of the machine, whichever is less; pages
// that the kernel may drop count as free. Where one kill would end the whole container
// (memory.oom.group), an eighth of the limit is kept back for what nobody sees coming. `root`:
// where cgroups are mounted, version 1 or 2; `meminfo`: /proc/meminfo.
std::int64_t memory_room(const std::string& root = "/sys/fs/cgroup",
                         const std::string& meminfo = "/proc/meminfo");

}  // namespace pawl::launcher
