#include "tests/sim/world.h"

#include <utility>

#include "common/base/mutant.h"

namespace pawl::sim {
namespace {

constexpr seconds kConvergeMax{600}, kQueueMax{300}, kCheckEvery{5}, kQuiet{150};
constexpr seconds kSilenceMax{90};  // of a stream, until it is found out

}  // namespace

World::World(std::uint64_t seed, Knobs drawn, bool is_recording)
    : knobs(std::move(drawn)),
      engine(seed),
      api(engine, knobs),
      training(engine, knobs, truth),
      oracles(engine, api, knobs, truth),
      people(engine, api, knobs, truth),
      nodes(WorkerPlace{engine, api, knobs, net, training, truth}, knobs.nodes),
      operator_process(engine, api, knobs, "operator"),
      second_operator(engine, api, knobs, "second operator") {
  engine.record_trace(is_recording);
  engine.trace(knobs.describe());
  shuffle_random = &engine.random();
  nodes.on_signal = [this](const std::string& node) {
    for (OperatorProcess* one : operators()) one->on_signal(node);
  };
  oracles.is_announced = [this](const std::string& node) { return nodes.is_announced(node); };
  for (OperatorProcess* one : operators()) {
    one->signals = [this]() -> const core::NodeSignals& { return nodes.signals(); };
    one->hosts = [this] { return nodes.hosts(); };
    one->on_view_back = [this](const std::string& why) { oracles.fail("O3", why); };
    one->on_group = [this, one](const nlohmann::json* group) {
      group == nullptr ? oracles.forget_view(one) : oracles.see_group(one, *group);
    };
    one->on_send = [this, one](const kube::HttpRequest& request) { check_leader(*one, request); };
  }
}

std::vector<OperatorProcess*> World::operators() {
  if (knobs.operators == 1) return {&operator_process};
  return {&operator_process, &second_operator};
}

OperatorProcess& World::any_operator() {
  const auto all = operators();
  return all.size() == 1 ? *all[0] : *all[engine.random().below(all.size())];
}

void World::each_link(const std::function<void(Link&)>& action) {
  for (OperatorProcess* one : operators()) {
    if (Link* link = one->link()) action(*link);
  }
}

// What a process sends it decided on: then nobody else may be leading.
void World::check_leader(const OperatorProcess& sender, const kube::HttpRequest& request) {
  if (request.method == kube::Method::kGet) return;
  for (const OperatorProcess* one : operators()) {
    if (one != &sender && one->leads()) {
      oracles.fail("O9", "an operator writes " + request.target + " though another one leads");
    }
  }
}

World::~World() { shuffle_random = nullptr; }

RunResult World::run(const std::function<void(World&)>& story) {
  for (OperatorProcess* one : operators()) one->start();
  if (story) {
    story(*this);
  } else {
    play();
  }
  if (!oracles.failure()) stop_faults();
  if (!oracles.failure()) converge();
  if (!oracles.failure()) be_quiet();
  return result();
}

RunResult World::result() {
  RunResult result;
  result.failure = oracles.failure();
  engine.mix(engine.random().next());
  result.hash = engine.hash();
  result.events = engine.events();
  result.operator_writes = oracles.operator_writes();
  result.faults = api.faults;
  result.trace = engine.lines();
  return result;
}

void World::begin_faults() {
  api.is_faulty = true;
  api.is_pruning = knobs.prunes;
  nodes.may_fail = training.may_fail = true;
}

// The safety phase.
void World::play() {
  begin_faults();
  for (const std::string& name : people.names()) {
    milliseconds at =
        engine.between(milliseconds{0}, knobs.faulty_for / (knobs.is_restless ? 40 : 4));
    // Who gives way has begun by then.
    if (knobs.is_crowded && name != people.names().front()) at += knobs.faulty_for / 3;
    engine.after(at, [this, name] { people.create_job(name); });
  }
  inject_api_faults();
  inject_node_faults();
  inject_people();
  engine.run_until(knobs.faulty_for);
}

void World::every(int per_minute, std::function<void()> action) {
  if (per_minute > 0) every(milliseconds{60'000} / per_minute, std::move(action));
}

void World::every(milliseconds mean, std::function<void()> action) {
  const milliseconds wait = engine.between(milliseconds{1}, 2 * mean);
  engine.after(wait, [this, mean, action = std::move(action)] {
    if (!api.is_faulty) return;
    action();
    every(mean, action);
  });
}

void World::inject_api_faults() {
  every(knobs.crash_operator, [this] {
    const milliseconds away = engine.between(milliseconds{100}, milliseconds{10'000});
    const bool is_asked = knobs.operators > 1 && engine.random().one_in(2);
    OperatorProcess& one = any_operator();
    is_asked ? one.hand_over_for(away) : one.crash_for(away);
  });
  every(knobs.pause_operator, [this] {
    const milliseconds time = engine.between(milliseconds{100}, milliseconds{40'000});
    truth.blind += time;
    any_operator().pause(time);
  });
  every(knobs.drop_streams, [this] {
    api.count_fault("streams dropped");
    each_link([](Link& link) { link.drop_streams(); });
  });
  every(knobs.freeze_stream, [this] {
    api.count_fault("stream frozen");
    truth.blind += kSilenceMax;
    each_link([](Link& link) { link.freeze_streams(); });
  });
  every(knobs.compact, [this] {
    api.count_fault("compaction");
    api.compact();
    each_link([](Link& link) { link.drop_streams(); });
  });
  every(knobs.api_outage, [this] {
    api.count_fault("API outage");
    make_noise();
    api.outage_until = engine.elapsed() + engine.between(seconds{1}, seconds{60});
  });
  every(knobs.refuse_pods, [this] {
    api.count_fault("quota");
    api.pods_refused_until = engine.elapsed() + engine.between(seconds{1}, seconds{30});
  });
  every(knobs.clock_step, [this] {
    api.count_fault("clock step");
    any_operator().step_clock(engine.between(seconds{0}, seconds{60}) - seconds{30});
  });
}

void World::inject_node_faults() {
  every(knobs.kill_node, [this] { nodes.kill_one(); });
  every(knobs.blip_node,
        [this] { nodes.blip_one(engine.between(milliseconds{500}, milliseconds{90'000})); });
  every(knobs.strand_node,
        [this] { nodes.strand_one(engine.between(milliseconds{50'000}, milliseconds{400'000})); });
  every(knobs.drain, [this] { nodes.drain_one(); });
  every(knobs.announce, [this] {
    nodes.announce_one(engine.between(milliseconds{5'000}, milliseconds{120'000}),
                       static_cast<Nodes::Told>(engine.random().below(3)));
  });
  every(knobs.reclaim_spot, [this] { nodes.reclaim_spot(); });
  every(knobs.slow, [this] {
    training.slow_down_one(engine.between(milliseconds{10'000}, milliseconds{120'000}));
  });
  every(knobs.cut_pair,
        [this] { training.cut_pair(engine.between(milliseconds{1'000}, milliseconds{120'000})); });
  every(knobs.blind_worker, [this] {
    const milliseconds time = engine.between(milliseconds{1'000}, milliseconds{90'000});
    if (!net.blind_one(time)) return;
    api.count_fault("launcher without API");
    truth.unheard += time;
  });
  every(knobs.break_gpu,
        [this] { nodes.break_gpu(engine.between(milliseconds{10'000}, milliseconds{300'000})); });
  every(knobs.hold_start,
        [this] { nodes.hold_start(engine.between(milliseconds{5'000}, milliseconds{120'000})); });
  every(knobs.evict, [this] {
    if (engine.random().one_in(2)) return nodes.press_pod();
    nodes.evict_pod("EvictionByEvictionAPI");
  });
  every(knobs.preempt, [this] { nodes.evict_pod("PreemptionByScheduler"); });
  every(knobs.delete_pod, [this] { nodes.evict_pod("Deleted"); });
  every(knobs.break_peers, [this] {
    api.count_fault("peer connections broken");
    make_noise();
    net.break_one();
  });
}

void World::inject_people() {
  every(knobs.user_suspends, [this] { people.toggle_suspend(); });
  every(knobs.user_scales, [this] { people.scale(); });
  every(knobs.user_deletes, [this] { people.delete_and_maybe_recreate(); });
  every(knobs.user_edits, [this] { people.edit_template(); });
  if (knobs.spot_nodes > 0) every(knobs.user_edits, [this] { people.edit_capacity(); });
  every(knobs.delete_group, [this] { people.delete_group(); });
  every(knobs.delete_status, [this] { people.delete_status(); });
  every(knobs.cut_status, [this] { people.cut_status(); });
  every(knobs.foreign_pod, [this] { people.put_foreign_pod(); });
  every(knobs.foreign_field, [this] { people.write_foreign_field(); });
  every(knobs.chatty_writer, [this] { people.chat(); });
}

// A cluster's life: what has ended makes room for something new.
void World::respawn() {
  for (const std::string& name : people.names()) {
    const local::Object job = api.find(kube::resources::kTrainingJobs, name);
    const std::string phase = job == nullptr ? "" : text_at_pointer(*job, "/status/phase");
    if (job != nullptr && phase != "Complete" && phase != "Failed") continue;
    if (job != nullptr) people.delete_job(name, "Background");
    engine.after(seconds{5}, [this, name] { people.create_job(name); });
  }
}

// What may look like anything to every gang that runs now.
void World::make_noise() {
  for (const local::Object& pod : api.all(kube::resources::kPods)) {
    const auto facts = facts_of(*pod);
    if (facts && !is_terminal_pod(*pod)) ++truth.of(facts->job_uid, facts->attempt).noise;
  }
}

// The liveness phase begins: nothing goes wrong any more, and nobody changes their mind. Streams
// that are frozen stay frozen: nobody tells.
void World::stop_faults() {
  engine.trace("faults stop");
  api.is_faulty = api.is_pruning = false;
  nodes.may_fail = training.may_fail = false;
  training.join_pairs();
  api.outage_until = api.pods_refused_until = engine.elapsed();
  each_link([](Link& link) { link.may_list_stale = false; });
  nodes.heal();
  // What had been asked for before may still come.
  engine.run_until(engine.elapsed() + seconds{15});
  for (OperatorProcess* one : operators()) {
    one->start();
    one->step_clock(milliseconds{0});
  }
  people.settle();
}

void World::converge() {
  // One job after another, or nodes that have not come in time again and again.
  const seconds in_line = knobs.has_queues || knobs.asks_by_pods ? kQueueMax : seconds{0};
  const milliseconds end = engine.elapsed() + kConvergeMax + in_line;
  if (knobs.chats_on) {
    // Whoever reads and writes at once finds a gap; whoever writes to what a late view shows does
    // not.
    people.chat_on(4 * knobs.latency_max + milliseconds{50},
                   [this, end] { return engine.elapsed() < end && !oracles.is_settled(); });
  }
  while (engine.elapsed() < end && !oracles.is_settled()) {
    if (!engine.run_until(engine.elapsed() + kCheckEvery)) return;
  }
  // Everything came to its end without them; what still runs there does no harm now.
  oracles.check_settled();
  nodes.unstrand();
  // Collectors and kubelets finish, and frozen streams are found out; then it must be quiet.
  if (!engine.run_until(engine.elapsed() + seconds{130})) return;
  oracles.check_end(nodes, people);
  oracles.check_training(training);
}

void World::be_quiet() {
  const std::uint64_t before = oracles.operator_writes();
  if (!engine.run_until(engine.elapsed() + kQuiet)) return;
  const std::uint64_t more = oracles.operator_writes() - before;
  if (more > 0) {
    oracles.fail("O8", "the operator wrote " + std::to_string(more) + " times in " +
                           std::to_string(kQuiet.count()) + " s though everything is over");
  }
}

RunResult run_seed(std::uint64_t seed, bool is_recording) {
  Random random{mix64(~seed)};  // neighbours have nothing in common
  World world(seed, draw_knobs(random), is_recording);
  return world.run();
}

}  // namespace pawl::sim
