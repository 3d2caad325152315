// What `pawl run` knows of its job: the objects of the embedded API as they change, handed from the
// transport's thread to the thread that waits here. wait() and the readers belong to one thread.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/local/store_transport.h"
#include "common/api/types.h"
#include "common/os/fd.h"

namespace pawl::cli {

struct SeenPod {
  std::string name, uid;
  std::int64_t attempt = 0;
  int slot = 0, n = 0;
  bool is_finished = false;  // Succeeded or Failed
};

class Observer {
 public:
  explicit Observer(local::StoreTransport& transport);
  ~Observer();

  int fd() const;  // readable when take() has something
  // Takes in what came since the last call; returns the event lines among it.
  std::vector<std::string> take();

  const std::optional<api::TrainingJob>& job() const { return job_; }
  bool is_job_gone() const { return is_job_gone_; }
  const std::optional<api::WorkerGroup>& group() const { return group_; }
  const std::map<std::string, SeenPod>& pods() const { return pods_; }  // by UID

 private:
  class Feed;
  std::unique_ptr<Feed> feed_;
  std::optional<api::TrainingJob> job_;
  std::optional<api::WorkerGroup> group_;
  bool is_job_gone_ = false;
  std::map<std::string, SeenPod> pods_;
};

}  // namespace pawl::cli
