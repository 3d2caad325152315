#include "launcher/gpu/nvml.h"

#include <dlfcn.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <utility>

namespace pawl::launcher::gpu {
namespace {

using Handle = void*;
using Return = int;  // nvmlReturn_t

constexpr Return kSuccess = 0, kGpuIsLost = 15, kResetRequired = 16;
constexpr unsigned kUuidBytes = 96;                    // NVML_DEVICE_UUID_V2_BUFFER_SIZE
constexpr int kCorrected = 0, kUncorrected = 1;        // nvmlMemoryErrorType_t
constexpr int kVolatile = 0;                           // nvmlEccCounterType_t
constexpr int kGpuSensor = 0;                          // nvmlTemperatureSensors_t
constexpr int kShutdownLimit = 0, kSlowdownLimit = 1;  // nvmlTemperatureThresholds_t

struct EventData {  // nvmlEventData_t
  Handle device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

// The usual name first: the loader knows where the image's libraries are. The launcher may have
// come with a loader of its own, which does not look where NVIDIA's runtimes mount theirs.
constexpr std::array kPlaces = {"libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
                                "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
                                "/usr/lib64/libnvidia-ml.so.1",
                                "/usr/local/nvidia/lib64/libnvidia-ml.so.1"};

void* open_library(const std::string& library) {
  if (!library.empty()) return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const char* place : kPlaces) {
    if (void* found = ::dlopen(place, RTLD_NOW | RTLD_LOCAL)) return found;
  }
  return nullptr;
}

}  // namespace

struct Nvml::Api {
  void* library = nullptr;
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_text)(Return) = nullptr;
  Return (*count)(unsigned*) = nullptr;
  Return (*by_index)(unsigned, Handle*) = nullptr;
  Return (*uuid)(Handle, char*, unsigned) = nullptr;
  Return (*ecc_errors)(Handle, int, int, unsigned long long*) = nullptr;
  Return (*pages_pending)(Handle, int*) = nullptr;
  Return (*remapped_rows)(Handle, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  Return (*temperature)(Handle, int, unsigned*) = nullptr;
  Return (*temperature_limit)(Handle, int, unsigned*) = nullptr;
  Return (*throttle)(Handle, unsigned long long*) = nullptr;
  Return (*create_events)(Handle*) = nullptr;
  Return (*free_events)(Handle) = nullptr;
  Return (*register_events)(Handle, unsigned long long, Handle) = nullptr;
  Return (*wait_event)(Handle, EventData*, unsigned) = nullptr;

  template <typename Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(library, name));
  }
};

struct Nvml::Device {
  Handle handle = nullptr;
  GpuState known;  // what does not change
};

Nvml::Nvml(std::unique_ptr<Api> api) : api_(std::move(api)) {}

// The library stays open: a thread of the driver's may be in it.
Nvml::~Nvml() {
  if (events_ != nullptr && api_->free_events != nullptr) api_->free_events(events_);
  if (is_started_ && api_->shutdown != nullptr) api_->shutdown();
}

Result<std::unique_ptr<Nvml>> Nvml::open(const std::string& library) {
  auto api = std::make_unique<Api>();
  api->library = open_library(library);
  if (api->library == nullptr) {
    const char* why = ::dlerror();
    return fail(Code::kNotFound, why != nullptr ? why : "no NVIDIA management library");
  }
  api->find(api->init, "nvmlInit_v2");
  api->find(api->shutdown, "nvmlShutdown");
  api->find(api->error_text, "nvmlErrorString");
  api->find(api->count, "nvmlDeviceGetCount_v2");
  api->find(api->by_index, "nvmlDeviceGetHandleByIndex_v2");
  api->find(api->uuid, "nvmlDeviceGetUUID");
  api->find(api->ecc_errors, "nvmlDeviceGetTotalEccErrors");
  api->find(api->pages_pending, "nvmlDeviceGetRetiredPagesPendingStatus");
  api->find(api->remapped_rows, "nvmlDeviceGetRemappedRows");
  api->find(api->temperature, "nvmlDeviceGetTemperature");
  api->find(api->temperature_limit, "nvmlDeviceGetTemperatureThreshold");
  api->find(api->throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  api->find(api->create_events, "nvmlEventSetCreate");
  api->find(api->free_events, "nvmlEventSetFree");
  api->find(api->register_events, "nvmlDeviceRegisterEvents");
  api->find(api->wait_event, "nvmlEventSetWait_v2");
  if (api->wait_event == nullptr) api->find(api->wait_event, "nvmlEventSetWait");
  if (api->init == nullptr || api->count == nullptr || api->by_index == nullptr)
    return fail(Code::kNotFound, "the NVIDIA management library is older than can be used");
  return std::unique_ptr<Nvml>(new Nvml(std::move(api)));
}

Status Nvml::start(const std::vector<std::string>& uuids) {
  const auto refused = [this](Return code) {
    const char* why = api_->error_text != nullptr ? api_->error_text(code) : nullptr;
    return fail(Code::kUnavailable, "the NVIDIA driver does not answer: " +
                                        (why != nullptr ? why : std::to_string(code)));
  };
  if (const Return code = api_->init(); code != kSuccess) return refused(code);
  is_started_ = true;
  unsigned count = 0;
  if (const Return code = api_->count(&count); code != kSuccess) return refused(code);
  const bool can_tell = api_->create_events != nullptr && api_->register_events != nullptr &&
                        api_->wait_event != nullptr;
  if (can_tell && api_->create_events(&events_) != kSuccess) events_ = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    Device device;
    device.known.number = i;
    const Return code = api_->by_index(i, &device.handle);
    std::array<char, kUuidBytes> uuid{};
    if (code == kSuccess && api_->uuid != nullptr &&
        api_->uuid(device.handle, uuid.data(), kUuidBytes) == kSuccess)
      device.known.uuid = uuid.data();
    device.known.is_lost = code == kGpuIsLost;
    // One that does not even say who it is may be the one that is looked for.
    const bool is_named = uuids.empty() || device.known.uuid.empty() ||
                          std::ranges::find(uuids, device.known.uuid) != uuids.end();
    if (!is_named || (code != kSuccess && code != kGpuIsLost)) continue;
    if (api_->temperature_limit != nullptr && code == kSuccess) {
      const auto limit = [&](int which) -> std::optional<unsigned> {
        unsigned value = 0;
        const bool is_told = api_->temperature_limit(device.handle, which, &value) == kSuccess;
        return is_told ? std::optional{value} : std::nullopt;
      };
      device.known.slows_at = limit(kSlowdownLimit);
      device.known.stops_at = limit(kShutdownLimit);
    }
    if (events_ != nullptr && code == kSuccess) {
      // Where one of the two is not told, none of the call is registered.
      const bool are_both =
          api_->register_events(device.handle, nvml::kEventXid | nvml::kEventDoubleBitEcc,
                                events_) == kSuccess;
      if (!are_both) api_->register_events(device.handle, nvml::kEventXid, events_);
    }
    devices_.push_back(std::move(device));
  }
  return {};
}

GpuState Nvml::look(Device& device) const {
  GpuState state = device.known;
  if (state.is_lost) return state;
  const auto note = [&state](Return code) {
    state.is_lost = state.is_lost || code == kGpuIsLost;
    state.needs_reset = state.needs_reset || code == kResetRequired;
    return code == kSuccess;
  };
  const auto errors = [&](int type) -> std::optional<std::uint64_t> {
    unsigned long long count = 0;
    const bool is_told = api_->ecc_errors != nullptr &&
                         note(api_->ecc_errors(device.handle, type, kVolatile, &count));
    return is_told ? std::optional<std::uint64_t>{count} : std::nullopt;
  };
  state.uncorrected = errors(kUncorrected);
  state.corrected = errors(kCorrected);
  unsigned by_corrected = 0, by_uncorrected = 0, is_pending = 0, has_failed = 0;
  if (api_->remapped_rows != nullptr &&
      note(api_->remapped_rows(device.handle, &by_corrected, &by_uncorrected, &is_pending,
                               &has_failed))) {
    state.is_repair_pending = is_pending != 0;
    state.has_repair_failed = has_failed != 0;
  }
  int are_pages_pending = 0;
  if (api_->pages_pending != nullptr &&
      note(api_->pages_pending(device.handle, &are_pages_pending)))
    state.is_repair_pending = state.is_repair_pending || are_pages_pending != 0;
  unsigned celsius = 0;
  if (api_->temperature != nullptr && note(api_->temperature(device.handle, kGpuSensor, &celsius)))
    state.celsius = celsius;
  unsigned long long throttle = 0;
  if (api_->throttle != nullptr && note(api_->throttle(device.handle, &throttle)))
    state.throttle = throttle;
  return state;
}

std::vector<GpuState> Nvml::look() {
  std::vector<GpuState> states;
  for (Device& device : devices_) states.push_back(look(device));
  return states;
}

std::optional<GpuEvent> Nvml::wait(int milliseconds) {
  EventData data{};
  const Return code = events_ != nullptr
                          ? api_->wait_event(events_, &data, static_cast<unsigned>(milliseconds))
                          : kGpuIsLost;
  if (code == kSuccess) {
    const auto device = std::ranges::find(devices_, data.device, &Device::handle);
    if (device == devices_.end()) return std::nullopt;
    return GpuEvent{device->known.number, data.type, data.data};
  }
  // It does not wait where a GPU is lost, or where nothing can be told.
  constexpr Return kTimeout = 10;
  if (code != kTimeout) ::usleep(static_cast<useconds_t>(milliseconds) * 1'000);
  return std::nullopt;
}

}  // namespace pawl::launcher::gpu
