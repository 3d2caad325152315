#include "launcher/supervisor/output.h"

#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <climits>

namespace pawl::launcher {
namespace {
constexpr int kWaitMilliseconds = 100;
}  // namespace

void Output::write(std::string_view text) {
  while (!text.empty()) {
    pollfd waiting{fd_, POLLOUT, 0};
    // Whoever has not read by then does not get a wait for each line that is left.
    const bool has_given_up = is_ending_ && waits_left_ <= 0;
    const int ready = ::poll(&waiting, 1, has_given_up ? 0 : kWaitMilliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && !has_given_up) {
      if (is_ending_) --waits_left_;
      continue;
    }
    if (ready <= 0) return;
    // No more than a pipe that has room takes at once: a longer write would wait in the kernel.
    const ssize_t written = ::write(fd_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) return;  // nobody reads our output any more
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace pawl::launcher
