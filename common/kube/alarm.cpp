#include "common/kube/alarm.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace pawl::kube {

Alarm::Alarm() {
  // Signals are for the threads of main.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Alarm::arm(std::chrono::milliseconds delay, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_ = std::move(work);
  due_ = std::chrono::steady_clock::now() + delay;
  changed_.notify_one();
}

void Alarm::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Alarm::run() {
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    if (!work_) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < due_) {
      changed_.wait_until(lock, due_);
    } else {
      const std::function<void()> work = std::exchange(work_, nullptr);
      lock.unlock();
      work();
      lock.lock();
    }
  }
}

}  // namespace pawl::kube
