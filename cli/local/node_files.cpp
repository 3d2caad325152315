#include "cli/local/node_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/os/fd.h"
#include "common/os/process.h"

namespace pawl::local {

Status create_private_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail(Code::kIo, "cannot create " + path + ": " + error.message());
  if (::chmod(path.c_str(), S_IRWXU) != 0)
    return fail(Code::kIo, "chmod " + path + ": " + os::errno_text());
  return {};
}

Status write_private_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  ::unlink(temporary.c_str());  // of somebody else, perhaps, who would read what is written
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const os::Fd file{::open(temporary.c_str(), kFlags, S_IRUSR | S_IWUSR)};
  const bool is_written = file.is_open() && ::write(file.get(), text.data(), text.size()) ==
                                                static_cast<ssize_t>(text.size());
  if (!is_written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail(Code::kIo, "cannot write " + path + ": " + os::errno_text());
  }
  return {};
}

std::string read_tail(const std::string& path, std::size_t bytes_max) {
  std::ifstream file{path, std::ios::binary | std::ios::ate};
  if (!file) return {};
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  std::string text(std::min(size, bytes_max), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

Result<std::uint16_t> find_free_port(std::set<std::uint16_t>& taken) {
  // Below those that the kernel gives to outgoing connections, one of which would take it before
  // the launcher is there.
  constexpr std::uint64_t kFirst = 20'000, kEnd = 32'768;
  constexpr int kTries = 256;
  for (int i = 0; i < kTries; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirst + os::entropy() % (kEnd - kFirst));
    if (taken.contains(port) || !os::listen_tcp("127.0.0.1", port)) continue;
    taken.insert(port);
    return port;
  }
  return fail(Code::kUnavailable, "found no free port on 127.0.0.1");
}

}  // namespace pawl::local
