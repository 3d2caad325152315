// What the parts of the membership decision share: who we are, how long things may take, the newest
// record, and the actions and self-addressed messages of the step under way. Owned by Membership.
// Pure.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/membership/action.h"

namespace pawl::membership {

struct Identity {
  api::MemberRef self;  // pod UID and the random id of this launcher process
  std::string pod, node;
  std::int64_t attempt = 0;
  int slot = 0;
  api::RuntimeKind runtime = api::RuntimeKind::kCustom;
  bool is_in_place = false;  // a foreign program that behaves as a Native one
  int processes = 1;
  int parameter_servers = 0;         // members, the last ones (TensorFlow)
  std::string address;               // host:port of our listener
  std::string fingerprint;           // of our certificate
  std::vector<std::uint16_t> ports;  // free here, by local rank, for programs that listen
  std::string
      data_key;  // hex, 32 random bytes: the key of the generation that we commit, if we lead
  bool has_checkpoints = false;
  int checkpoint_seconds = 60;
  bool is_checked_first = false;  // it does not join before NodeChecked
};

struct Timings {
  std::chrono::milliseconds heartbeat{500}, dead{2500};
  std::chrono::milliseconds claim_step{300};  // between the launchers that may claim
  // After the loss of the leader, for it to be heard again; then claim_step for each lower rank.
  std::chrono::milliseconds takeover_wait{500};
  // Without an answer of the API server; then for it to be back for us, too, before a member that
  // reaches it leads; and for that one to claim.
  std::chrono::milliseconds api_away_max{2'000}, ask_api_every{1'000};
  std::chrono::milliseconds api_retry_max{4'000}, stand_max{3'000};
  std::chrono::milliseconds leads_wait{1'000};  // for the leader before to have read who leads
  std::chrono::milliseconds redial_first{100}, redial_max{2000};
  std::chrono::milliseconds check_max{2'000};     // then it joins without NodeChecked
  std::chrono::milliseconds refused_max{30'000};  // how long a leader's refusal is retried
  std::chrono::milliseconds unreachable_max{30'000};
  std::chrono::milliseconds save_grace{20'000};  // from Stop{is_saving} to TERM
  std::chrono::milliseconds kill_grace{5'000};   // from TERM to KILL
  std::chrono::milliseconds goodbye_max{10'000};
  std::chrono::milliseconds culprit_wait{1'000};  // a victim's report may come before the culprit's
  // Without a beat of a process (pulse.h): at least so long, and so many times what is usual in its
  // phase; before that is known, hang_first; hang_data where it reads samples, which storage may
  // hold up for all of them. Stopped by a signal: stopped_max, in every phase.
  std::chrono::milliseconds hang_min{5'000}, hang_data{120'000}, hang_first{600'000};
  std::chrono::milliseconds stopped_max{1'500};
  int hang_factor = 5;
  std::chrono::milliseconds look_max{200};  // of one look at the processes, for their silence
  // Until a process parks. What it computes between two collectives may take long, and killing it
  // costs its state; one that hangs is found by its pulse.
  std::chrono::milliseconds park_max{30'000};
  std::chrono::milliseconds reform_max{120'000};  // then the attempt ends instead
  // Until the record tells of a launcher that is lost, and until a gang that is to stop goes
  // without it. Most are replaced by then.
  std::chrono::milliseconds loss_told_wait{3'000};
  std::chrono::milliseconds next_pod_wait{2'000};    // between two pods that the operator makes
  std::chrono::milliseconds successors_wait{5'000};  // of a leader that has to go, for all of them
  // In which a launcher that lost its connection is back, or reads of a new leader. A gang that may
  // be smaller goes on without it then.
  std::chrono::milliseconds rejoin_wait{250}, rejoin_takeover_wait{1'000};
  // A leader that hears less than half of its gang may be the one that is cut off.
  std::chrono::milliseconds minority_wait{1'000};
  std::chrono::milliseconds ready_wait{1'000};        // for a process that takes another's place
  std::chrono::milliseconds flap_memory{600'000};     // of a node that lost its member
  int reforms_max = 3;                                // without a new confirmed step
  std::chrono::milliseconds change_worth_min{1'000};  // of training left, for another size
  // For a checkpoint before a change (save_first.h), while a member waits to go, and else.
  std::chrono::milliseconds leave_save_max{10'000}, resize_save_max{60'000};
  // Programs that are started again with each generation, and whose steps nobody knows: after so
  // long they may be disturbed for another size, and count as having got somewhere.
  std::chrono::milliseconds foreign_started{10'000}, foreign_proven{60'000};
  // … and they end where the leading launcher is not heard for so long: before others that take
  // their places may run.
  std::chrono::milliseconds foreign_alone{5'000};
  std::chrono::milliseconds progress_every{100};  // reports of a step to the leader
  std::chrono::milliseconds write_retry_first{200}, write_retry_max{5'000};
  // Of a shard, and of a manifest; doubles. Then that step is given up.
  std::chrono::milliseconds save_retry_first{500};
  int save_tries = 4;
};

// By somebody else, or by itself? A program that crashes, or aborts, does so by itself.
bool was_killed(const api::Failure& failure);

class Context {
 public:
  Context(Identity who, Timings how_long) : id(std::move(who)), timings(how_long) {}

  Identity id;
  Timings timings;
  Now now{};
  std::optional<api::WorkerGroup> record;  // the newest seen
  bool is_leaving = false;                 // told to terminate
  // Another framework's here: the generation of the newest, and when they were started. Who takes
  // the lead over may have started none.
  std::int64_t programs_generation = 0;
  SteadyPoint programs_since{};

  std::vector<Action> actions;
  std::deque<Message> to_own_gang;    // our member speaks to the leader in this launcher
  std::deque<Message> to_own_member;  // and it answers

  void act(Action action) { actions.push_back(std::move(action)); }
  void note(std::string event, std::string text, bool is_warning = false) {
    actions.push_back(Note{std::move(event), std::move(text), is_warning});
  }

  // The leader of our attempt, if the record names one.
  const api::Leader* leader() const {
    if (!record || record->status.attempt != id.attempt || !record->status.leader) return nullptr;
    return &*record->status.leader;
  }
  bool is_leader() const { return leader() != nullptr && leader()->ref == id.self; }
  // Its processes learn their place from Welcome, and live through a change with what they hold.
  // Others are started again with each generation, and hold nothing that a gang could go on from.
  bool keeps_processes() const { return id.runtime == api::RuntimeKind::kNative || id.is_in_place; }
  // Such a program serves the others, and never ends by itself.
  bool is_parameter_server(int member_rank, std::size_t members) const {
    return std::cmp_greater_equal(member_rank + id.parameter_servers, members);
  }
  // A higher attempt has a gang, or is asked for.
  bool has_later_gang() const { return record->status.attempt > id.attempt; }
  bool is_superseded() const { return record->spec.attempt > id.attempt; }
  // Our place in the operator's list; null: not (yet) eligible.
  const api::EligiblePod* eligible_pod() const { return find_pod(id.self.uid); }
  // The operator has put another pod into our slot.
  bool is_replaced() const {
    return record && record->spec.attempt == id.attempt && eligible_pod() == nullptr;
  }
  const api::EligiblePod* find_pod(const std::string& uid) const {
    if (!record || record->spec.attempt != id.attempt || uid.empty()) return nullptr;
    for (const api::EligiblePod& pod : record->spec.pods) {
      if (pod.uid == uid) return &pod;
    }
    return nullptr;
  }
};

}  // namespace pawl::membership
