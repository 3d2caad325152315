#include "launcher/loop/signals.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <csignal>
#include <utility>

#include "common/os/process.h"

namespace pawl::launcher {
namespace {

sigset_t handled_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}) {
    ::sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

void Signals::block() {
  const sigset_t set = handled_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<std::unique_ptr<Signals>> Signals::create(Poller& poller,
                                                 std::function<void(int)> on_signal) {
  block();
  const sigset_t set = handled_signals();
  os::Fd fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd.is_open()) return fail(Code::kIo, "signalfd: " + os::errno_text());
  const int number = fd.get();
  poller.add(number, EPOLLIN, [number, on_signal = std::move(on_signal)](std::uint32_t) {
    signalfd_siginfo info{};
    while (::read(number, &info, sizeof info) == sizeof info)
      on_signal(static_cast<int>(info.ssi_signo));
  });
  return std::unique_ptr<Signals>(new Signals(poller, std::move(fd)));
}

Signals::~Signals() { poller_.remove(fd_.get()); }

}  // namespace pawl::launcher
