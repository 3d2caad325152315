// The only way from other threads (transport callbacks, the writer, the log pump) to the owner
// thread: tasks that it runs in order. post() from any thread; drain() from the owner. Every
// producer has a bounded number of things under way, so the inbox cannot grow without bound; beyond
// the limit the process ends, as that is a bug.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/result.h"
#include "common/os/fd.h"

namespace pawl::launcher {

class Inbox {
 public:
  using Task = std::function<void()>;

  static Result<std::shared_ptr<Inbox>> create();
  void post(Task task);
  int fd() const { return event_.get(); }  // readable while there are tasks
  void drain();
  // Later posts do nothing: callbacks may outlive the owner.
  void close();

 private:
  explicit Inbox(os::Fd event) : event_(std::move(event)) {}
  os::Fd event_;
  std::mutex mutex_;
  std::vector<Task> tasks_;
  bool is_closed_ = false;
};

}  // namespace pawl::launcher
