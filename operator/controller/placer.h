// The one place that gives room away: what is free (operator/placement), what is kept for which
// job, and who waits (operator/admission). What is given is booked before the next job is looked
// at, so that no room is given twice. Owner thread of the controller only; the simulator's too.
//
//  1. A job's view says what its status keeps: hold(), before anything is decided on that view; of
//     all jobs before the first decision of all.
//  2. Who needs nodes asks. When all that is due was looked at, decide() goes through the line of
//     those that have asked; each job takes its answer when it is looked at again.
//  3. Nodes that were given stay booked until the next hold() of this job after it has taken them:
//     not before their write is in its view, or failed.
//  4. Who got none stays in line, and is tried again when something has become free.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/admission/line.h"
#include "operator/controller/cache.h"
#include "operator/controller/flavors.h"
#include "operator/controller/placer_books.h"
#include "operator/controller/preemptor.h"
#include "operator/core/plan.h"
#include "operator/placement/levels.h"

namespace pawl::controller {

class Placer {
 public:
  using Answer = SeatingAnswer;

  Placer(const placement::Levels& levels, admission::Patience patience, core::Policy policy,
         Flavors flavors = {});

  void receive(Mail& mail);
  bool is_listed() const;

  // Why somebody else decides on the job's nodes: half a sentence; "": Pawl does.
  static std::string left_out(const api::TrainingJob& job);
  // For its status: "Pawl", or who else and why.
  static std::string placed_by(const api::TrainingJob& job, const std::string& left_out);
  // What the job asks for and nobody here does, as `why` says: a sentence, or "".
  static std::string defect_of(const api::TrainingJob& job, const std::string& why);
  // When to look again, whatever is seen.
  std::optional<TimePoint> hold(const JobKey& key, const core::Observed& seen, TimePoint now);
  // Of a job that is gone: so many pods of it are not on their way out; `is_ending`: others are.
  void release(const JobKey& key, int pods, bool is_ending);
  // Nodes are written, without pods yet: one takes them no more, or others were asked for.
  bool is_void(const JobKey& key, const core::Observed& seen, TimePoint now);
  // What the plan wants: nodes for the whole gang, or for pods that come into one that has begun.
  void ask(const JobKey& key, const core::Observed& seen, const core::Plan& plan, TimePoint now);
  // Asks no more: what it was given, and has not taken, is free.
  void leave(const JobKey& key);
  // Nothing: it has to ask first, or to wait for decide().
  std::optional<Answer> take_answer(const JobKey& key, const api::TrainingJob& job);
  // Why it got nothing the last time, for as long as it asks; null: it was not told.
  const core::Seating* last_refusal(const JobKey& key) const;
  // What is used of each queue: the same as long as the number of changes is.
  std::map<std::string, api::TrainingQueueStatus> queue_statuses() const;
  std::uint64_t queue_changes() const { return quotas_.changes() + line_.changes(); }
  // Whether it has to leave its nodes for another job, or some of them.
  void tell_order(const JobKey& key, core::Seating& seating) const;
  // Slots in the order of ranks, where a pod is about to come in; nothing: as before.
  std::vector<int> rank_order(const core::Observed& seen);
  // When to decide again, whoever asks.
  std::optional<TimePoint> next_search() const;
  // Who is to be looked at again: it has an answer, or has to ask anew.
  std::vector<JobKey> decide(TimePoint now);
  // Somebody adds nodes for who waits: then nobody is told that there will never be enough.
  void expect_nodes(bool are_expected);

 private:
  using Held = HeldRoom;
  using Asked = AskedRoom;
  void promise(const JobKey& key, const std::vector<core::HeldSeat>& seats, Held& held);
  void learn(const api::TrainingJob& job, Held& held) const;  // requests and priority
  void note_occupant(const JobKey& key, const core::Observed& seen, const Held& held,
                     TimePoint now);
  static void want_all(const core::Plan& plan, int kept, admission::Gang& gang);
  static void want_more(const core::Observed& seen, const Asked& asked,
                        const std::set<int>& charged, admission::Gang& gang);
  void give_room(TimePoint now, std::vector<JobKey>& keys);
  void note_booked(const admission::Gang& gang, int units, TimePoint now);
  void let_go(const JobKey& key);
  std::optional<TimePoint> charge(const JobKey& key, const core::Observed& seen, Held& held,
                                  TimePoint now);
  void charge(const JobKey& key, const Held& held);
  Result<nlohmann::json> pod_of(const api::TrainingJob& job, TimePoint now) const;
  Result<admission::Gang> gang_of(const JobKey& key, const api::TrainingJob& job, bool is_underway,
                                  TimePoint now) const;
  const PriorityClass* class_of(const api::TrainingJob& job, const nlohmann::json& pod) const;
  bool preempts(const api::TrainingJob& job, const nlohmann::json& pod) const;
  Result<std::int64_t> priority_of(const api::TrainingJob& job, const nlohmann::json& pod) const;
  // `field` of spec.scheduling names it; 0: it is "".
  Result<int> depth_of(const std::string& field, const std::string& level) const;
  Result<placement::Slices> slices_of(const api::TrainingJob& job) const;
  bool want_slice(const core::Observed& seen, Asked& asked, admission::Gang& gang);
  bool fits_elsewhere(const admission::Gang& gang, const Asked& asked);
  std::string slices_text(const placement::Ask& ask) const;
  Status check_queue(const admission::Gang& gang) const;
  void rename_charges(const std::string& queue);
  placement::Resources charged_each(const Held& held) const;
  void book(const admission::Gang& gang, const placement::Placement& placed, TimePoint now);
  std::string shortage_text(const admission::Gang& gang, const admission::Verdict& verdict) const;
  Answer refusal(const admission::Verdict& verdict, Asked& asked, TimePoint now);
  bool may_be_anywhere(const admission::Gang& gang, const Asked& refused, TimePoint now);
  void book_anywhere(const admission::Gang& gang, TimePoint now);
  void note_anywhere(const JobKey& key, bool is_anywhere);
  void offer(const admission::Gang& gang, const std::vector<api::PlacedPod>& pods);
  bool lacks_nodes(const admission::Gang& gang, const admission::Verdict& verdict) const;
  std::string hopeless_text(const admission::Gang& gang, int least);
  bool is_hopeless(const JobKey& key, const admission::Gang& gang, int least);
  void refuse(const JobKey& key, Asked& asked, core::Seating seating);
  void review_hopeless(std::vector<JobKey>& keys);
  std::string kept_text(const admission::Reservation& kept, int units, TimePoint now);
  std::string nearness(const admission::Gang& gang);
  std::string leaving_text(const std::string& id) const;
  std::string obstacle(const admission::Gang& gang, const admission::Verdict& verdict,
                       TimePoint now);
  api::PlacementStatus status_of(const placement::Placement& placed, std::int64_t attempt);

  const placement::Levels levels_;
  const core::Policy policy_;
  const Flavors flavors_;
  placement::Ledger ledger_;
  admission::Quotas quotas_;
  admission::Line line_;
  Preemptor preemptor_;
  std::map<JobKey, Held> held_;
  std::map<JobKey, Asked> asked_;
  std::set<JobKey> anywhere_;     // they wait for nodes that nobody has decided on
  std::vector<JobKey> answered_;  // outside of decide()
  std::map<std::string, PriorityClass> classes_;
  std::map<std::string, api::TrainingQueue> queues_;
  bool are_hosts_listed_ = false, are_bookings_listed_ = false;
  bool are_classes_listed_ = false, are_queues_listed_ = false;
  bool is_freed_ = false, has_new_rules_ = false;  // classes, or queues
  bool is_restored_ = false;                       // for whom others leave already
  bool are_nodes_expected_ = false;
  std::map<JobKey, Hopeless> hopeless_;
  std::uint64_t reviewed_ = 0;  // changes of what nodes have
};

}  // namespace pawl::controller
