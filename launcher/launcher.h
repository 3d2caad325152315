// One launcher: wires the parts, turns the loop, performs what the membership decides. Decides
// nothing itself. main.cpp makes one; run() is the owner thread until the end. Signals must be
// blocked in every thread before (Signals).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/kube/transport.h"
#include "launcher/channel/channel_set.h"
#include "launcher/gpu/gpu_watch.h"
#include "launcher/health.h"
#include "launcher/loop/inbox.h"
#include "launcher/loop/poller.h"
#include "launcher/loop/signals.h"
#include "launcher/membership/membership.h"
#include "launcher/notice/metadata_watch.h"
#include "launcher/peer/gatekeeper.h"
#include "launcher/peer/peer_hub.h"
#include "launcher/reporter/record_client.h"
#include "launcher/saver/saver.h"
#include "launcher/settings.h"
#include "launcher/supervisor/supervisor.h"

namespace pawl::launcher {

class Launcher {
 public:
  static Result<std::unique_ptr<Launcher>> create(Settings settings, kube::Transport& transport,
                                                  const Clock& clock, Log& log,
                                                  membership::Timings timings = {});
  ~Launcher();

  // Until the gang has ended; the exit code.
  int run();
  // A failure before or beside the membership: leaves the reason where the operator finds it.
  static void write_termination(const std::string& path, const api::Failure& failure, Log& log);

 private:
  Launcher(Settings settings, kube::Transport& transport, const Clock& clock, Log& log);
  Status set_up(membership::Timings timings);
  Status set_up_peers();
  void set_up_processes(std::unique_ptr<LogPump> logs);
  void set_up_standbys();
  void watch_gpus();
  membership::Identity identity(const membership::Timings& timings) const;

  void feed(const membership::Input& input);
  membership::Now now() const { return {clock_.steady_now(), clock_.now()}; }
  void on_record(membership::RecordSeen seen);
  void on_signal(int signal);
  void on_peer_text(membership::PeerId peer, const std::string& text);
  void refuse(membership::PeerId peer, const std::string& why);
  std::string peer_token() const;

  void perform(const membership::Action& action);
  membership::Tick look_at_processes() const;
  void on_exited(membership::ProcessExited exited);
  void tell_exits();
  void act(const membership::ReadRecord& read) { record_->read(read.id); }
  void act(const membership::WatchRecord& watch) { record_->watch(watch.is_on); }
  void act(const membership::WriteStatus& write) { record_->write(write); }
  void act(const membership::Dial& dial) { hub_->dial(dial.address, dial.fingerprint); }
  void act(const membership::Send& send);
  void act(const membership::HangUp& hang_up);
  void act(const membership::SelectCheckpoint& select) { saver_->select(select); }
  void act(const membership::StartProcesses& start);
  void act(const membership::ReplaceProcess& replace);
  void act(const membership::KillProcess& kill);
  void act(const membership::TellProcess& tell);
  void act(const membership::StopProcesses& stop) { supervisor_->stop_all(stop.grace); }
  void act(const membership::WriteShard& write);
  void act(const membership::PublishCheckpoint& publish) { saver_->publish(publish); }
  void act(const membership::CleanUpCheckpoints& clean_up) { saver_->clean_up(clean_up); }
  void act(const membership::DiscardCheckpoint& discard) { saver_->discard(discard); }
  void act(const membership::SetReady& ready);
  void act(const membership::WriteTermination& write);
  void act(const membership::Note& note);
  void act(const membership::Leave& leave) { exit_code_ = leave.exit_code; }
  std::vector<std::string> command_for(const std::optional<membership::Placement>& placement) const;
  void start_process(int local_rank, const std::optional<membership::Placement>& placement);

  const Settings settings_;
  kube::Transport& transport_;
  const Clock& clock_;
  Log& log_;
  const std::string start_id_;        // with the pod UID, the identity of this process
  std::vector<std::uint16_t> ports_;  // free ones, for programs that listen, by local rank
  std::string private_folder_;        // for error files and standby.py; "": none could be made

  std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<Health> health_;
  std::unique_ptr<PeerHub> hub_;
  std::unique_ptr<Gatekeeper> gatekeeper_;
  std::unique_ptr<RecordClient> record_;
  std::unique_ptr<ChannelSet> channels_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<membership::Membership> membership_;
  std::unique_ptr<MetadataWatch> metadata_;
  std::unique_ptr<gpu::Nvml> nvml_;      // until somebody watches
  std::unique_ptr<gpu::GpuWatch> gpus_;  // null: there are none
  // Ends of processes that wait for what their GPUs say of it, until then at the latest.
  std::vector<membership::ProcessExited> exits_;
  SteadyPoint exits_due_{};
  std::string program_error_;  // that a GPU has told last, and when
  SteadyPoint program_error_at_{};

  std::deque<membership::Input> inputs_;  // that came while actions were being performed
  bool is_feeding_ = false;
  std::optional<int> exit_code_;
};

}  // namespace pawl::launcher
