#include <unistd.h>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/os/process.h"
#include "launcher/mpi/report.h"

namespace pawl::launcher::mpi {

void write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void print_error(const std::string& text) { os::write_stderr("pawl: " + text + "\n"); }

void report(const std::string& text) {
  print_error(text);
  const auto path = os::env("TORCHELASTIC_ERROR_FILE");
  if (!path || path->empty()) return;
  std::ofstream(*path) << nlohmann::json{{"message", text}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace pawl::launcher::mpi
