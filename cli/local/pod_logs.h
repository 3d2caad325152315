// The logs of the node's pods as a kubelet serves them: GET …/pods/NAME/log with tailLines and
// follow. Of a file at most the newest kLogBytesMax are shown, as of a log that a kubelet has
// rotated. serve() is for the API server's thread, the rest for the node's. Leaves out: previous,
// sinceSeconds, timestamps, and the container's name, because a pod has one process here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/local/api_request.h"
#include "common/http/server.h"

namespace pawl::local {

inline constexpr std::size_t kLogBytesMax = 8 * 1024 * 1024;  // half of what a stream may hold

class PodLogs {
 public:
  // `file_of`: where the log of the pod of this name is, or would be.
  explicit PodLogs(std::function<std::string(const std::string& pod_name)> file_of)
      : file_of_(std::move(file_of)) {}

  void serve(const ApiTarget& target, const http::Reply& reply);
  bool has_followers() const;
  // Passes on what followed logs have got since. The log of a pod that has ended is closed.
  void feed(const std::function<bool(const std::string& pod_name)>& has_ended);

 private:
  struct Follower {
    std::string pod_name;
    std::uint64_t offset = 0;  // passed on up to here
    std::shared_ptr<http::Stream> stream;
  };

  const std::function<std::string(const std::string&)> file_of_;
  mutable std::mutex mutex_;  // guards followers_
  std::vector<Follower> followers_;
};

}  // namespace pawl::local
