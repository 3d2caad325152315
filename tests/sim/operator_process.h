// The operator as a process that can die, stop for a while and go on: the production
// ControllerLoop, Role and LeaseMachine and the reflectors on a Link, turned by events as
// operator/controller/operator.cpp turns them. One thread: the event queue's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "operator/controller/loop.h"
#include "operator/controller/role.h"
#include "operator/leader/lease.h"
#include "tests/sim/link.h"
#include "tests/sim/reflector.h"

namespace pawl::sim {

class OperatorProcess {
 public:
  OperatorProcess(Engine& engine, ApiServer& api, const Knobs& knobs, std::string name);

  void start();
  void crash();                       // now; in the middle of nothing: never from its own callback
  void crash_for(milliseconds away);  // soon, and comes back
  void hand_over_for(milliseconds away);  // SIGTERM, and comes back
  void pause(milliseconds time);          // its clock goes on, and nothing else
  bool is_running() const { return process_ != nullptr; }
  bool leads() const;  // as it would say itself; always, where it is the only one
  Link* link() { return process_ ? &process_->link : nullptr; }
  void step_clock(milliseconds skew) { clock_.skew = skew; }
  int lives() const { return lives_; }

  // What nodes say now, as its watch of them brings it; another word comes a little later.
  std::function<const core::NodeSignals&()> signals;
  void on_signal(const std::string& node);
  // Machines as its watch of nodes shows them, a moment later.
  std::function<std::map<std::string, placement::Host>()> hosts;

  // Called with each new link: scenarios put their hooks in here.
  std::function<void(Link&)> on_start;
  // A view went back in time.
  std::function<void(const std::string& why)> on_view_back;
  // Its view of the records: each as it comes to know of it; null: it begins to look anew.
  std::function<void(const nlohmann::json* group)> on_group;
  // Before each request of the controller.
  std::function<void(const kube::HttpRequest&)> on_send;

 private:
  struct Process {
    Process(OperatorProcess& owner, const std::string& identity);
    void make_loop();
    void see_nodes();  // a first list
    void see_hosts();
    void begin_anew();

    OperatorProcess& owner;
    Link link, lease_link;
    std::shared_ptr<controller::Inbox> inbox = std::make_shared<controller::Inbox>();
    std::unique_ptr<controller::ControllerLoop> loop;
    std::vector<std::unique_ptr<Reflector>> reflectors;
    std::optional<leader::LeaseMachine> lease;
    std::vector<Result<kube::HttpResponse>> lease_answers;  // taken when it turns
    std::map<std::string, placement::Host> known_hosts;
    controller::Role role;
    bool is_stopping = false;
  };
  void look_at_hosts(const controller::ControllerLoop* loop);
  kube::InformerEvents guarded(kube::InformerEvents events);
  void wake();
  void turn();
  void turn_at(SteadyPoint due);
  SteadyPoint ask_for_lease();
  SteadyPoint elect();
  void release();

  Engine& engine_;
  ApiServer& api_;
  const Knobs& knobs_;
  const std::string name_;
  SimClock clock_;
  Log log_;
  std::unique_ptr<Process> process_;
  bool is_awake_ = false;
  int lives_ = 0;
  std::uint64_t timer_ = 0;
  milliseconds paused_until_{0};
};

}  // namespace pawl::sim
