#include "launcher/gpu/gpu_health.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "launcher/gpu/nvml.h"
#include "launcher/gpu/xid.h"

namespace pawl::launcher::gpu {
namespace {

constexpr std::uint64_t kXidLost = 79, kXidRepairFailed = 64;
constexpr std::uint64_t kCorrectedStep = 1'000;  // corrected errors that are worth another line

std::string name_of(const GpuState& state) { return "GPU " + std::to_string(state.number); }

struct Throttle {
  std::uint64_t bit;
  const char* words;
};
constexpr std::array kThrottles = {
    Throttle{nvml::kThrottleHwThermal, "runs at half its clocks or less for its heat"},
    Throttle{nvml::kThrottleHwPowerBrake, "runs at half its clocks or less for want of power"},
    Throttle{nvml::kThrottleSwThermal, "runs at lower clocks for its heat"},
};

bool reaches(const std::optional<unsigned>& celsius, const std::optional<unsigned>& limit) {
  return celsius && limit && *limit > 0 && *celsius >= *limit;
}

// For which every driver and every GPU has the same words.
std::optional<std::string> broken(const GpuState& state) {
  if (state.is_lost) return xid_text(state.number, kXidLost);
  if (state.needs_reset) return name_of(state) + " has to be reset before it can be used";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unfit(const GpuState& state) {
  if (auto words = broken(state)) return words;
  const std::string name = name_of(state);
  if (state.has_repair_failed) return name + " could not replace a bad row of its memory";
  if (state.is_repair_pending)
    return name + " has a bad row in its memory, and has to be reset to replace it";
  if (state.uncorrected.value_or(0) > 0) {
    return name + " has had " + std::to_string(*state.uncorrected) +
           " memory errors that cannot be corrected, and was not reset since";
  }
  return std::nullopt;
}

std::optional<std::string> fault_between(const GpuState& before, const GpuState& after) {
  if (auto words = broken(after); words && !broken(before)) return words;
  if (after.has_repair_failed && !before.has_repair_failed)
    return xid_text(after.number, kXidRepairFailed);
  const bool has_more =
      after.uncorrected && before.uncorrected && *after.uncorrected > *before.uncorrected;
  if (has_more) return name_of(after) + " had a memory error that cannot be corrected";
  return std::nullopt;
}

std::vector<std::string> warnings_between(const GpuState& before, const GpuState& after) {
  std::vector<std::string> lines;
  const std::string name = name_of(after);
  const auto add_heat = [&](const std::optional<unsigned>& limit, const char* what) {
    if (!reaches(after.celsius, limit) || reaches(before.celsius, limit)) return;
    lines.push_back(name + " has " + std::to_string(*after.celsius) + " °C, and " + what + " at " +
                    std::to_string(*limit));
  };
  add_heat(after.slows_at, "slows down");
  add_heat(after.stops_at, "is shut down");
  for (const Throttle& one : kThrottles) {
    if ((after.throttle & one.bit) != 0 && (before.throttle & one.bit) == 0)
      lines.push_back(name + " " + one.words);
  }
  if (after.is_repair_pending && !before.is_repair_pending)
    lines.push_back(name + " replaces a bad row of its memory with the next reset");
  const std::uint64_t now = after.corrected.value_or(0), then = before.corrected.value_or(0);
  if (after.corrected && before.corrected && now / kCorrectedStep > then / kCorrectedStep)
    lines.push_back(name + " has corrected " + std::to_string(now) + " memory errors");
  return lines;
}

std::optional<std::string> unfit(const std::vector<GpuState>& states,
                                 const std::vector<std::string>& wanted_uuids) {
  for (const GpuState& state : states) {
    if (auto words = unfit(state)) return words;
  }
  for (const std::string& uuid : wanted_uuids) {
    if (std::ranges::find(states, uuid, &GpuState::uuid) == states.end())
      return uuid + " was given to the container, and is not there";
  }
  return std::nullopt;
}

std::vector<std::string> named_uuids(const std::string& visible_devices) {
  std::vector<std::string> uuids;
  std::istringstream words{visible_devices};
  for (std::string word; std::getline(words, word, ',');) {
    const bool is_new = std::ranges::find(uuids, word) == uuids.end();
    if (word.starts_with("GPU-") && is_new) uuids.push_back(word);
  }
  return uuids;
}

}  // namespace pawl::launcher::gpu
