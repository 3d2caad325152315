#include "launcher/ray/start.h"

#include <algorithm>
#include <charconv>

#include "common/os/fd.h"

namespace pawl::launcher::ray {
namespace {

constexpr std::size_t kLineBytesMax = 4096;
constexpr int kSignalMax = 64;
// Ray refuses less (ray_constants.py: OBJECT_STORE_MINIMUM_MEMORY_BYTES).
constexpr std::int64_t kObjectBytesMin = 80LL << 20, kObjectBytesMax = 200LL << 30;

}  // namespace

std::vector<std::string> start_command(const StartOptions& options) {
  const bool is_head = options.head.empty();
  std::vector<std::string> words = {"ray", "start", "--block"};
  const auto add = [&](const std::string& name, const std::string& value) {
    words.push_back("--" + name + "=" + value);
  };
  if (is_head) {
    words.emplace_back("--head");
    add("port", std::to_string(options.port));
    add("include-dashboard", "false");
    add("temp-dir", options.folder);
    words.emplace_back("--disable-usage-stats");
  } else {
    add("address", options.head);
  }
  add("node-ip-address", options.host);
  // Any that are free: two nodes of one machine must not have the same.
  for (const char* name :
       {"node-manager-port", "object-manager-port", "min-worker-port", "max-worker-port"})
    add(name, "0");
  add("dashboard-agent-listen-port", std::to_string(options.agent_port));
  if (options.cpus > 0) add("num-cpus", std::to_string(options.cpus));
  if (options.gpus > 0) add("num-gpus", std::to_string(options.gpus));
  if (options.object_bytes > 0) add("object-store-memory", std::to_string(options.object_bytes));
  return words;
}

void set_variables(std::map<std::string, std::string>& env, const Place& place) {
  // Versions before 2.52 do not look at it.
  if (!env.contains("RAY_AUTH_MODE")) {
    env["RAY_AUTH_MODE"] = "token";
    env["RAY_AUTH_TOKEN"] = token_of(place);
  }
  env.try_emplace("RAY_USAGE_STATS_ENABLED", "0");
  // We wait for what it prints.
  env.try_emplace("PYTHONUNBUFFERED", "1");
}

std::int64_t object_bytes(std::int64_t memory_room, std::int64_t shm_room, int sharers) {
  const std::int64_t share = std::max(sharers, 1);
  const std::int64_t of_memory = memory_room / 10 * 3 / share;
  const std::int64_t of_shm = shm_room / 10 * 9 / share;
  const std::int64_t wanted = of_shm >= kObjectBytesMin ? std::min(of_memory, of_shm) : of_memory;
  return std::clamp(wanted, kObjectBytesMin, kObjectBytesMax);
}

void StartScan::feed(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view part = text.substr(0, end);
    if (line_.size() < kLineBytesMax) line_ += part.substr(0, kLineBytesMax);
    if (end == std::string_view::npos) return;
    look_at(line_);
    line_.clear();
    text.remove_prefix(end + 1);
  }
}

// python/ray/scripts/scripts.py: "Ray runtime started.", and "raylet [exit code=-9]" of each of its
// processes that has ended.
void StartScan::look_at(std::string_view line) {
  has_started_ = has_started_ || line.find("Ray runtime started") != std::string_view::npos;
  constexpr std::string_view kMark = "[exit code=-";
  const std::size_t at = line.find(kMark);
  if (at == std::string_view::npos || signal_ != 0) return;
  const std::string_view number = line.substr(at + kMark.size());
  int signal = 0;
  std::from_chars(number.data(), number.data() + number.size(), signal);
  if (signal >= 1 && signal <= kSignalMax) signal_ = signal;
}

}  // namespace pawl::launcher::ray
