// pawl-launch -- command …: PID 1 of a worker container, and the counterpart of torchrun.
// pawl-launch --install DIR: copies itself. --mpi-run, --mpi-agent, --mpi-remote: the programs of
// an MPI job (mpi/place.h); --ray-head, --ray-node: of a Ray job (ray/place.h). Wires production
// parts together; everything else is in the library.
#include <unistd.h>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/api/contract.h"
#include "common/base/log.h"
#include "common/kube/config.h"
#include "common/kube/cpprest_transport.h"
#include "common/os/process.h"
#include "common/os/real_clock.h"
#include "launcher/install.h"
#include "launcher/launcher.h"
#include "launcher/mpi/agent.h"
#include "launcher/mpi/place.h"
#include "launcher/mpi/remote.h"
#include "launcher/mpi/run.h"
#include "launcher/ray/head.h"
#include "launcher/ray/node.h"
#include "launcher/ray/place.h"
#include "launcher/supervisor/log_writer.h"

namespace {

using namespace pawl;

struct Arguments {
  std::string install_to, from = api::kLauncherImageRoot;
  std::vector<std::string> command;
  std::string error;
  bool wants_version = false;
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--") {
      arguments.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      return arguments;
    }
    if (words[i] == "--install" && has_value) {
      arguments.install_to = words[++i];
    } else if (words[i] == "--from" && has_value) {
      arguments.from = words[++i];
    } else if (words[i] == "--version") {
      arguments.wants_version = true;
    } else {
      arguments.error = "unknown argument \"" + words[i] + "\"";
    }
  }
  return arguments;
}

Result<kube::ClusterConfig> cluster_config(const launcher::Settings& settings) {
  if (!settings.is_local()) {
    // Where the operator mounts its token, else the pod's usual one.
    const bool has_own = ::access(settings.token_file.c_str(), R_OK) == 0;
    auto config = has_own ? kube::in_cluster_config(settings.token_file, settings.ca_file)
                          : kube::in_cluster_config();
    if (config) config->ns = settings.worker.ns;
    return config;
  }
  kube::ClusterConfig config;
  config.server = settings.api_server;
  config.token_file = settings.token_file;
  config.ns = settings.worker.ns;
  return config;
}

int launch(const Arguments& arguments, std::vector<std::string> self, const Clock& clock,
           launcher::LogWriter& writer) {
  Log log{clock, [&](std::string_view line) { writer.write(line); }};
  const auto give_up = [&](const std::string& path, const std::string& why, int code) {
    log.error("launcher_cannot_start", {{"error", why}});
    launcher::Launcher::write_termination(
        path, api::Failure{.cause = api::kCauseError, .message = "pawl-launch: " + why}, log);
    return code;
  };
  auto settings = launcher::read_settings(os::environment(), arguments.command);
  const std::string termination_log =
      settings ? settings->termination_log
               : os::env(api::kEnvTerminationLog).value_or("/dev/termination-log");
  if (!settings) return give_up(termination_log, settings.error().message, api::kExitFatal);
  settings->launcher = std::move(self);
  const auto config = cluster_config(*settings);
  if (!config) return give_up(termination_log, config.error().message, api::kExitFatal);
  auto transport = kube::make_transport(*config, clock,
                                        {.user_agent = "pawl-launch/0.1.0", .concurrency_max = 4});
  if (!transport) return give_up(termination_log, transport.error().message, api::kExitFatal);
  auto launcher = launcher::Launcher::create(std::move(*settings), **transport, clock, log);
  // What is wrong with the machine (a port that somebody else has) may be right with the next try.
  const bool is_fatal = !launcher && launcher.error().code == Code::kInvalid;
  if (!launcher)
    return give_up(termination_log, launcher.error().message,
                   is_fatal ? api::kExitFatal : api::kExitUser);
  const int code = (*launcher)->run();
  writer.finish();
  // Not through the destructors: storage or a connection that hangs must not hold the pod.
  ::_exit(code);
}

// The programs that launchers and mpirun start for an MPI job; nothing if this is none of them.
std::optional<int> run_for_mpi(const std::vector<std::string>& words,
                               const std::vector<std::string>& self, const Clock& clock) {
  namespace mpi = launcher::mpi;
  if (words.empty() || !words.front().starts_with("--mpi-")) return std::nullopt;
  launcher::initialise_openssl();
  if (words.front() == mpi::kRemoteOption) return mpi::run_remote({words.begin() + 1, words.end()});
  if (words.front() == mpi::kAgentOption) return mpi::run_agent(os::environment(), clock);
  if (words.front() != mpi::kRunOption || words.size() < 3 || words[1] != "--") return std::nullopt;
  return mpi::run_command({.command = {words.begin() + 2, words.end()}, .launcher = self},
                          os::environment(), clock);
}

// The programs that launchers start for a Ray job; nothing if this is none of them.
std::optional<int> run_for_ray(const std::vector<std::string>& words, const Clock& clock) {
  namespace ray = launcher::ray;
  if (words.empty() || !words.front().starts_with("--ray-")) return std::nullopt;
  launcher::initialise_openssl();
  if (words.front() == ray::kNodeOption) return ray::run_node(os::environment(), clock);
  if (words.front() != ray::kHeadOption || words.size() < 3 || words[1] != "--")
    return std::nullopt;
  return ray::run_head({.command = {words.begin() + 2, words.end()}}, os::environment(), clock);
}

}  // namespace

int main(int argc, char** argv) {
  os::ignore_sigpipe();
  const std::vector<std::string> words{argv + 1, argv + argc};
  const std::vector<std::string> self = launcher::mpi::own_command(argc - 1);
  const RealClock clock;
  if (const auto code = run_for_mpi(words, self, clock)) return *code;
  if (const auto code = run_for_ray(words, clock)) return *code;
  const Arguments arguments = parse(words);
  Log log{clock, os::write_stderr};
  if (arguments.wants_version) {
    std::puts("pawl-launch 0.1.0");
    return 0;
  }
  if (!arguments.error.empty() || (arguments.command.empty() && arguments.install_to.empty())) {
    std::fprintf(stderr,
                 "pawl-launch: %s\nusage: pawl-launch -- COMMAND [ARGUMENT…]\n       pawl-launch "
                 "--install DIR [--from %s]\n",
                 arguments.error.empty() ? "no command" : arguments.error.c_str(),
                 api::kLauncherImageRoot);
    return api::kExitFatal;
  }
  if (!arguments.install_to.empty()) {
    const Status installed = launcher::install(arguments.from, arguments.install_to);
    if (!installed) log.error("install_failed", {{"error", installed.error().message}});
    return installed ? 0 : 1;
  }
  launcher::Signals::block();
  launcher::initialise_openssl();
  kube::initialise_http();
  auto writer = launcher::LogWriter::start(STDERR_FILENO);
  if (!writer) {
    log.error("launcher_cannot_start", {{"error", writer.error().message}});
    return api::kExitFatal;
  }
  return launch(arguments, self, clock, **writer);
}
