// Whether the kernel has killed a process of this container for its memory: SIGKILL alone does not
// say so, and while the launcher lives on nobody else reports it.
#pragma once

#include <cstdint>
#include <string>

namespace pawl::launcher {

// Out-of-memory kills in our memory cgroup since it was made; 0 where nothing counts them.
// `root`: where cgroups are mounted, version 1 or 2.
std::int64_t oom_kills(const std::string& root = "/sys/fs/cgroup");

}  // namespace pawl::launcher
