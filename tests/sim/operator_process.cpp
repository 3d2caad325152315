#include "tests/sim/operator_process.h"

#include "operator/controller/watches.h"

namespace pawl::sim {
namespace {

using controller::Kind;

controller::LoopOptions loop_options(const Knobs& knobs) {
  controller::LoopOptions options;
  options.policy.children.is_local = true;  // smaller pods; what is left out is the kubelet's
  options.policy.children.native_worker_image = "pawl/worker:1";
  if (knobs.narrow_plans) options.runs_max = options.wave_max = 1;
  return options;
}

}  // namespace

OperatorProcess::Process::Process(OperatorProcess& owner, Engine& engine, ApiServer& api,
                                  const Knobs& knobs)
    : link(engine, api, knobs, Actor::kOperator, [&owner] { owner.wake(); }),
      loop(link, owner.clock_, Random{engine.random().next()}, owner.log_, inbox,
           loop_options(knobs)) {
  link.may_list_stale = knobs.may_list_stale && api.is_faulty;
  for (const Kind kind : {Kind::kJob, Kind::kGroup, Kind::kPod}) {
    kube::InformerOptions options = controller::informer_options(kind, "");
    if (knobs.small_pages) options.page_size = 1;
    reflectors.push_back(std::make_unique<Reflector>(
        engine, link, std::move(options),
        owner.guarded(controller::informer_events(kind, owner.log_, inbox))));
  }
}

OperatorProcess::OperatorProcess(Engine& engine, ApiServer& api, const Knobs& knobs)
    : engine_(engine),
      api_(api),
      knobs_(knobs),
      clock_(engine.clock().elapsed()),
      log_(clock_, [this](std::string_view line) { engine_.trace(line); }, LogLevel::kInfo) {}

// What a view shows never goes back (B11): neither as a whole, nor by an older list.
kube::InformerEvents OperatorProcess::guarded(kube::InformerEvents events) {
  const auto newest = std::make_shared<std::string>();
  const auto check = [this, newest](const std::string& version) {
    if (!kube::is_at_least(version, *newest) && on_view_back) {
      on_view_back("a view went from " + *newest + " back to " + version);
    }
    *newest = version;
  };
  events.on_synced = [check, next = std::move(events.on_synced)](const std::string& version) {
    check(version);
    next(version);
  };
  events.on_progress = [check, next = std::move(events.on_progress)](const std::string& version) {
    check(version);
    next(version);
  };
  return events;
}

void OperatorProcess::start() {
  if (process_) return;
  ++lives_;
  engine_.trace("operator starts");
  process_ = std::make_unique<Process>(*this, engine_, api_, knobs_);
  if (on_start) on_start(process_->link);
  for (const auto& reflector : process_->reflectors) reflector->start();
  wake();
}

void OperatorProcess::crash() {
  if (!process_) return;
  engine_.trace("operator dies");
  api_.count_fault("operator crash");
  process_.reset();
}

void OperatorProcess::crash_for(milliseconds away) {
  engine_.after(milliseconds{0}, [this, away] {
    crash();
    engine_.after(away, [this] { start(); });
  });
}

void OperatorProcess::wake() {
  if (is_awake_) return;
  is_awake_ = true;
  engine_.after(milliseconds{1}, [this] {
    is_awake_ = false;
    turn();
  });
}

void OperatorProcess::turn() {
  if (!process_) return;
  const auto due = process_->loop.turn();
  if (due) turn_at(std::chrono::ceil<milliseconds>(*due - clock_.steady_now()));
}

void OperatorProcess::turn_at(milliseconds delay) {
  engine_.after(std::max(delay, milliseconds{1}), [this, timer = ++timer_] {
    if (timer == timer_) turn();  // else a later turn has set another
  });
}

}  // namespace pawl::sim
