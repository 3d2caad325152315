#include "launcher/loop/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "common/base/check.h"
#include "common/os/process.h"

namespace pawl::launcher {
namespace {
constexpr std::size_t kTasksMax = 65'536;
}  // namespace

Result<std::shared_ptr<Inbox>> Inbox::create() {
  os::Fd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!event.is_open()) return fail(Code::kIo, "eventfd: " + os::errno_text());
  return std::shared_ptr<Inbox>(new Inbox(std::move(event)));
}

void Inbox::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    PAWL_CHECK(tasks_.size() < kTasksMax, "the launcher's inbox is full");
    tasks_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  // Can fail only when the counter is full, and then the descriptor is readable anyway.
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

void Inbox::drain() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(event_.get(), &count, sizeof count);
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) task();
}

void Inbox::close() {
  std::vector<Task> tasks;
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  tasks.swap(tasks_);
}

}  // namespace pawl::launcher
