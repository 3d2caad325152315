#include "launcher/mpi/remote.h"

#include <poll.h>
#include <unistd.h>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>

#include "common/os/process.h"
#include "launcher/mpi/hosts.h"
#include "launcher/mpi/remote_command.h"
#include "launcher/mpi/report.h"
#include "launcher/mpi/wire.h"

namespace pawl::launcher::mpi {
namespace {

constexpr std::chrono::seconds kDialMax{10};
constexpr std::chrono::milliseconds kGreetMax{10'000};

Result<std::string> read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Code::kNotFound, path + " is not there: the job has ended");
  return std::string{std::istreambuf_iterator<char>{file}, {}};
}

Result<Wire> call_agent(const std::string& folder, const std::string& host) {
  const Files files{folder};
  PAWL_TRY(agents, read_whole(files.agents));
  PAWL_TRY(key, read_whole(files.key));
  PAWL_TRY(agent, find_agent(agents, host));
  PAWL_TRY(where, os::split_host_port(agent));
  PAWL_TRY(fd, os::connect_tcp(where.first, where.second, kDialMax));
  return Wire{std::move(fd), Side::kCaller, key};
}

std::optional<int> take_output(Wire& wire) {
  std::optional<int> code;
  for (const Frame& frame : wire.take_frames()) {
    if (frame.type == kOutput) write_whole(STDOUT_FILENO, frame.text);
    if (frame.type == kErrors) write_whole(STDERR_FILENO, frame.text);
    if (frame.type != kExited) continue;
    int number = kNoRemote;
    std::from_chars(frame.text.data(), frame.text.data() + frame.text.size(), number);
    code = number;
  }
  return code;
}

Result<int> run_there(const std::string& folder, const RemoteCommand& remote) {
  PAWL_TRY(wire, call_agent(folder, remote.host));
  wire.send(kRunCommand, remote.command);
  while (true) {
    const Status done = wire.service();
    if (const auto code = take_output(wire)) return *code;
    PAWL_TRY_VOID(done);
    const short events = wire.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    pollfd waiting{wire.fd(), events, 0};
    // A command may be silent for days; the agent says who it is at once.
    const int wait_max = wire.is_trusted() ? -1 : static_cast<int>(kGreetMax.count());
    if (::poll(&waiting, 1, wait_max) == 0) return fail(Code::kUnavailable, "it does not answer");
  }
}

}  // namespace

int run_remote(const std::vector<std::string>& arguments) {
  const auto remote = arguments.empty()
                          ? parse_remote_command({})
                          : parse_remote_command({arguments.begin() + 1, arguments.end()});
  if (!remote) {
    print_error(std::string{kRemoteOption} + " " + remote.error().message);
    return kNoRemote;
  }
  const auto code = run_there(arguments.front(), *remote);
  if (code) return *code;
  print_error("no way to the worker " + remote->host + ": " + code.error().message);
  return kNoRemote;
}

}  // namespace pawl::launcher::mpi
