#include "tests/sim/worker.h"

#include <utility>

#include "common/api/contract.h"
#include "common/api/worker_facts.h"

namespace pawl::sim {

using namespace membership;  // NOLINT: this file translates between its types and the world.
using nlohmann::json;

namespace {

constexpr milliseconds kLeavesWithin{60'000};  // the grace of its processes is 20 s

api::WorkerFacts facts_in(const json& pod) {
  for (const json& item : pod["spec"]["containers"][0]["env"]) {
    if (item["name"] == api::kEnvWorker) {
      return api::decode_worker_facts(item["value"].get<std::string>()).value();
    }
  }
  return {};
}

}  // namespace

Worker::Worker(WorkerPlace place, const json& pod, WorkerEvents events)
    : place_(place), events_(std::move(events)), calm_(place.engine, place.knobs.pace) {
  const api::WorkerFacts facts = facts_in(pod);
  job_name_ = facts.job_name;
  job_uid_ = facts.job_uid;
  const std::string uid = pod["metadata"]["uid"];
  Random& random = place_.engine.random();
  id_.self = {uid, std::to_string(random.below(1u << 30))};
  id_.pod = pod["metadata"]["name"];
  id_.node = pod["spec"].value("nodeName", "");
  id_.attempt = facts.attempt;
  id_.slot = facts.slot;
  const bool is_native = facts.runtime == api::RuntimeKind::kNative;
  id_.runtime = is_native ? api::RuntimeKind::kNative : api::RuntimeKind::kCustom;
  id_.address = uid.substr(0, 13) + ":1";
  id_.fingerprint = "print-" + id_.self.start;
  id_.ports = {29500};
  id_.data_key = "key";
  id_.has_checkpoints = facts.checkpoint.has_value();
  id_.is_checked_first = place.knobs.break_gpu > 0;
}

Worker::~Worker() {
  *is_alive_ = false;
  if (has_process_) place_.training.leave(*this);
  if (self_) *self_ = nullptr;
  place_.net.leave(id_.address);
  while (!connections_.empty()) drop(connections_.begin()->first, !is_silent_);
}

void Worker::start() {
  link_ = std::make_unique<Link>(place_.engine, place_.api, place_.knobs, Actor::kLauncher, [] {});
  link_->is_cut = is_cut_ || is_blind_;
  // Who waits for its report in vain must guess: in the end it is as if nobody could write it.
  link_->on_silence = [this](milliseconds time) {
    constexpr milliseconds kReportLate{4'000};
    silence_ += time;
    if (silence_ >= kReportLate) ++place_.truth.of(job_uid(), attempt()).noise;
  };
  membership_ = std::make_unique<Membership>(id_, calm_.timings());
  place_.net.listen(id_.address, *this);
  for (const Action& action : membership_->start(now())) perform(action);
  tick();
}

void Worker::tick() {
  place_.engine.after(calm_.tick_every(), [this, alive = is_alive_, turn = ++calm_.turn] {
    if (!*alive || turn != calm_.turn) return;
    if (wanted_read_ && !is_reading_ && place_.engine.elapsed() >= retry_at_) read_record();
    check_attempt();
    tick();
    feed(look_at_process());
  });
}

// Of those that hang every other one has been stopped by a signal.
Tick Worker::look_at_process() {
  if (!has_process_) return {};
  const bool hangs = place_.training.hangs(*this);
  if (id_.runtime != api::RuntimeKind::kNative)  // it writes no pulse: only a stopped one is seen
    return {{{.state = hangs ? RunState::kStopped : RunState::kRuns}}};
  if (!hangs) ++beats_;
  const bool is_stopped = hangs && beats_ % 2 == 0;
  return {{{.state = is_stopped ? RunState::kStopped : RunState::kRuns,
            .beats = beats_,
            .phase = api::Phase::kForward,
            .usual = milliseconds{100}}}};
}

void Worker::check_attempt() {
  if (!outdated_since_ || place_.engine.elapsed() - *outdated_since_ < kLeavesWithin) return;
  place_.truth.overstayed = id_.pod;
}

void Worker::feed_soon(Input input, milliseconds delay) {
  place_.engine.after(delay, [this, alive = is_alive_, input = std::move(input)] {
    if (*alive) feed(input);
  });
}

// The last action may be Leave, whose event ends this object later.
void Worker::feed(const Input& input) {
  if (calm_.is_ended_by(input)) tick();
  for (const Action& action : membership_->step(input, now())) perform(action);
}

void Worker::perform(const Action& action) {
  std::visit([this](const auto& one) { act(one); }, action);
}

void Worker::terminate() { feed_soon(TerminationAsked{}); }

void Worker::hear(Input input, milliseconds delay) { feed_soon(std::move(input), delay); }

void Worker::cut(bool is_cut) {
  is_cut_ = is_cut;
  if (link_) link_->is_cut = is_cut_ || is_blind_;
}

void Worker::blind(bool is_blind) {
  is_blind_ = is_blind;
  ++place_.truth.of(job_uid(), attempt()).noise;
  if (link_) link_->is_cut = is_cut_ || is_blind_;
}

// ---- peers

// What was sent before arrives before the end does.
void Worker::drop(PeerId peer, bool is_told) {
  auto node = connections_.extract(peer);
  if (node.empty()) return;
  const Connection connection = node.mapped();
  Worker* other = place_.net.find(connection.other);
  if (other == nullptr || !is_told || is_cut_ || other->is_cut_) return;
  place_.engine.after(connection.latency, [other, alive = other->is_alive_, from = id_.address,
                                           id = connection.their_id] {
    if (!*alive) return;
    const auto known = other->connections_.find(id);
    if (known == other->connections_.end() || known->second.other != from) return;
    other->connections_.erase(known);
    other->feed(PeerDown{id, "closed"});
  });
}

void Worker::break_peers() {
  while (!connections_.empty()) {
    const PeerId peer = connections_.begin()->first;
    drop(peer, true);
    feed_soon(PeerDown{peer, "reset"});
  }
}

// ---- the process

void Worker::say(api::channel::FromProcess message) {
  feed_soon(ProcessSaid{0, std::move(message)});
}

void Worker::exit_process(int code, int signal, bool was_told) {
  if (!has_process_) return;
  has_process_ = false;
  *self_ = nullptr;
  place_.training.leave(*this);
  if (code == 0 && !was_told) place_.truth.jobs[job_uid_].succeeded.insert(uid());
  feed_soon(ProcessExited{.local_rank = 0,
                          .exit_code = code,
                          .signal = signal,
                          .was_told = was_told || is_stopping_process_});
}

}  // namespace pawl::sim
