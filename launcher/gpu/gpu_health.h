// What a GPU says of itself, and what is made of it: whether a worker may begin on it, whether it
// has failed since it was looked at last, and what is worth a line in the log. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pawl::launcher::gpu {

// What a driver does not tell stays empty.
struct GpuState {
  unsigned number = 0;  // as NVML counts in this container
  std::string uuid;     // "GPU-…"
  bool is_lost = false, needs_reset = false;
  // Memory errors since the driver was loaded.
  std::optional<std::uint64_t> uncorrected, corrected;
  bool is_repair_pending = false;  // a bad row or page is replaced with the next reset
  bool has_repair_failed = false;
  std::optional<unsigned> celsius, slows_at, stops_at;
  std::uint64_t throttle = 0;  // nvmlClocksThrottleReason…
};

// Why no worker may begin on it, in a sentence; nothing: it is well.
std::optional<std::string> unfit(const GpuState& state);

// What has happened to it between two looks that ends what runs on it.
std::optional<std::string> fault_between(const GpuState& before, const GpuState& after);

// What has begun between two looks, and takes nobody's work: heat, lower clocks, corrected errors.
std::vector<std::string> warnings_between(const GpuState& before, const GpuState& after);

// Of several GPUs, and of those that must be there; nothing: they are well.
std::optional<std::string> unfit(const std::vector<GpuState>& states,
                                 const std::vector<std::string>& wanted_uuids);

// The GPUs of NVIDIA_VISIBLE_DEVICES that are named by UUID, as NVIDIA's device plugin gives them;
// empty: nobody has said which.
std::vector<std::string> named_uuids(const std::string& visible_devices);

}  // namespace pawl::launcher::gpu
