// What the launcher does with the world: performs actions, turns events into inputs.
#include <fcntl.h>
#include <unistd.h>
#include <csignal>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/os/process.h"
#include "launcher/launcher.h"
#include "launcher/mpi/place.h"
#include "launcher/process_env.h"
#include "launcher/ray/place.h"

namespace pawl::launcher {

using namespace membership;  // NOLINT: this file translates between its types and the world.

void Launcher::on_record(RecordSeen seen) {
  // A job of the same name made anew is another job.
  const auto& labels = seen.group.meta.labels;
  const auto job_uid = labels.find(api::kLabelJobUid);
  if (job_uid != labels.end() && job_uid->second != settings_.worker.job_uid) {
    feed(RecordGone{"the WorkerGroup belongs to another job of the same name"});
    return;
  }
  feed(seen);
}

void Launcher::on_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      supervisor_->reap();
      break;
    case SIGTERM:
    case SIGINT:
      feed(TerminationAsked{""});
      break;
    default:
      supervisor_->forward(signal);
      break;
  }
}

void Launcher::on_peer_text(PeerId peer, const std::string& text) {
  auto message = membership::decode(text);
  if (!message) {
    // A newer launcher's message type is no reason to part.
    if (message.error().code == Code::kNotFound) return;
    log_.warning("peer_message_refused", {{"error", message.error().message}});
    hub_->close(peer);
    gatekeeper_->on_down(peer);
    feed(PeerDown{peer, message.error().message});
    return;
  }
  if (peer == kLeaderPeer) {
    feed(PeerSaid{peer, std::move(*message)});
  } else {
    gatekeeper_->on_message(peer, std::move(*message));
  }
}

void Launcher::refuse(PeerId peer, const std::string& why) {
  log_.warning("peer_refused", {{"why", why}});
  hub_->send(peer, membership::encode(Refused{why, false}));
  // The other side hangs up when it reads this; a stranger that does not is dropped at its
  // deadline.
}

std::string Launcher::peer_token() const {
  std::ifstream file(settings_.peer_token_file);
  std::ostringstream text;
  text << file.rdbuf();
  std::string token = text.str();
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
  if (token.empty()) log_.warning("peer_token_missing", {{"path", settings_.peer_token_file}});
  return token;
}

void Launcher::act(const Send& send) {
  if (const auto* join = std::get_if<Join>(&send.message)) {
    Join with_token = *join;
    with_token.token = peer_token();
    hub_->send(send.peer, membership::encode(with_token));
    return;
  }
  hub_->send(send.peer, membership::encode(send.message));
}

void Launcher::act(const HangUp& hang_up) {
  hub_->close(hang_up.peer);
  gatekeeper_->on_down(hang_up.peer);
}

void Launcher::act(const StartProcesses& start) {
  if (start.placement)
    supervisor_->set_first_rank(start.placement->member_rank * settings_.worker.processes);
  for (int i = 0; i < settings_.worker.processes; ++i) start_process(i, start.placement);
}

void Launcher::act(const ReplaceProcess& replace) {
  start_process(replace.local_rank, std::nullopt);
}

void Launcher::act(const KillProcess& kill) { supervisor_->kill(kill.local_rank); }

std::vector<std::string> Launcher::command_for(const std::optional<Placement>& placement) const {
  const api::RuntimeKind runtime = settings_.worker.runtime;
  if (placement && runtime == api::RuntimeKind::kMpi) return mpi::program(settings_, *placement);
  if (placement && runtime == api::RuntimeKind::kRay) return ray::program(settings_, *placement);
  return settings_.command;
}

void Launcher::start_process(int local_rank, const std::optional<Placement>& placement) {
  auto channel = channels_->open(local_rank);
  const std::string error_file =
      private_folder_.empty() ? "" : private_folder_ + "/" + std::to_string(local_rank) + ".json";
  Status started;
  if (channel) {
    const int socket = channel->socket.get(), pulse = channel->pulse.get();
    const ProcessPlace place{local_rank, socket, pulse, error_file, placement};
    started = supervisor_->start(
        local_rank,
        SpawnOptions{command_for(placement), process_env(settings_, place), {socket, pulse}},
        error_file);
  } else {
    started = tl::make_unexpected(channel.error());
  }
  if (started) return;
  log_.error("process_not_started", {{"rank", local_rank}, {"error", started.error().message}});
  // A command that is not there will not be there next time either; what may pass is tried again.
  const bool is_final = started.error().code == Code::kInvalid;
  feed(ProcessExited{.local_rank = local_rank,
                     .exit_code = is_final ? api::kExitFatal : api::kExitUser,
                     .message = started.error().message});
}

// A GPU that fails ends its program as a bug does, and is heard of a moment later.
void Launcher::on_exited(ProcessExited exited) {
  constexpr std::chrono::milliseconds kLookMax{1'000};
  const bool is_clear = exited.exit_code == 0 || exited.was_told || exited.was_killed;
  if (!gpus_ || is_clear) return feed(exited);
  exits_.push_back(std::move(exited));
  exits_due_ = clock_.steady_now() + kLookMax;
  gpus_->look([this, inbox = inbox_] { inbox->post([this] { tell_exits(); }); });
}

void Launcher::tell_exits() {
  constexpr std::chrono::seconds kRelated{10};
  const bool is_related =
      !program_error_.empty() && clock_.steady_now() - program_error_at_ < kRelated;
  for (ProcessExited& exited : std::exchange(exits_, {})) {
    if (is_related)
      exited.message += (exited.message.empty() ? "after: " : "; after: ") + program_error_;
    feed(exited);
  }
}

Tick Launcher::look_at_processes() const {
  Tick tick;
  for (int i = 0; i < settings_.worker.processes; ++i) {
    const api::PulsePage* page = channels_->pulse(i);
    const pid_t worker = page == nullptr ? 0 : page->process.load(std::memory_order_relaxed);
    const auto state = supervisor_->state_of(i, worker);
    if (page == nullptr || !state) continue;
    // The phase before the beats: never a new phase with the silence of an old one.
    const auto phase = static_cast<api::Phase>(page->phase.load(std::memory_order_acquire));
    tick.pulses.push_back({.local_rank = i,
                           .state = *state,
                           .beats = page->beats.load(std::memory_order_acquire),
                           .phase = phase,
                           .step = page->step.load(std::memory_order_relaxed),
                           .usual = api::usual_time(*page, phase)});
  }
  return tick;
}

void Launcher::act(const TellProcess& tell) {
  if (std::holds_alternative<api::channel::Stop>(tell.message))
    supervisor_->mark_told(tell.local_rank);
  const auto* welcome = std::get_if<api::channel::Welcome>(&tell.message);
  if (welcome != nullptr) supervisor_->set_first_rank(welcome->rank - welcome->local_rank);
  const Status sent = channels_->send(tell.local_rank, tell.message);
  if (sent || welcome == nullptr || sent.error().code == Code::kNotFound) return;
  // It would wait for its place for ever, and the gang for it.
  feed(ProcessExited{.local_rank = tell.local_rank,
                     .exit_code = api::kExitUser,
                     .message = "it could not be told its place: " + sent.error().message});
}

void Launcher::act(const WriteShard& write) {
  auto buffer = channels_->buffer(write.local_rank, write.buffer, write.bytes);
  if (buffer) {
    saver_->write(write, std::move(*buffer));
    return;
  }
  ShardWritten failed = answer_to(write);
  failed.error = buffer.error().message;
  feed(failed);
}

void Launcher::act(const SetReady& ready) {
  if (health_) health_->set_ready(ready.is_ready);
}

void Launcher::act(const WriteTermination& write) {
  write_termination(settings_.termination_log, write.failure, log_);
}

void Launcher::act(const Note& note) {
  if (note.is_warning) {
    log_.warning(note.event, {{"text", note.text}});
  } else {
    log_.info(note.event, {{"text", note.text}});
  }
}

void Launcher::write_termination(const std::string& path, const api::Failure& failure, Log& log) {
  const std::string text = api::encode_termination(failure);
  const os::Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  const bool is_written = file.is_open() && ::write(file.get(), text.data(), text.size()) ==
                                                static_cast<ssize_t>(text.size());
  if (!is_written)
    log.warning("termination_log_failed", {{"path", path}, {"error", os::errno_text()}});
}

}  // namespace pawl::launcher
