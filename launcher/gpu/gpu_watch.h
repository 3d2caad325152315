// Watches the GPUs of this container on a thread of its own, because the driver of a GPU that fails
// may hold its caller: says once whether a worker may begin here, tells of what fails under it, and
// writes what is only worth a line to the log. Decides nothing about the job.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/log.h"
#include "launcher/gpu/nvml.h"

namespace pawl::launcher::gpu {

struct GpuWatchOptions {
  std::vector<std::string> uuids;  // of this container's GPUs; empty: all that it sees
  // Between two looks at the events of the driver, and how long the end of the watch may take.
  std::chrono::milliseconds wait{100};
  std::chrono::milliseconds look_every{5'000};  // at what tells no event
};

// All on the watch's thread.
struct GpuWatchEvents {
  std::function<void(const std::string& fault)> on_checked;  // once, first; "": all is well
  std::function<void(const std::string& what)> on_fault;     // once
  std::function<void(const std::string& what)> on_program_error;
};

class GpuWatch {
 public:
  GpuWatch(std::unique_ptr<Nvml> nvml, GpuWatchOptions options, Log& log, GpuWatchEvents events);
  ~GpuWatch();  // waits for the call that is under way

  // Looks at once; `done`, on the watch's thread, comes after what it found. Any thread.
  void look(std::function<void()> done);

 private:
  void run();
  void check();
  void turn();
  void take(const GpuEvent& event);
  void compare();
  void fail(const std::string& what);
  bool must_stop();

  const std::unique_ptr<Nvml> nvml_;
  const GpuWatchOptions options_;
  Log& log_;
  const GpuWatchEvents events_;
  std::vector<GpuState> states_;
  std::chrono::steady_clock::time_point looked_at_{};
  bool has_failed_ = false, is_started_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> asked_;
  bool must_stop_ = false;
  std::thread thread_;
};

}  // namespace pawl::launcher::gpu
