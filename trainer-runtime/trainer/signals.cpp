#include "trainer-runtime/trainer/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>
#include <csignal>

#include "common/os/process.h"

namespace pawl::trainer {

Result<Signals> Signals::open() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  os::Fd fd;
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0)
    fd = os::Fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd.is_open()) return fail(Code::kIo, "signalfd: " + os::errno_text());
  return Signals{std::move(fd)};
}

bool Signals::has_come() {
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) has_come_ = true;
  return has_come_;
}

}  // namespace pawl::trainer
