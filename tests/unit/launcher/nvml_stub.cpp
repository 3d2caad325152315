// Stands in for NVIDIA's management library: the entry points that launcher/gpu looks up, over a
// file that $PAWL_NVML_STUB names and that is read anew with each call. Its lines:
//   gpu UUID [uncorrected N] [corrected N] [pending N] [failed N] [celsius N] [throttle N] [lost N]
//   init N            what nvmlInit_v2 returns
//   event GPU TYPE N  told once each, in order
// With PAWL_OLD_DRIVER only what the oldest drivers have is there.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Event {
  unsigned gpu = 0;
  unsigned long long type = 0, data = 0;
};
struct State {
  int init = 0;
  std::vector<std::map<std::string, unsigned long long>> gpus;
  std::vector<std::string> uuids;
  std::vector<Event> events;
};

State read_state() {
  State state;
  const char* path = std::getenv("PAWL_NVML_STUB");
  std::ifstream file(path != nullptr ? path : "");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line};
    std::string word;
    words >> word;
    if (word == "init") words >> state.init;
    if (word == "event") {
      Event event;
      if (words >> event.gpu >> event.type >> event.data) state.events.push_back(event);
    }
    if (word != "gpu") continue;
    words >> word;
    state.uuids.push_back(word);
    auto& gpu = state.gpus.emplace_back();
    for (unsigned long long value = 0; words >> word >> value;) gpu[word] = value;
  }
  return state;
}

[[maybe_unused]] constexpr int kSuccess = 0, kNotFound = 6, kTimeout = 10, kLost = 15;
[[maybe_unused]] std::size_t told = 0;  // events

// A device's handle is its number, plus one: none of them is null.
void* handle_of(unsigned number) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number) + 1);
}

int value_of(void* device, const char* name, unsigned long long& value) {
  const State state = read_state();
  const auto number = reinterpret_cast<std::uintptr_t>(device) - 1;
  if (number >= state.gpus.size()) return kNotFound;
  const auto& gpu = state.gpus[number];
  if (gpu.contains("lost") && gpu.at("lost") != 0) return kLost;
  value = gpu.contains(name) ? gpu.at(name) : 0;
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return read_state().init; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(read_state().gpus.size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = handle_of(index);
  return index < read_state().gpus.size() ? kSuccess : kNotFound;
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  unsigned long long value = 0;
  const int code = value_of(device, "celsius", value);
  *celsius = static_cast<unsigned>(value);
  return code;
}

#ifndef PAWL_OLD_DRIVER
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Unknown Error"; }
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  const State state = read_state();
  const auto number = reinterpret_cast<std::uintptr_t>(device) - 1;
  if (number >= state.uuids.size()) return kNotFound;
  std::strncpy(text, state.uuids[number].c_str(), length);
  return kSuccess;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int, unsigned long long* count) {
  return value_of(device, type == 1 ? "uncorrected" : "corrected", *count);
}
int nvmlDeviceGetRetiredPagesPendingStatus(void*, int*) { return 3; }
int nvmlDeviceGetRemappedRows(void* device, unsigned*, unsigned*, unsigned* pending,
                              unsigned* failed) {
  unsigned long long value = 0;
  const int code = value_of(device, "pending", value);
  *pending = static_cast<unsigned>(value);
  value_of(device, "failed", value);
  *failed = static_cast<unsigned>(value);
  return code;
}
int nvmlDeviceGetTemperatureThreshold(void*, int type, unsigned* celsius) {
  *celsius = type == 0 ? 95 : 90;
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return value_of(device, "throttle", *reasons);
}
int nvmlEventSetCreate(void** set) {
  told = 0;
  *set = &told;
  return kSuccess;
}
int nvmlEventSetFree(void*) { return kSuccess; }
int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) {
  return (types & 0x2) != 0 ? 3 : kSuccess;  // as a GPU without ECC
}
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
int nvmlEventSetWait_v2(void*, EventData* data, unsigned milliseconds) {
  for (unsigned waited = 0; waited <= milliseconds; waited += 5) {
    const State state = read_state();
    if (told < state.events.size()) {
      const Event& event = state.events[told++];
      *data = {handle_of(event.gpu), event.type, event.data, ~0U, ~0U};
      return kSuccess;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return kTimeout;
}
#endif
}
