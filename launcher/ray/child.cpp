#include "launcher/ray/child.h"

#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/os/processes.h"
#include "launcher/mpi/report.h"

namespace pawl::launcher::ray {

Result<std::unique_ptr<Child>> Child::start(Poller& poller, const Clock& clock,
                                            const SpawnOptions& options, OnText on_text) {
  PAWL_TRY(spawned, spawn(options));
  PAWL_TRY_VOID(os::set_nonblocking(spawned.out.get(), true));
  PAWL_TRY_VOID(os::set_nonblocking(spawned.err.get(), true));
  return std::unique_ptr<Child>(new Child(poller, clock, std::move(spawned), std::move(on_text)));
}

Child::Child(Poller& poller, const Clock& clock, Spawned spawned, OnText on_text)
    : poller_(poller),
      clock_(clock),
      pid_(spawned.pid),
      out_(std::move(spawned.out)),
      err_(std::move(spawned.err)),
      on_text_(std::move(on_text)) {
  poller_.add(out_.get(), EPOLLIN, [this](std::uint32_t) { read(out_, STDOUT_FILENO); });
  poller_.add(err_.get(), EPOLLIN, [this](std::uint32_t) { read(err_, STDERR_FILENO); });
}

Child::~Child() {
  if (is_running()) signal(SIGKILL);
  for (const os::Fd* fd : {&out_, &err_}) {
    if (fd->is_open()) poller_.remove(fd->get());
  }
}

void Child::signal(int number) const { ::kill(-pid_, number); }

void Child::end(std::chrono::milliseconds grace) {
  if (!is_running() || is_ended_by_us_) return;
  is_ended_by_us_ = true;
  signal(SIGCONT);  // first, as in Supervisor::stop_all
  signal(SIGTERM);
  kill_at_ = clock_.steady_now() + grace;
}

void Child::on_tick() {
  if (!is_running() || !kill_at_ || clock_.steady_now() < *kill_at_) return;
  kill_at_.reset();
  signal(SIGKILL);
}

void Child::on_exited(int status) {
  constexpr int kKilledBase = 128;
  signal(SIGKILL);
  // All that it has said, but not what strays still say.
  constexpr int kReadsMax = 64;
  for (int i = 0; i < kReadsMax; ++i) {
    read(out_, STDOUT_FILENO);
    read(err_, STDERR_FILENO);
  }
  code_ = WIFSIGNALED(status) ? kKilledBase + WTERMSIG(status) : WEXITSTATUS(status);
}

void Child::read(os::Fd& fd, int to) {
  std::array<char, 64 * 1024> bytes{};
  if (!fd.is_open()) return;
  const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
  if (count > 0) {
    const std::string_view text{bytes.data(), static_cast<std::size_t>(count)};
    mpi::write_whole(to, text);
    if (on_text_) on_text_(text);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    poller_.remove(fd.get());
    fd.reset();
  }
}

void Child::remember_children() { known_ = children(); }

bool Child::has_lost_one() const {
  const std::set<pid_t> now = children();
  return !std::ranges::includes(now, known_);
}

std::set<pid_t> Child::children() const {
  std::set<pid_t> found;
  for (const os::ProcessInfo& info : os::descendants_of(pid_)) {
    if (info.parent == pid_ && !info.is_zombie) found.insert(info.pid);
  }
  return found;
}

void reap(std::initializer_list<Child*> children) {
  int status = 0;
  pid_t pid = 0;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    for (Child* child : children) {
      if (child != nullptr && child->pid() == pid) child->on_exited(status);
    }
  }
}

}  // namespace pawl::launcher::ray
