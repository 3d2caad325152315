#include "gang_world.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <numeric>
#include <utility>

namespace pawl::membership::test {

GangWorld::GangWorld(const WorldOptions& wanted) : options(wanted) {
  record.meta.name = "job";
  record.meta.resource_version = std::to_string(version_);
  record.spec.attempt = 1;
  record.spec.target_members = options.launchers;
  record.spec.spares = options.spares;
  record.spec.min_members = options.least > 0 ? options.least : options.launchers - options.spares;
  record.spec.shortage_seconds = options.shortage;
  record.spec.report_seconds = 10;
  record.spec.is_in_place = record.spec.has_successors = options.is_in_place;
  for (int slot = 0; slot < options.launchers; ++slot) add_launcher(slot, true);
}

void GangWorld::add_launcher(int slot, bool is_eligible) {
  const std::size_t index = nodes.size();
  const std::string uid = "uid-" + std::to_string(index);
  const std::string name = "pod-" + std::to_string(index);
  if (is_eligible) record.spec.pods.push_back({slot, name, uid, 0, slot});
  std::vector<std::uint16_t> ports(static_cast<std::size_t>(options.processes));
  std::iota(ports.begin(), ports.end(), std::uint16_t{29500});
  Node node;
  node.address = "10.0.0." + std::to_string(index) + ":1000";
  node.membership =
      std::make_unique<Membership>(Identity{.self = {uid, "start-" + std::to_string(index)},
                                            .pod = name,
                                            .node = "node-" + std::to_string(slot),
                                            .attempt = 1,
                                            .slot = slot,
                                            .runtime = options.runtime,
                                            .processes = options.processes,
                                            .parameter_servers = options.parameter_servers,
                                            .address = node.address,
                                            .fingerprint = "print-" + std::to_string(index),
                                            .ports = ports,
                                            .data_key = "key-" + std::to_string(index),
                                            .has_checkpoints = options.has_checkpoints,
                                            .is_checked_first = options.is_checked_first});
  nodes.push_back(std::move(node));
  for (const Action& action : nodes[index].membership->start(now())) perform(index, action);
}

bool GangWorld::step_one() {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    if (!node.is_alive || node.is_frozen || node.inbox.empty()) continue;
    const Input input = std::move(node.inbox.front());
    node.inbox.pop_front();
    if (node.exit_code) continue;
    for (const Action& action : node.membership->step(input, now())) perform(i, action);
    return true;
  }
  return false;
}

void GangWorld::settle() {
  int turns = 0;
  while (step_one()) {
    if (++turns > 100'000) FAIL("the gang never comes to rest");
  }
}

void GangWorld::pass(std::chrono::milliseconds time) {
  const std::chrono::milliseconds turn{50};
  for (auto left = time; left.count() > 0; left -= turn) {
    clock.advance(turn);
    for (const Held& read : std::exchange(held_reads_, {}))
      act(read.node, ReadRecord{read.read_id});
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!nodes[i].is_frozen) give(i, Tick{});
    }
    settle();
  }
}

void GangWorld::show_record() {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].is_watching && !nodes[i].has_no_api) give(i, RecordSeen{record, 0});
  }
}

void GangWorld::act(std::size_t index, const WriteStatus& write) {
  if (is_api_down || nodes[index].has_no_api)
    return give(index, WriteDone{WriteOutcome::kRefused, "no API"});
  if (write.resource_version != record.meta.resource_version) {
    ++conflicts;
    return give(index, WriteDone{WriteOutcome::kUnclear, "conflict"});
  }
  CHECK(write.after.generation - record.status.generation <= 1);
  CHECK(write.after.term - record.status.term <= 1);
  record.status = write.after;
  record.meta.resource_version = std::to_string(++version_);
  writes.push_back(write.after);
  if (lose_replies > 0) {
    --lose_replies;
    is_api_down = is_down_then;
    give(index, WriteDone{WriteOutcome::kUnclear, "no answer"});
  } else {
    give(index, RecordSeen{record, 0});
    give(index, WriteDone{WriteOutcome::kApplied, ""});
  }
  if (!is_api_down || !is_unseen_then) show_record();
}

void GangWorld::act(std::size_t index, const Dial& dial) {
  break_link(index, kLeaderPeer, "");
  for (std::size_t other = 0; other < nodes.size(); ++other) {
    if (nodes[other].address != dial.address || !nodes[other].is_alive || nodes[other].exit_code)
      continue;
    const PeerId inbound = ++nodes[other].last_peer;
    nodes[index].links[kLeaderPeer] = {other, inbound};
    nodes[other].links[inbound] = {index, kLeaderPeer};
    return give(index, PeerUp{});
  }
  give(index, PeerDown{kLeaderPeer, "connection refused"});
}

// `why` is told to the other side; this side knows.
void GangWorld::break_link(std::size_t index, PeerId peer, const std::string& why) {
  const auto found = nodes[index].links.find(peer);
  if (found == nodes[index].links.end()) return;
  const auto [other, inbound] = found->second;
  nodes[index].links.erase(found);
  nodes[other].links.erase(inbound);
  give(other, PeerDown{inbound, why.empty() ? "closed" : why});
}

void GangWorld::perform(std::size_t index, const Action& action) {
  std::visit([&](const auto& one) { act(index, one); }, action);
}

void GangWorld::act(std::size_t index, const ReadRecord& read) {
  if (is_api_down || nodes[index].has_no_api) {
    held_reads_.push_back({index, read.id});
  } else {
    give(index, RecordSeen{record, read.id});
  }
}

void GangWorld::act(std::size_t index, const WatchRecord& watch) {
  nodes[index].is_watching = watch.is_on;
  if (watch.is_on && !is_api_down && !nodes[index].has_no_api) give(index, RecordSeen{record, 0});
}

void GangWorld::act(std::size_t index, const Send& send) {
  const auto link = nodes[index].links.find(send.peer);
  if (link == nodes[index].links.end()) return;
  // Through the codec, so that every message that is used is also tested on the wire.
  auto message = decode(encode(send.message));
  REQUIRE(message.has_value());
  give(link->second.first, PeerSaid{link->second.second, *message});
}

void GangWorld::act(std::size_t index, const HangUp& hang_up) {
  break_link(index, hang_up.peer, "hung up");
}

void GangWorld::act(std::size_t index, const SelectCheckpoint&) { give(index, stored); }
void GangWorld::act(std::size_t index, const StartProcesses& start) {
  nodes[index].has_processes = true;
  ++nodes[index].starts;
  nodes[index].placement = start.placement;
}

void GangWorld::act(std::size_t index, const ReplaceProcess&) { ++nodes[index].replacements; }
void GangWorld::act(std::size_t index, const KillProcess&) { ++nodes[index].kills; }

void GangWorld::act(std::size_t index, const TellProcess& tell) {
  Node& node = nodes[index];
  if (tell.local_rank == 0) node.told.push_back(tell.message);
  node.was_stopped = node.was_stopped || std::holds_alternative<api::channel::Stop>(tell.message);
}

void GangWorld::act(std::size_t index, const StopProcesses& stop) {
  nodes[index].was_stopped = true;
  nodes[index].stop_grace = stop.grace;
}

void GangWorld::act(std::size_t index, const WriteShard& shard) {
  ShardWritten written = answer_to(shard);
  written.shard.file = "f";
  written.shard.manifest_json = shard.manifest_json;
  if (failing_writes > 0) {
    --failing_writes;
    written.error = "disk full";
  }
  if (are_writes_held) {
    held_writes.emplace_back(index, written);
  } else {
    give(index, written);
  }
}

void GangWorld::act(std::size_t, const DiscardCheckpoint& discard) {
  discarded.push_back(discard.step);
}
void GangWorld::act(std::size_t, const CleanUpCheckpoints& clean_up) {
  cleaned_up.push_back(clean_up.generation);
}

void GangWorld::act(std::size_t index, const PublishCheckpoint& publish) {
  const bool is_failing = failing_publications > 0;
  failing_publications -= is_failing ? 1 : 0;
  if (!is_failing) published.push_back(publish.step);
  give(index,
       PublishDone{
           publish.step, {.step = publish.step, .uri = "uri"}, is_failing ? "disk full" : ""});
}

void GangWorld::act(std::size_t index, const SetReady& ready) {
  nodes[index].is_ready = ready.is_ready;
}

void GangWorld::act(std::size_t index, const WriteTermination& termination) {
  nodes[index].terminations.push_back(termination.failure);
}

void GangWorld::act(std::size_t index, const Note& note) {
  nodes[index].notes.push_back(note.event + ": " + note.text);
}

void GangWorld::act(std::size_t index, const Leave& leave) {
  nodes[index].exit_code = leave.exit_code;
  while (!nodes[index].links.empty())
    break_link(index, nodes[index].links.begin()->first, "closed by the other side");
}

void GangWorld::say(std::size_t index, api::channel::FromProcess message, int local_rank) {
  give(index, ProcessSaid{local_rank, std::move(message)});
  settle();
}

void GangWorld::report(std::int64_t step) {
  say(0,
      api::channel::Report{.step = step, .total_steps = 100, .loss = 2.5, .samples_per_second = 8});
}

void GangWorld::seal_all(std::int64_t step) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    say(i, api::channel::Sealed{
               .buffer = 0, .step = step, .bytes = 8, .manifest_json = i == 0 ? "{}" : ""});
  }
}

api::channel::Hello GangWorld::hello(std::uint16_t port) const {
  return {.data_port = port, .config_hash = "h", .holds_part = options.holds_parts};
}

void GangWorld::hello_all() {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (int local = 0; local < options.processes; ++local) {
      const auto port = static_cast<std::uint16_t>(4000 + 10 * i + static_cast<std::size_t>(local));
      say(i, hello(port), local);
    }
  }
}

void GangWorld::exit_process(std::size_t index, int code, int signal, int local_rank) {
  give(index, ProcessExited{.local_rank = local_rank,
                            .exit_code = code,
                            .signal = signal,
                            .log_tail = "last words of " + std::to_string(index)});
  settle();
}

void GangWorld::obey_stops(int code) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].was_stopped || nodes[i].exit_code || !nodes[i].is_alive) continue;
    nodes[i].was_stopped = false;
    for (int local = 0; local < options.processes; ++local) {
      give(i, ProcessExited{.local_rank = local, .exit_code = code, .was_told = true});
    }
  }
  settle();
}

void GangWorld::kill_launcher(std::size_t index) {
  while (!nodes[index].links.empty())
    break_link(index, nodes[index].links.begin()->first, "connection reset");
  nodes[index].is_alive = false;
  settle();
}

GangWorld GangWorld::training(int launchers, int least) {
  GangWorld world({.launchers = launchers, .least = least});
  world.run_to_training();
  world.report(10);
  world.pass(std::chrono::milliseconds{200});
  return world;
}

const api::channel::Welcome& GangWorld::welcome(std::size_t index) const {
  const auto* found = told<api::channel::Welcome>(index);
  REQUIRE(found != nullptr);
  return *found;
}

void GangWorld::come_up(std::size_t index) { say(index, hello(5000)); }

void GangWorld::park(std::size_t index, std::int64_t step, std::int64_t generation) {
  say(index, api::channel::Parked{.generation = generation, .step = step});
}

std::size_t GangWorld::replace_pod(int slot) {
  add_launcher(slot, false);
  const std::size_t index = nodes.size() - 1;
  edit_spec([&](api::WorkerGroupSpec& spec) {
    for (api::EligiblePod& pod : spec.pods) {
      if (pod.slot != slot) continue;
      pod.n += 1;
      pod.name = "pod-" + std::to_string(index);
      pod.uid = "uid-" + std::to_string(index);
    }
  });
  return index;
}

std::size_t GangWorld::resize(int members) {
  const std::size_t first = nodes.size();
  const auto slots = static_cast<int>(record.spec.pods.size());
  for (int slot = slots; slot < members; ++slot) add_launcher(slot, true);
  edit_spec([&](api::WorkerGroupSpec& spec) {
    spec.target_members = members;
    spec.min_members = options.least > 0 ? options.least : members - spec.spares;
  });
  return first;
}

void GangWorld::cut_link(std::size_t index) {
  break_link(index, kLeaderPeer, "connection reset");
  give(index, PeerDown{kLeaderPeer, "connection reset"});
  settle();
}

void GangWorld::edit_spec(const std::function<void(api::WorkerGroupSpec&)>& edit) {
  edit(record.spec);
  record.meta.resource_version = std::to_string(++version_);
  show_record();
  settle();
}

GangWorld GangWorld::smaller() {
  GangWorld world = training(3, 2);
  world.kill_launcher(2);
  world.park_asked(11, 1);
  world.pass(std::chrono::milliseconds{500});
  REQUIRE(world.status().generation == 2);
  world.report(12);
  world.pass(std::chrono::milliseconds{200});
  return world;
}

void GangWorld::park_asked(std::int64_t step, std::int64_t generation) {
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    bool is_asked = false;
    for (const api::channel::ToProcess& message : nodes[index].told) {
      if (std::holds_alternative<api::channel::Park>(message)) is_asked = true;
      if (std::holds_alternative<api::channel::Welcome>(message)) is_asked = false;
    }
    if (is_asked && nodes[index].is_alive && !nodes[index].is_frozen) park(index, step, generation);
  }
}

bool GangWorld::has_named(const std::string& uid) const {
  const auto& failures = status().failures;
  return std::ranges::find(failures, uid, &api::Failure::pod_uid) != failures.end();
}

std::vector<std::string> GangWorld::members() const {
  std::vector<std::string> uids;
  for (const api::Member& member : status().members) uids.push_back(member.ref.uid);
  return uids;
}

std::size_t GangWorld::leader() const {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (record.status.leader && record.status.leader->address == nodes[i].address) return i;
  FAIL("nobody leads");
  return 0;
}

void GangWorld::run_to_training() {
  settle();
  if (options.runtime == api::RuntimeKind::kNative) hello_all();
  pass(std::chrono::milliseconds{100});
  REQUIRE(record.status.generation == 1);
}

}  // namespace pawl::membership::test
