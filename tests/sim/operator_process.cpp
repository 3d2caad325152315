#include "tests/sim/operator_process.h"

#include <utility>

#include "operator/controller/watches.h"
#include "tests/sim/nodes.h"
#include "tests/sim/people.h"

namespace pawl::sim {
namespace {

using controller::Kind;

constexpr milliseconds kDrain{900}, kRelease{900};  // as operator.cpp

controller::LoopOptions loop_options(const Knobs& knobs) {
  controller::LoopOptions options;
  options.policy.children.is_local = true;  // smaller pods; what is left out is the kubelet's
  options.policy.children.native_worker_image = "pawl/worker:1";
  options.policy.children.spot = {{kSpotLabel, "spot", kSpotLabel}};
  options.policy.spot_avoided_first = knobs.spot_avoided;
  options.policy.asks_by_pods = knobs.asks_by_pods;
  options.policy.anywhere_max = kAnywhereMax;
  options.is_standby = knobs.operators > 1;
  if (knobs.pace.report_seconds > 0) options.policy.report_seconds = knobs.pace.report_seconds;
  if (knobs.places)
    options.placement = placement::Levels::parse(std::string("rack=") + kRackLabel).value();
  options.reports_queues = false;  // the API server here knows what is in a namespace
  options.patience.wait_max = knobs.reserve_after;
  if (knobs.narrow_plans) options.runs_max = options.wave_max = 1;
  return options;
}

leader::LeaseOptions lease_options(const std::string& identity) {
  leader::LeaseOptions options;
  options.ns = kNamespace;
  options.name = "pawl-operator";
  options.identity = identity;
  options.version = "1";
  return options;
}

}  // namespace

OperatorProcess::Process::Process(OperatorProcess& the_owner, const std::string& identity)
    : owner(the_owner),
      link(owner.engine_, owner.api_, owner.knobs_, Actor::kOperator, [this] { owner.wake(); }),
      lease_link(owner.engine_, owner.api_, owner.knobs_, Actor::kElector,
                 [this] { owner.wake(); }) {
  link.may_list_stale = owner.knobs_.may_list_stale && owner.api_.is_faulty;
  link.on_send = owner.on_send;
  if (owner.knobs_.operators > 1) {
    lease.emplace(lease_options(identity), Random{owner.engine_.random().next()});
  }
  make_loop();
}

void OperatorProcess::Process::make_loop() {
  auto next = std::make_unique<controller::ControllerLoop>(
      link, owner.clock_, Random{owner.engine_.random().next()}, owner.log_, inbox,
      loop_options(owner.knobs_));
  if (loop) next->follow(*loop);
  loop = std::move(next);
  if (owner.on_group) owner.on_group(nullptr);
  // As with --namespace: pods come by two watches, which are not equally far.
  const bool has_two_views = owner.knobs_.small_pages;
  for (const Kind kind : {Kind::kJob, Kind::kGroup, Kind::kPod}) {
    kube::InformerOptions options = controller::informer_options(kind, "");
    if (owner.knobs_.small_pages) options.page_size = 1;
    kube::InformerEvents events =
        controller::informer_events(kind, owner.log_, inbox, owner.knobs_.places && !has_two_views);
    if (kind == Kind::kGroup) {
      events.on_upsert = [&to = owner.on_group,
                          next = std::move(events.on_upsert)](const auto& object) {
        if (to) to(&object);
        next(object);
      };
    }
    reflectors.push_back(std::make_unique<Reflector>(owner.engine_, link, std::move(options),
                                                     owner.guarded(std::move(events))));
  }
  if (!owner.knobs_.places) return;
  const auto who = has_two_views ? controller::Booked::kAll : controller::Booked::kOthers;
  kube::InformerOptions options = controller::booking_informer_options(who);
  options.field_selector.clear();  // the events leave out what it would
  reflectors.push_back(
      std::make_unique<Reflector>(owner.engine_, link, std::move(options),
                                  owner.guarded(controller::booking_informer_events(who, inbox))));
}

void OperatorProcess::Process::see_hosts() {
  if (!owner.knobs_.places) return;
  known_hosts.clear();
  const milliseconds delay = owner.engine_.between(milliseconds{1}, milliseconds{1'000});
  owner.engine_.after(delay, [owner = &owner, loop = loop.get(), life = owner.lives_] {
    if (!owner->process_ || owner->lives_ != life || owner->process_->loop.get() != loop) return;
    owner->look_at_hosts(loop);
    owner->process_->inbox->post_class(kUrgent, controller::PriorityClass{kUrgency});
    owner->process_->inbox->post_classes_listed();
    for (api::TrainingQueue& queue : sim_queues()) {
      const std::string name = queue.meta.name;
      if (owner->knobs_.has_queues) owner->process_->inbox->post_queue(name, std::move(queue));
    }
    owner->process_->inbox->post_queues_listed();
    owner->process_->inbox->post_hosts_listed();
    owner->wake();
  });
}

// Once in a while, and only what is news: as a watch that is late by so much.
void OperatorProcess::look_at_hosts(const controller::ControllerLoop* loop) {
  const auto now = hosts();
  std::map<std::string, placement::Host>& known = process_->known_hosts;
  for (const auto& [name, host] : now) {
    const auto before = known.find(name);
    if (before == known.end() || before->second != host) process_->inbox->post_host(name, host);
  }
  for (const auto& [name, host] : known) {
    if (!now.contains(name)) process_->inbox->post_host(name, std::nullopt);
  }
  if (known != now) wake();
  known = now;
  engine_.after(engine_.between(milliseconds{100}, milliseconds{1'000}),
                [this, loop, life = lives_] {
                  const bool is_there = process_ && lives_ == life && process_->loop.get() == loop;
                  if (is_there) look_at_hosts(loop);
                });
}

void OperatorProcess::Process::see_nodes() {
  see_hosts();
  if (owner.signals().empty()) return inbox->post_nodes_listed();
  const milliseconds delay = owner.engine_.between(milliseconds{1}, milliseconds{2'000});
  owner.engine_.after(delay, [owner = &owner, life = owner.lives_] {
    if (!owner->process_ || owner->lives_ != life) return;
    for (const auto& [node, signal] : owner->signals()) owner->on_signal(node);
    owner->engine_.after(seconds{1}, [owner, life] {  // pages come one by one
      if (!owner->process_ || owner->lives_ != life) return;
      owner->process_->inbox->post_nodes_listed();
      owner->wake();
    });
  });
}

// What is true when it arrives.
void OperatorProcess::on_signal(const std::string& node) {
  if (!process_) return;
  const milliseconds delay = engine_.between(milliseconds{1}, milliseconds{1'000});
  engine_.after(delay, [this, node, life = lives_] {
    if (!process_ || lives_ != life) return;
    const auto found = signals().find(node);
    std::optional<core::NodeSignal> signal;
    if (found != signals().end()) {
      signal = found->second;
      signal->seen_at = clock_.now();
    }
    process_->inbox->post_signal(node, std::move(signal));
    wake();
  });
}

void OperatorProcess::Process::begin_anew() {
  reflectors.clear();
  make_loop();
  (void)inbox->take();
  for (const auto& reflector : reflectors) reflector->start();
  see_nodes();
}

OperatorProcess::OperatorProcess(Engine& engine, ApiServer& api, const Knobs& knobs,
                                 std::string name)
    : engine_(engine),
      api_(api),
      knobs_(knobs),
      name_(std::move(name)),
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
  engine_.trace(name_ + " starts");
  process_ = std::make_unique<Process>(*this, name_ + "-" + std::to_string(lives_));
  if (on_start) on_start(process_->link);
  for (const auto& reflector : process_->reflectors) reflector->start();
  process_->see_nodes();
  wake();
}

void OperatorProcess::crash() {
  if (!process_) return;
  engine_.trace(name_ + " dies");
  api_.count_fault("operator crash");
  process_.reset();
}

void OperatorProcess::crash_for(milliseconds away) {
  engine_.after(milliseconds{0}, [this, away] {
    crash();
    engine_.after(away, [this] { start(); });
  });
}

void OperatorProcess::pause(milliseconds time) {
  engine_.trace(name_ + " stands still for " + std::to_string(time.count()) + " ms");
  api_.count_fault("operator paused");
  paused_until_ = engine_.elapsed() + time;
}

// Nothing new leaves; what is on its way is answered or given up; then the lease is free.
void OperatorProcess::hand_over_for(milliseconds away) {
  if (!process_ || !process_->lease || process_->is_stopping) return crash_for(away);
  engine_.trace(name_ + " is asked to stop");
  api_.count_fault("operator stopped");
  process_->is_stopping = true;
  process_->loop->lead_until(SteadyPoint::min());
  engine_.after(kDrain, [this, life = lives_, away] {
    if (!process_ || life != lives_) return;
    release();
    engine_.after(kRelease, [this, life, away] {
      if (!process_ || life != lives_) return;
      crash();
      engine_.after(away, [this] { start(); });
    });
  });
}

void OperatorProcess::release() {
  controller::ControllerLoop& loop = *process_->loop;
  const bool knows = loop.requests_in_flight() == 0 && loop.is_synced() && loop.is_caught_up();
  const std::string views = knows ? controller::encode_views(loop.newest()) : "";
  loop.cancel_requests();
  process_->lease->release(views);
  wake();
}

bool OperatorProcess::leads() const {
  if (!process_) return false;
  return !process_->lease || clock_.steady_now() < process_->lease->leads_until();
}

void OperatorProcess::wake() {
  if (is_awake_) return;
  is_awake_ = true;
  const milliseconds rest = paused_until_ - engine_.elapsed();
  engine_.after(std::max(rest, milliseconds{1}), [this] {
    is_awake_ = false;
    turn();
  });
}

void OperatorProcess::turn() {
  if (!process_) return;
  if (engine_.elapsed() < paused_until_) return wake();
  const SteadyPoint election_due = elect();
  const SteadyPoint due = process_->loop->turn().value_or(SteadyPoint::max());
  turn_at(std::min(due, election_due));
}

void OperatorProcess::turn_at(SteadyPoint due) {
  if (due == SteadyPoint::max()) return;
  const auto delay = std::chrono::ceil<milliseconds>(due - clock_.steady_now());
  engine_.after(std::max(delay, milliseconds{1}), [this, timer = ++timer_] {
    if (timer == timer_) turn();  // else a later turn has set another
  });
}

SteadyPoint OperatorProcess::ask_for_lease() {
  leader::LeaseMachine& lease = *process_->lease;
  const SteadyPoint now = clock_.steady_now();
  for (const auto& answer : std::exchange(process_->lease_answers, {})) {
    lease.on_answer(answer, now);
  }
  if (auto request = lease.next(clock_.now(), now)) {
    process_->lease_link.send(std::move(*request),
                              [process = process_.get()](const Result<kube::HttpResponse>& answer) {
                                process->lease_answers.push_back(answer);
                              });
  }
  return lease.due();
}

SteadyPoint OperatorProcess::elect() {
  if (!process_->lease) return SteadyPoint::max();
  const SteadyPoint due = ask_for_lease();
  if (process_->is_stopping) return due;
  const leader::LeaseMachine& lease = *process_->lease;
  controller::Role& role = process_->role;
  using Step = controller::Role::Step;
  const Step step = role.next(lease.terms() + lease.losses(), lease.is_leading(), lease.inherited(),
                              process_->loop->is_caught_up(), clock_.steady_now());
  if (step == Step::kFollow || step == Step::kLeadAnew) process_->begin_anew();
  if (step == Step::kLeadAnew) process_->loop->lead({});
  if (step == Step::kLead) process_->loop->lead(role.inherited());
  if (lease.is_leading()) process_->loop->lead_until(lease.leads_until());
  return std::min(due, role.due());
}

}  // namespace pawl::sim
