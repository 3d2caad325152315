// A little world for the membership decision: launchers, one record with compare-and-swap,
// connections, processes, storage, virtual time. It performs the actions of the production code and
// nothing else; tests steer it and look at what came of it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/membership/membership.h"

namespace pawl::membership::test {

struct WorldOptions {
  int launchers = 2, processes = 1;
  api::RuntimeKind runtime = api::RuntimeKind::kNative;
  bool has_checkpoints = true;
  bool is_in_place = true;
  int least = 0;   // members without which the gang waits; 0: all
  int spares = 0;  // of the launchers
  int parameter_servers = 0;
  int shortage = 0;  // seconds after which it begins with as many; 0: never
  bool is_checked_first = false;
  bool holds_parts = false;  // of the state, each process one
};

struct Node {
  std::unique_ptr<Membership> membership;
  std::deque<Input> inbox;
  std::string address;
  bool is_alive = true, is_frozen = false, is_ready = false, is_watching = false;
  bool has_no_api = false;  // it alone
  std::optional<int> exit_code;
  std::optional<Placement> placement;
  bool has_processes = false, was_stopped = false;
  int replacements = 0, kills = 0, starts = 0;
  std::chrono::milliseconds stop_grace{0};
  std::vector<api::channel::ToProcess> told;  // to local process 0
  std::vector<api::Failure> terminations;
  std::vector<std::string> notes;
  std::map<PeerId, std::pair<std::size_t, PeerId>> links;  // my peer id → (node, its peer id)
  PeerId last_peer = kLeaderPeer;
};

class GangWorld {
 public:
  explicit GangWorld(const WorldOptions& options);
  static GangWorld training(int launchers = 3, int least = 0);  // at step 10; node 0 leads
  static GangWorld smaller();  // of three, the last is lost, and the others are at step 12

  // Lets everything happen that can, without time passing.
  void settle();
  // In steps of 50 ms, settling in between.
  void pass(std::chrono::milliseconds time);
  void give(std::size_t node, Input input) { nodes[node].inbox.push_back(std::move(input)); }
  // One local process says or does something.
  void say(std::size_t node, api::channel::FromProcess message, int local_rank = 0);
  void hello_all();
  void come_up(std::size_t node);  // a process that has taken another's place says Hello
  void park(std::size_t node, std::int64_t step, std::int64_t generation = 1);
  void park_asked(std::int64_t step, std::int64_t generation);  // whoever was asked to
  void report(std::int64_t step);                               // of 100, by rank 0
  void seal_all(std::int64_t step);                             // on every rank
  void exit_process(std::size_t node, int code, int signal = 0, int local_rank = 0);
  // Exits that follow from being stopped, as real processes would.
  void obey_stops(int code = 75);
  void kill_launcher(std::size_t node);  // connections break, as with kill -9
  void edit_spec(const std::function<void(api::WorkerGroupSpec&)>& edit);
  void add_launcher(int slot, bool is_eligible);
  // The operator makes the gang this large; new pods join at once: the index of the first.
  std::size_t resize(int members);
  // The operator puts a new pod into this slot: its index.
  std::size_t replace_pod(int slot);
  void cut_link(std::size_t node);  // to the leader, once
  void run_to_training();

  const api::WorkerGroupStatus& status() const { return record.status; }
  std::vector<std::string> members() const;      // UIDs, by rank
  bool has_named(const std::string& uid) const;  // the record, with a failure
  const Node& node(std::size_t index) const { return nodes[index]; }
  std::size_t leader() const;
  template <typename T>
  const T* told(std::size_t index) const {  // the newest of this type to local process 0
    const T* found = nullptr;
    for (const auto& message : nodes[index].told) {
      if (const auto* one = std::get_if<T>(&message)) found = one;
    }
    return found;
  }

  const api::channel::Welcome& welcome(std::size_t index) const;  // the newest
  WorldOptions options;
  api::WorkerGroup record;
  std::vector<Node> nodes;
  std::vector<api::WorkerGroupStatus> writes;  // that were applied
  int conflicts = 0;
  int lose_replies = 0;                               // of the next writes that are applied
  bool is_down_then = false, is_unseen_then = false;  // then the API is away; no watch shows it
  bool is_api_down = false;                           // reads wait, writes are refused
  CheckpointSelected stored;                          // what selection finds
  std::vector<std::int64_t> published, discarded;
  std::vector<std::int64_t> cleaned_up;  // for these generations
  int failing_writes = 0;                // of the shards that are written next
  bool are_writes_held = false;          // … whose answers wait in held_writes
  std::vector<std::pair<std::size_t, ShardWritten>> held_writes;
  int failing_publications = 0;
  FakeClock clock;

 private:
  api::channel::Hello hello(std::uint16_t port) const;
  void perform(std::size_t node, const Action& action);
  void act(std::size_t node, const ReadRecord& action);
  void act(std::size_t node, const WatchRecord& action);
  void act(std::size_t node, const WriteStatus& action);
  void act(std::size_t node, const Dial& action);
  void act(std::size_t node, const Send& action);
  void act(std::size_t node, const HangUp& action);
  void act(std::size_t node, const SelectCheckpoint& action);
  void act(std::size_t node, const StartProcesses& action);
  void act(std::size_t node, const ReplaceProcess& action);
  void act(std::size_t node, const KillProcess& action);
  void act(std::size_t node, const TellProcess& action);
  void act(std::size_t node, const StopProcesses& action);
  void act(std::size_t node, const WriteShard& action);
  void act(std::size_t node, const PublishCheckpoint& action);
  void act(std::size_t node, const CleanUpCheckpoints& action);
  void act(std::size_t node, const DiscardCheckpoint& action);
  void act(std::size_t node, const SetReady& action);
  void act(std::size_t node, const WriteTermination& action);
  void act(std::size_t node, const Note& action);
  void act(std::size_t node, const Leave& action);
  void break_link(std::size_t node, PeerId peer, const std::string& why);
  void show_record();
  bool step_one();
  Now now() const { return {clock.steady_now(), clock.now()}; }

  struct Held {
    std::size_t node;
    std::uint64_t read_id;
  };
  std::vector<Held> held_reads_;
  std::int64_t version_ = 100;
};

}  // namespace pawl::membership::test
