// NVIDIA's management library, opened at run time: what we use of it, in our words. The entry
// points and numbers are declared here, as NVIDIA documents its ABI (NVML API Reference, and nvml.h
// of CUDA 13.0, which say the same since driver 450), so that nothing of NVIDIA's is needed to
// build. Each entry point may be missing in an older driver: what it would tell is then not known.
// Calls may hang in a driver that does: one thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/gpu/gpu_health.h"

namespace pawl::launcher::gpu {

namespace nvml {
inline constexpr std::uint64_t kEventDoubleBitEcc = 0x2, kEventXid = 0x8;
inline constexpr std::uint64_t kThrottleSwThermal = 0x20, kThrottleHwThermal = 0x40,
                               kThrottleHwPowerBrake = 0x80;
}  // namespace nvml

struct GpuEvent {
  unsigned gpu = 0;
  std::uint64_t type = 0, xid = 0;  // nvml::kEvent…
};

class Nvml {
 public:
  // `library`: a path; empty: where drivers and container runtimes put it. NotFound: it is not
  // there, as on a machine without a GPU.
  static Result<std::unique_ptr<Nvml>> open(const std::string& library);
  ~Nvml();

  // Those with these UUIDs, or all that the container sees, from now on. Unavailable: the driver
  // does not answer.
  Status start(const std::vector<std::string>& uuids);
  std::vector<GpuState> look();
  // Nothing: none within that time, or none are told.
  std::optional<GpuEvent> wait(int milliseconds);

 private:
  struct Api;
  struct Device;
  explicit Nvml(std::unique_ptr<Api> api);
  GpuState look(Device& device) const;

  std::unique_ptr<Api> api_;
  std::vector<Device> devices_;
  void* events_ = nullptr;  // null: this driver tells none
  bool is_started_ = false;
};

}  // namespace pawl::launcher::gpu
