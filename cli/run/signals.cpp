#include "cli/run/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>
#include <csignal>

namespace pawl::cli {

Signals::Signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

int Signals::take() const {
  int count = 0;
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) ++count;
  return count;
}

}  // namespace pawl::cli
