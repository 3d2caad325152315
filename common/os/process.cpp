#include "common/os/process.h"

#include <sys/random.h>
#include <unistd.h>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "common/base/check.h"

extern char** environ;  // NOLINT: POSIX names it so.

namespace pawl::os {

std::optional<std::string> env(const char* name) {
  const char* value = ::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string{value};
}

namespace {

// What set_private_env has hidden. A process has one environment, so this is as global as that.
std::map<std::string, std::optional<std::string>>& hidden_variables() {
  static std::map<std::string, std::optional<std::string>> hidden;
  return hidden;
}

}  // namespace

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text{*entry};
    const auto equals = text.find('=');
    if (equals != std::string::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, original] : hidden_variables()) {
    all.erase(name);
    if (original) all.emplace(name, *original);
  }
  return all;
}

void set_private_env(const char* name, const char* value) {
  hidden_variables().emplace(name, env(name));  // the first original stays
  ::setenv(name, value, 1);
}

std::uint64_t entropy() {
  std::uint64_t value = 0;
  PAWL_CHECK(::getrandom(&value, sizeof value, 0) == static_cast<ssize_t>(sizeof value),
             "getrandom");
  return value;
}

std::string random_hex(std::size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto value = static_cast<unsigned char>(entropy());
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

void write_stderr(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

void ignore_sigpipe() { std::signal(SIGPIPE, SIG_IGN); }

std::string errno_text() { return errno_text(errno); }

std::string errno_text(int error) {
  return "errno " + std::to_string(error) + " (" + std::strerror(error) + ")";
}

std::string executable_path() {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return {};
  path.resize(static_cast<std::size_t>(length));
  return path;
}

std::string host_name() {
  std::string name(HOST_NAME_MAX + 1, '\0');
  if (::gethostname(name.data(), name.size()) != 0) return "localhost";
  return name.c_str();
}

}  // namespace pawl::os
