#include "launcher/launcher.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "common/api/contract.h"
#include "common/os/process.h"
#include "launcher/process_env.h"

namespace pawl::launcher {
namespace {

using namespace membership;  // NOLINT: this file translates between its types and the world.

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::milliseconds kFinishMax{2000};

// Below the ports that Linux gives to outgoing connections, and below NodePorts: nobody takes one
// by chance before the program listens, on a host network neither.
Result<os::Fd> listen_anywhere(const std::string& address) {
  constexpr std::uint64_t kPortMin = 15'000, kPorts = 15'000;
  constexpr int kTriesMax = 64;
  for (int i = 0; i < kTriesMax; ++i) {
    const std::uint64_t port = kPortMin + os::entropy() % kPorts;
    auto listener = os::listen_tcp(address, static_cast<std::uint16_t>(port));
    if (listener) return listener;
  }
  return os::listen_tcp(address, 0);
}

// Ports that are free now on this host, for other frameworks' processes to listen.
Result<std::vector<std::uint16_t>> free_ports(const std::string& address, int count) {
  std::vector<os::Fd> held;  // until all are found, or one would be found twice
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < count; ++i) {
    PAWL_TRY(listener, listen_anywhere(address));
    PAWL_TRY(port, os::local_port(listener.get()));
    held.push_back(std::move(listener));
    ports.push_back(port);
  }
  return ports;
}

// A place that processes can write to; a container's root may be read-only.
std::string make_private_folder(const std::map<std::string, std::string>& env) {
  const auto tmp = env.find("TMPDIR");
  for (const std::string& parent : {tmp == env.end() ? std::string{} : tmp->second,
                                    std::string{"/tmp"}, std::string{"/dev/shm"}}) {
    std::string path = parent + "/pawl-XXXXXX";
    if (!parent.empty() && ::mkdtemp(path.data()) != nullptr) return path;
  }
  return "";
}

}  // namespace

Launcher::Launcher(Settings settings, kube::Transport& transport, const Clock& clock, Log& log)
    : settings_(std::move(settings)),
      transport_(transport),
      clock_(clock),
      log_(log),
      start_id_(os::random_hex(8)) {}

Launcher::~Launcher() {
  if (inbox_) inbox_->close();
  supervisor_.reset();  // before the folder that its standbys have a file in
  for (int i = 0; i < settings_.worker.processes && !private_folder_.empty(); ++i) {
    ::unlink((private_folder_ + "/" + std::to_string(i) + ".json").c_str());
  }
  if (!private_folder_.empty()) ::rmdir(private_folder_.c_str());
}

Result<std::unique_ptr<Launcher>> Launcher::create(Settings settings, kube::Transport& transport,
                                                   const Clock& clock, Log& log, Timings timings) {
  auto launcher =
      std::unique_ptr<Launcher>(new Launcher(std::move(settings), transport, clock, log));
  PAWL_TRY_VOID(launcher->set_up(timings));
  return launcher;
}

Status Launcher::set_up(Timings timings) {
  // Orphans of the processes come to us, whether or not we are PID 1.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  PAWL_TRY(inbox, Inbox::create());
  PAWL_TRY(poller, Poller::create());
  inbox_ = std::move(inbox);
  poller_ = std::move(poller);
  poller_->add(inbox_->fd(), EPOLLIN, [this](std::uint32_t) { inbox_->drain(); });
  PAWL_TRY(signals, Signals::create(*poller_, [this](int signal) { on_signal(signal); }));
  signals_ = std::move(signals);
  if (settings_.health_port >= 0) {
    // On all addresses: the kubelet probes the pod's.
    const std::string address = settings_.is_local()                              ? "127.0.0.1"
                                : settings_.pod_ip.find(':') == std::string::npos ? "0.0.0.0"
                                                                                  : "::";
    PAWL_TRY(health,
             Health::start(clock_, address, static_cast<std::uint16_t>(settings_.health_port)));
    health_ = std::move(health);
  }
  PAWL_TRY_VOID(set_up_peers());
  PAWL_TRY(ports, free_ports(settings_.pod_ip, settings_.worker.processes));
  ports_ = std::move(ports);
  private_folder_ = make_private_folder(settings_.env);
  record_ = std::make_unique<RecordClient>(
      transport_, clock_, log_, inbox_, settings_.worker.ns, settings_.worker.job_name,
      RecordEvents{.on_record = [this](RecordSeen seen) { on_record(std::move(seen)); },
                   .on_gone = [this](const std::string& why) { feed(RecordGone{why}); },
                   .on_written = [this](WriteDone done) { feed(done); },
                   .on_forbidden =
                       [this](const std::string& why) {
                         act(WriteTermination{{.pod = settings_.worker.pod,
                                               .pod_uid = settings_.pod_uid,
                                               .cause = api::kCauseError,
                                               .message = "may not read its WorkerGroup: " + why,
                                               .attempt = settings_.worker.attempt}});
                         exit_code_ = api::kExitFatal;
                       }});
  PAWL_TRY(logs, LogPump::start(settings_.worker.processes > 1, STDOUT_FILENO, STDERR_FILENO));
  set_up_processes(std::move(logs));
  if (auto nvml = gpu::Nvml::open(settings_.nvml)) {
    nvml_ = std::move(*nvml);
  } else {
    log_.debug("no_nvml", {{"why", nvml.error().message}});
  }
  membership_ = std::make_unique<Membership>(identity(timings), timings);
  if (nvml_) watch_gpus();
  if (!settings_.metadata.empty()) {
    metadata_ = std::make_unique<MetadataWatch>(
        MetadataOptions{.url = settings_.metadata}, log_, [this](const std::string& what) {
          inbox_->post([this, what] { feed(TerminationAsked{what}); });
        });
  }
  return {};
}

Status Launcher::set_up_peers() {
  PeerEvents events{
      .on_up = [this] { feed(PeerUp{}); },
      .on_message = [this](PeerId peer, const std::string& text) { on_peer_text(peer, text); },
      .on_down =
          [this](PeerId peer, const std::string& why) {
            gatekeeper_->on_down(peer);
            feed(PeerDown{peer, why});
          }};
  PAWL_TRY(hub, PeerHub::create(*poller_, clock_, settings_.pod_ip, std::move(events)));
  hub_ = std::move(hub);
  gatekeeper_ = std::make_unique<Gatekeeper>(
      clock_, settings_.worker.ns,
      GatekeeperEvents{
          .on_admitted =
              [this](PeerId peer, Message message) {
                hub_->trust(peer);
                feed(PeerSaid{peer, std::move(message)});
              },
          .on_refused = [this](PeerId peer, const std::string& why) { refuse(peer, why); },
          .fetch_keys =
              [this] {
                record_->get_text("/openid/v1/jwks", [this](const Result<std::string>& keys) {
                  gatekeeper_->on_keys(keys);
                });
              }});
  return {};
}

void Launcher::set_up_processes(std::unique_ptr<LogPump> logs) {
  channels_ = std::make_unique<ChannelSet>(
      *poller_, log_, [this](int local_rank, const api::channel::FromProcess& message) {
        feed(ProcessSaid{local_rank, message});
      });
  // What a process said before it ended counts: its channel is read to the end first.
  supervisor_ = std::make_unique<Supervisor>(
      clock_, inbox_, std::move(logs),
      Supervisor::Events{
          .before_exit = [this](int local_rank) { channels_->drain(local_rank); },
          .on_exited = [this](ProcessExited exited) { on_exited(std::move(exited)); }});
  set_up_standbys();
  const auto checkpoint = settings_.worker.checkpoint.value_or(api::WorkerFacts::Checkpoint{});
  saver_ = std::make_unique<Saver>(
      SaverOptions{checkpoint.uri, settings_.worker.job_uid, checkpoint.keep}, inbox_,
      SaverEvents{
          .on_selected = [this](CheckpointSelected selected) { feed(selected); },
          .on_written = [this](ShardWritten written) { feed(written); },
          .on_published = [this](PublishDone done) { feed(done); },
          .on_warning =
              [this](const std::string& what) { log_.warning("storage", {{"text", what}}); }});
}

// A Native process is kept over generations, and started anew within a tenth of a second; the
// programs of MPI and Ray are not the user's command.
void Launcher::set_up_standbys() {
  const api::RuntimeKind runtime = settings_.worker.runtime;
  const bool is_wanted = runtime != api::RuntimeKind::kNative &&
                         runtime != api::RuntimeKind::kMpi && runtime != api::RuntimeKind::kRay &&
                         settings_.standby_after > std::chrono::seconds{0};
  if (!is_wanted) return;
  StandbyOptions options{.command = settings_.command,
                         .folder = private_folder_,
                         .after = settings_.standby_after,
                         .env = [this](int local_rank) {
                           auto env = process_env(settings_, {.local_rank = local_rank});
                           env.erase(api::kEnvChannelFd);
                           env.erase(api::kEnvPulseFd);
                           return env;
                         }};
  supervisor_->use(StandbySet::create(std::move(options), clock_, log_));
}

void Launcher::watch_gpus() {
  const auto visible = settings_.env.find("NVIDIA_VISIBLE_DEVICES");
  gpu::GpuWatchOptions options;
  if (visible != settings_.env.end()) options.uuids = gpu::named_uuids(visible->second);
  gpu::GpuWatchEvents events{.on_checked =
                                 [this](const std::string& fault) {
                                   if (!settings_.has_health_gate) return;  // its user wants it
                                   inbox_->post([this, fault] { feed(NodeChecked{fault}); });
                                 },
                             .on_fault =
                                 [this](const std::string& what) {
                                   inbox_->post([this, what] { feed(NodeFault{what}); });
                                 },
                             .on_program_error =
                                 [this](const std::string& what) {
                                   inbox_->post([this, what] {
                                     program_error_ = what;
                                     program_error_at_ = clock_.steady_now();
                                   });
                                 }};
  gpus_ = std::make_unique<gpu::GpuWatch>(std::move(nvml_), std::move(options), log_,
                                          std::move(events));
}

Identity Launcher::identity(const Timings&) const {
  return {
      .self = {settings_.pod_uid, start_id_},
      .pod = settings_.worker.pod,
      .node = settings_.node,
      .attempt = settings_.worker.attempt,
      .slot = settings_.worker.slot,
      .runtime = settings_.worker.runtime,
      .is_in_place = settings_.worker.is_in_place,
      .processes = settings_.worker.processes,
      .parameter_servers = settings_.worker.parameter_servers,
      .address = os::join_host_port(settings_.pod_ip, hub_->port()),
      .fingerprint = hub_->fingerprint(),
      .ports = ports_,
      .data_key = os::random_hex(32),
      // A foreign program saves by itself, and begins with what it finds.
      .has_checkpoints = settings_.worker.checkpoint.has_value() && !settings_.worker.is_in_place,
      .checkpoint_seconds = settings_.checkpoint_seconds(),
      .is_checked_first = nvml_ && settings_.has_health_gate};
}

int Launcher::run() {
  log_.info("launcher_started", {{"pod", settings_.worker.pod},
                                 {"attempt", settings_.worker.attempt},
                                 {"slot", settings_.worker.slot},
                                 {"processes", settings_.worker.processes}});
  is_feeding_ = true;
  const std::vector<Action> first = membership_->start(now());
  for (const Action& action : first) perform(action);
  is_feeding_ = false;
  SteadyPoint last_tick = clock_.steady_now();
  while (!exit_code_) {
    poller_->run_once(kTick);
    if (health_) health_->on_turn();
    if (clock_.steady_now() - last_tick < kTick) continue;
    last_tick = clock_.steady_now();
    record_->on_tick();
    hub_->on_tick();
    supervisor_->on_tick();
    if (!exits_.empty() && last_tick >= exits_due_) tell_exits();  // a driver that hangs
    feed(look_at_processes());
  }
  hub_->finish(kFinishMax);
  log_.info("launcher_ends", {{"pod", settings_.worker.pod}, {"exit_code", *exit_code_}});
  supervisor_.reset();  // kills what is left, carries the last lines of output over
  return *exit_code_;
}

// An action may bring the next input at once (a reaped process while stopping): those wait their
// turn.
void Launcher::feed(const Input& input) {
  inputs_.push_back(input);
  if (is_feeding_) return;
  is_feeding_ = true;
  while (!inputs_.empty()) {
    const Input next = std::move(inputs_.front());
    inputs_.pop_front();
    const std::vector<Action> actions = membership_->step(next, now());
    for (const Action& action : actions) perform(action);
  }
  is_feeding_ = false;
}

void Launcher::perform(const Action& action) {
  std::visit([this](const auto& value) { act(value); }, action);
}

}  // namespace pawl::launcher
