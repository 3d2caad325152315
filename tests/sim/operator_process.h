// The operator as a process that can die between any two requests: the production ControllerLoop
// and reflectors on a Link, turned by events. One thread: the event queue's.
#pragma once

#include <memory>
#include <vector>

#include "common/base/log.h"
#include "operator/controller/loop.h"
#include "tests/sim/link.h"
#include "tests/sim/reflector.h"

namespace pawl::sim {

class OperatorProcess {
 public:
  OperatorProcess(Engine& engine, ApiServer& api, const Knobs& knobs);

  void start();
  void crash();                       // now; in the middle of nothing: never from its own callback
  void crash_for(milliseconds away);  // soon, and comes back
  bool is_running() const { return process_ != nullptr; }
  Link* link() { return process_ ? &process_->link : nullptr; }
  void step_clock(milliseconds skew) { clock_.skew = skew; }
  int lives() const { return lives_; }

  // Called with each new link: scenarios put their hooks in here.
  std::function<void(Link&)> on_start;
  // A view went back in time.
  std::function<void(const std::string& why)> on_view_back;

 private:
  struct Process {
    Process(OperatorProcess& owner, Engine& engine, ApiServer& api, const Knobs& knobs);
    Link link;
    std::shared_ptr<controller::Inbox> inbox = std::make_shared<controller::Inbox>();
    controller::ControllerLoop loop;
    std::vector<std::unique_ptr<Reflector>> reflectors;
  };
  kube::InformerEvents guarded(kube::InformerEvents events);
  void wake();
  void turn();
  void turn_at(milliseconds delay);

  Engine& engine_;
  ApiServer& api_;
  const Knobs& knobs_;
  SimClock clock_;
  Log log_;
  std::unique_ptr<Process> process_;
  bool is_awake_ = false;
  int lives_ = 0;
  std::uint64_t timer_ = 0;
};

}  // namespace pawl::sim
