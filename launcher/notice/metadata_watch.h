// Asks the cloud's metadata service, on a thread of its own, until it announces the end of this
// machine. Where nobody answers as a cloud would, it stops asking after a few minutes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/log.h"
#include "launcher/notice/cloud.h"

namespace pawl::launcher {

struct MetadataOptions {
  std::string url;  // "http://HOST" or "http://HOST:PORT"
  std::chrono::milliseconds every{2'000};
  std::chrono::milliseconds call_max{1'000};
};

// One call to it, on a connection of its own. Errors: Unavailable; Invalid (the URL).
Result<MetadataReply> call_metadata(const MetadataOptions& options, const MetadataRequest& request);

class MetadataWatch {
 public:
  // `on_notice`: once, on the watch's thread.
  MetadataWatch(MetadataOptions options, Log& log,
                std::function<void(const std::string& what)> on_notice);
  ~MetadataWatch();  // waits for the call that is under way

 private:
  void run();
  bool sleep(std::chrono::milliseconds time);  // false: it is to end

  const MetadataOptions options_;
  Log& log_;
  const std::function<void(const std::string&)> on_notice_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool must_stop_ = false;
  std::thread thread_;
};

}  // namespace pawl::launcher
