// One worker container: the production Membership as a process of its own, with its view of the
// record, its connections to the other launchers, and its (stub) training process. It performs the
// actions as launcher.cpp does and decides nothing.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/membership/membership.h"
#include "tests/sim/calm.h"
#include "tests/sim/link.h"
#include "tests/sim/peer_net.h"
#include "tests/sim/reflector.h"
#include "tests/sim/training.h"

namespace pawl::sim {

struct WorkerPlace {
  Engine& engine;
  ApiServer& api;
  const Knobs& knobs;
  PeerNet& net;
  Training& training;
  Truth& truth;
};

struct WorkerEvents {
  std::function<void(int exit_code, const std::string& termination)> on_exit;
  std::function<void(bool is_ready)> on_ready;
};

class Worker final : public Rank {
 public:
  Worker(WorkerPlace place, const nlohmann::json& pod, WorkerEvents events);
  ~Worker() override;  // killed
  void start();
  void terminate();                                        // SIGTERM
  void hear(membership::Input input, milliseconds delay);  // of its machine
  void cut(bool is_cut);                                   // from every network
  void blind(bool is_blind);                               // … from the API server alone
  bool leads() const { return leads_; }
  bool is_blind() const { return is_blind_; }
  void break_peers();
  void lose_node() { is_silent_ = true; }  // its connections are not even reset

  const std::string& job_uid() const { return job_uid_; }
  const std::string& uid() const override { return id_.self.uid; }
  std::int64_t attempt() const { return id_.attempt; }

  // Rank
  void say(api::channel::FromProcess message) override;
  void exit_process(int code, int signal, bool was_told) override;

 private:
  struct Connection {
    std::string other;  // its listening address
    membership::PeerId their_id = 0;
    milliseconds latency{1};
    // Under way, in order: while the network is cut TCP keeps what was sent, and sends it again.
    std::shared_ptr<std::deque<membership::Message>> wire =
        std::make_shared<std::deque<membership::Message>>();
  };
  // Takes the next message of a wire to its reader, as soon as neither end is cut off.
  struct Delivery {
    std::string from, to;
    membership::PeerId their_id = 0;
    std::shared_ptr<std::deque<membership::Message>> wire;
  };
  void deliver_after(milliseconds delay, Delivery delivery);
  using Input = membership::Input;

  void feed_soon(Input input, milliseconds delay = milliseconds{1});
  void feed(const Input& input);
  void tick();
  membership::Tick look_at_process();
  void check_attempt();
  void perform(const membership::Action& action);
  void act(const membership::ReadRecord& read);
  void act(const membership::WatchRecord& watch);
  void act(const membership::WriteStatus& write);
  void act(const membership::Dial& dial);
  void act(const membership::Send& send);
  void act(const membership::HangUp& hang_up);
  void act(const membership::SelectCheckpoint& select);
  void act(const membership::StartProcesses& start);
  void act(const membership::ReplaceProcess&) { start_process(); }
  void act(const membership::KillProcess&) { exit_process(137, 9, false); }
  void act(const membership::TellProcess& tell);
  void act(const membership::StopProcesses& stop);
  void act(const membership::WriteShard& write);
  void act(const membership::PublishCheckpoint& publish);
  // Storage holds published checkpoints alone.
  void act(const membership::CleanUpCheckpoints&) {}
  void act(const membership::DiscardCheckpoint&) {}
  void act(const membership::SetReady& ready);
  void act(const membership::WriteTermination& write);
  void act(const membership::Note& note);
  void act(const membership::Leave& leave);
  void start_process();
  void read_record();
  void on_read(std::uint64_t id, const kube::HttpRequest& request,
               const Result<kube::HttpResponse>& response);
  bool is_gone(const Result<kube::HttpResponse>& response);
  void on_group(const nlohmann::json& object);
  void see(api::WorkerGroup group, std::uint64_t read_id);
  void drop(membership::PeerId peer, bool is_told);
  membership::Now now() const {
    return {place_.engine.clock().steady_now(), place_.engine.clock().now()};
  }

  WorkerPlace place_;
  const WorkerEvents events_;
  Calm calm_;
  std::string job_name_, job_uid_, termination_;
  membership::Identity id_;
  std::unique_ptr<membership::Membership> membership_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<Reflector> reflector_;
  std::map<membership::PeerId, Connection> connections_;
  membership::PeerId last_peer_ = membership::kLeaderPeer;
  std::optional<membership::Placement> placement_;  // of a process that is started with one
  std::shared_ptr<Rank*> self_;  // emptied when the process, or all of this, is gone
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  std::uint64_t beats_ = 0;  // of the process
  bool is_blind_ = false, leads_ = false;
  bool has_process_ = false, is_cut_ = false, is_silent_ = false, is_stopping_process_ = false;
  bool wants_watch_ = false, is_reading_ = false;
  milliseconds silence_{0};  // of the API server, in all calls of this launcher
  std::optional<std::uint64_t> wanted_read_;
  milliseconds retry_at_{0}, read_backoff_{0};
  std::optional<milliseconds> denied_since_, outdated_since_;
};

}  // namespace pawl::sim
