#include "launcher/supervisor/oom.h"

#include <fstream>

namespace pawl::launcher {

// https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files (memory.events),
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html#oom-control
std::int64_t oom_kills(const std::string& root) {
  for (const char* name : {"/memory.events", "/memory/memory.oom_control"}) {
    std::ifstream file(root + name);
    std::string key;
    std::int64_t count = 0;
    while (file >> key >> count) {
      if (key == "oom_kill") return count;
    }
  }
  return 0;
}

}  // namespace pawl::launcher
