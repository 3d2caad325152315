// The oracles: what must hold of everything that is written, and of what is there in the end. They
// see every request and every stored change with who made it, and the truth of what happened; the
// operator's own memory they do not see. Numbers: O* of README.md, I* and L* of operator/core's
// SPEC.md; one function each. The first failure ends the run.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/api/types.h"
#include "tests/sim/nodes.h"
#include "tests/sim/people.h"
#include "tests/sim/truth.h"

namespace pawl::sim {

struct Failure {
  std::string oracle, message;
};

bool is_true(const api::TrainingJob& job, const char* condition);

class Oracles final : public ApiObserver {
 public:
  Oracles(Engine& engine, ApiServer& api, const Knobs& knobs, Truth& truth);
  ~Oracles() override { api_.forget(*this); }

  void on_request(Actor actor, const kube::HttpRequest& request) override;
  void on_change(Actor actor, const local::Change& change) override;
  // What an operator's view shows of a record, and that it begins anew. `who` is only compared.
  void see_group(const void* who, const nlohmann::json& group);
  void forget_view(const void* who) { sights_[who].clear(); }
  const std::optional<Failure>& failure() const { return failure_; }
  void fail(const std::string& oracle, const std::string& message);
  std::uint64_t operator_writes() const { return operator_writes_; }
  // A node has said that it goes, or did a moment ago.
  std::function<bool(const std::string& node)> is_announced;

  // In the end (oracles_end.cpp).
  bool is_settled() const;  // every job has come to an end, and nothing more is due
  void check_settled();
  void check_end(const Nodes& nodes, const People& people);
  std::string unsettled() const;
  void i51_ring_leaves_racks_once(const Nodes& nodes);
  void i36_nobody_stays(const Nodes& nodes);  // on a machine that has said for long that it goes
  void i33_leader_can_write(const PeerNet& net);  // which needs the API server
  void i33_cut_pairs_are_parted(const Training& training);
  void i42_slow_one_has_left();  // its node, where a rule moves it
  void check_training(Training& training);

 private:
  struct JobWrite {
    const api::TrainingJob& before;
    const api::TrainingJob& after;
    const JobTruth& truth;
    const AttemptTruth& attempt;  // of the attempt before the write
  };

  struct Standing {  // in line
    std::string queue;
    int priority = 0;
    auto operator<=>(const Standing&) const = default;
  };
  static Standing standing_of(const api::TrainingJob& job);
  static bool has_right_over(const std::set<Standing>& wishes, const Standing& own);

  // oracles.cpp
  void o02_no_second_creation(const kube::HttpRequest& request);
  void o04_writes_are_guarded(Actor actor, const kube::HttpRequest& request);
  void o08_no_hot_loop(const kube::HttpRequest& request);
  void o13_objects_stay_small(const local::Change& change);

  // oracles_job.cpp
  void on_job_written(const local::Change& change);
  void i01_attempt_grows(const JobWrite& write);
  void i06_counters_add_up(const JobWrite& write);
  void o07_restarts_have_causes(const JobWrite& write);
  void i46_start_had_its_time(const JobWrite& write);
  void o07_ends_have_causes(const JobWrite& write);
  void i08_no_victim_is_blamed(const JobWrite& write);
  void i09_success_is_everybodys(const JobWrite& write);
  void i09_ends_when_nothing_runs(const JobWrite& write);
  void i10_terminal_is_final(const JobWrite& write);
  void i15_transitions_are_changes(const JobWrite& write);
  void i19_suspension_is_carried_through(const JobWrite& write);
  void i45_preemption_has_a_reason(const JobWrite& write);
  void i45_preemption_is_carried_through(const JobWrite& write);
  void i45_shrinking_has_a_reason(const JobWrite& write);
  void i20_resume_is_a_new_start(const JobWrite& write);
  void i40_broken_node_is_avoided(const JobWrite& write);
  void i21_report_is_of_this_attempt(const JobWrite& write);
  void o11_conditions_agree(const JobWrite& write);
  void i42_moves_have_reasons(const JobWrite& write);

  // oracles_capacity.cpp
  bool is_capacity_seen(const std::string& uid) const;  // by every operator
  bool is_seen(milliseconds edited) const;              // what was edited then
  void i41_pod_is_where_it_may(const nlohmann::json& pod, const PodFacts& facts);
  void i41_fallback_is_kept(const api::TrainingJob& job, const std::string& which, int preference);
  void i41_spot_is_avoided_for_a_while(const JobWrite& write);
  void i41_loss_is_counted(const std::string& uid, const std::string& pod);

  // oracles_placement.cpp
  void i43_pod_is_placed(const nlohmann::json& pod, const PodFacts& facts);
  void i44_quotas_are_kept(const nlohmann::json& pod, const PodFacts& facts);
  void i52_has_waited(const JobWrite& write);
  void i52_nodes_had_their_time(const JobWrite& write);
  bool has_found_no_node(const nlohmann::json& pod, const PodFacts& facts) const;
  void i53_slices_are_whole(const JobWrite& write);

  // oracles_tally.cpp
  void i38_commits_are_counted(const local::Change& change);
  void i38_recoveries_are_told(const JobWrite& write);
  void i38_what_was_seen_is_told(const JobWrite& write);
  void i39_time_is_accounted(const JobWrite& write);
  void i39_steps_are_productive(const JobWrite& write);

  // oracles_child.cpp
  void on_pod_created(const nlohmann::json& pod);
  void on_pod_deleted(const nlohmann::json& pod);
  void i00_no_children_of_the_dead(const nlohmann::json& pod, const PodFacts& facts);
  void i03_pod_is_on_record(const nlohmann::json& pod, const PodFacts& facts);
  void i04_attempts_do_not_overlap(const nlohmann::json& pod, const PodFacts& facts);
  void i05_backs_off(const nlohmann::json& pod, const PodFacts& facts);
  void i40_pod_avoids_quarantine(const nlohmann::json& pod, const PodFacts& facts);
  void i13_deletes_its_own(const nlohmann::json& pod, const api::TrainingJob* job);
  void i19_leaves_time_to_save(const nlohmann::json& pod, const api::TrainingJob& job);
  void i01_group_follows_status(const local::Change& change);
  void i02_children_before_group(const local::Change& change);
  void i33_places_have_losses(const local::Change& change);
  std::optional<api::Failure> last_words(const api::EligiblePod& place,
                                         const std::string& job_uid) const;
  bool is_leaving(const api::WorkerGroup& group, const std::string& uid) const;
  void i35_gang_is_large_enough(const local::Change& change);
  void i50_gang_is_small_enough(const local::Change& change);
  void i51_ranks_have_their_order(const local::Change& change);
  void i51_deals_with_pods(const local::Change& change);
  bool is_found(const api::WorkerGroup& group) const;
  void i34_members_stay(const api::WorkerGroup& group, const api::EligiblePod& pod);
  void i37_no_victim_is_named(const local::Change& change);
  void i11_ttl_is_over(const nlohmann::json& job);
  void o09_record_moves_forward(const local::Change& change);
  void o09_old_attempts_are_silent(const local::Change& change);
  void o09_old_attempts_leave();

  // oracles_end.cpp
  void o01_jobs_came_to_an_end();
  void o02_foreign_fields_stay(const People& people);
  void o10_nothing_is_left();
  void o11_what_is_over_runs_nothing(const Nodes& nodes);

  std::optional<api::TrainingJob> job_of(const std::string& uid) const;
  bool is_left_to_scheduler(const local::Object& job) const;
  local::Object group_of(const std::string& job_uid) const;
  int active_pods(const std::string& job_uid) const;  // without those that were given up
  // … and without those that the operator before may have made when this one looked already: late
  // writes, without a place in the record, so that they never start the user's program.
  int noticed_pods(const std::string& job_uid) const;
  bool has_given_up_pods(const std::string& job_uid) const;
  bool is_given_up(const nlohmann::json& pod, const std::string& job_uid) const;
  bool is_calm() const { return api_.faults.empty(); }

  Engine& engine_;
  ApiServer& api_;
  const Knobs& knobs_;
  Truth& truth_;
  std::optional<Failure> failure_;
  std::uint64_t operator_writes_ = 0;
  struct Gone {
    milliseconds since{0}, blind{0};
  };
  std::map<std::string, Gone> gone_;                     // jobs that are deleted, by UID
  std::map<std::string, std::set<Standing>> standings_;  // of all that ever had this name
  std::map<std::string, milliseconds> left_out_;  // jobs that are not placed, when last, by UID
  std::map<std::string, Gone> ended_;             // pods that have said why, by UID
  std::map<std::string, int> creations_;          // by request, while calm
  struct Written {
    int count = 0;
    milliseconds last{-3'600'000};
  };
  std::map<std::string, Written> record_writes_;   // by launchers, by UID of the job
  std::map<std::string, int> writes_at_creation_;  // the first, by request
  std::set<std::string> obstructed_;               // jobs that found children of a deleted one
  // UID of the job and name of the pod: its slot had another one on record, whatever became of
  // that.
  std::set<std::pair<std::string, std::string>> replaced_;
  // … that was deleted because no node had come for it in time.
  std::set<std::pair<std::string, std::string>> nodeless_;
  milliseconds minute_{0};
  int requests_this_minute_ = 0;
  std::map<std::string, int> status_writes_;  // of the operator in this minute, by job
  std::size_t checked_publications_ = 0;
  std::map<std::string, int> reformed_;  // by UID of the job
  struct Sight {
    milliseconds since{0};
    api::Tally tally;
  };
  // By operator (also while it is away, with what it may have sent) and UID of the job.
  std::map<const void*, std::map<std::string, std::vector<Sight>>> sights_;
};

bool is_owned_by(const nlohmann::json& object, const std::string& uid);

}  // namespace pawl::sim
