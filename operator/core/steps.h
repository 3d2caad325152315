// The steps of plan(), one file a noun. Each reads the Pass and writes the status that is to be,
// and the actions that follow from it; none of them writes anything if the cluster already is as it
// should be. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "operator/core/conditions.h"
#include "operator/core/failures.h"
#include "operator/core/pass.h"

namespace pawl::core {

// attempt.cpp: how an attempt begins.
void start_first(Pass& pass);
void resume(Pass& pass);
struct Restart {
  std::string cause, why;
  bool is_counted = false;
};
void restart(Pass& pass, const Restart& how);
std::string budget_text(const Pass& pass);  // "2 of 6 restarts used"

// rules.cpp: what the user wants done about a loss.
struct Verdict {
  api::RuleAction action = api::RuleAction::kRestart;
  std::string rule;  // its name; "": no rule matched
};
Verdict judge(const Pass& pass, const Loss& loss);
// A gang of this job may outlive the loss of a process or a pod: its strategy says so, and no rule
// has another answer to a signal.
bool is_in_place(const Pass& pass);
// … with what the others hold in memory; else it starts all its programs again in their pods.
bool goes_on_from_memory(const Pass& pass);
// … and its lost pods get successors: no rule has another answer to a disruption, and nobody else
// decides which pods run.
bool has_successors(const Pass& pass);
// False if the node cannot be excluded (not known, excluded already, or too many are).
bool exclude_node(Pass& pass, const api::Failure& failure);

// deadlines.cpp: true if one has passed, and the end was decided. The others get their wake-up.
bool has_missed_deadline(Pass& pass);
std::optional<Loss> find_hang(Pass& pass);

// memory.cpp: after an out-of-memory kill. True if the next attempt runs with less of it. `advice`
// becomes the words for the user.
bool lower_memory(Pass& pass, const api::Failure& failure, std::string& advice);

// restart.cpp: what a loss leads to: wait for the culprit's name, restart, or the end.
void handle_loss(Pass& pass, const Loss& loss);
// When the pods of this attempt may be created, from what the status says of the last failure.
std::optional<TimePoint> creation_time(const Pass& pass);
std::chrono::seconds backoff_after(const api::Failure& failure, int without_progress,
                                   const Policy& policy);
// How long the `times`-th one in a row takes: `first`, twice as long each time, `most` at most.
std::chrono::seconds doubled(std::chrono::seconds first, std::chrono::seconds most,
                             std::ptrdiff_t times);

// Only a job that tells its progress can be seen to make none.
bool tells_progress(const Pass& pass);

// status.reason while a loss is waited for: for the culprit's report, or for another pod.
inline constexpr char kMemberLost[] = "MemberLost";

// replace.cpp: lost members of a gang that can go on from memory get other pods in the same
// attempt.
bool can_replace(const Pass& pass, const Loss& loss);
void replace_members(Pass& pass, const Loss& loss);
bool has_replaced(const Pass& pass);  // in this attempt
// The leader's place was given away long ago, and nobody leads in its stead. Else it wakes the
// pass.
bool is_leaderless(Pass& pass);
inline constexpr char kLeaderless[] =
    "the pod of the leading launcher was replaced, and no other member has taken over";

// resize.cpp: another size.
bool is_resized(const Pass& pass);
void resize(Pass& pass);
// Pods of a gang that has gone on without them: true if the record has yet to say so.
bool frees_places(Pass& pass);

// record.cpp: what an attempt's record begins with.
int spares_of(const Pass& pass);  // beside spec.replicas
int places_of(const Pass& pass);  // with these
api::WorkerGroupSpec group_spec(const Pass& pass);
// With how many members of `spec.target_members` the gang may go on.
void set_range(const Pass& pass, api::WorkerGroupSpec& spec);
// As suits the nodes that its pods are on by now.
void deal_ranks(const Pass& pass, api::WorkerGroupSpec& spec);
std::string pod_hash(const Pass& pass);  // of what a pod would be made from now

// gang.cpp: from a persisted attempt to a complete gang.
void run_gang(Pass& pass);
// "2/4 workers ready; 1 cannot start: …", and the reason in a word.
struct Waiting {
  std::string reason, message;
  std::string obstacle;     // its second half, from the semicolon on
  bool is_blocked = false;  // by something that somebody may have to do something about
};
Waiting waiting_for(const Pass& pass);
// The attempt has pods (or recorded ones), so that another size needs another attempt.
bool has_begun(const Pass& pass);
// A pod that is not made because no node was found for it so far.
bool lacks_seat(const Pass& pass, const api::EligiblePod& place);
// A place whose next pod is not its first had one.
bool has_had_pod(const api::EligiblePod& place);

// budget.cpp
void add_disruption_budget(Pass& pass);  // once an attempt
// Writes the record, and before that how many pods a drain has to leave, where that changes too.
void change_group(Pass& pass, api::WorkerGroupSpec after);
bool is_budget_refused(const Pass& pass);  // without one it runs, too

// The spec cannot work as it and the cluster stand: it says so, and is not tried.
void stall(Pass& pass, const std::string& reason, const std::string& message);
// A spec that cannot be turned into a pod will not be tried; it says so.
bool has_buildable_template(Pass& pass);

// finish.cpp: the two-step end, and what comes after it.
bool has_succeeded(const Pass& pass);
void begin_success(Pass& pass);
void begin_failure(Pass& pass, const std::string& reason, const std::string& message);
void finish(Pass& pass);     // an end was decided: until every pod is terminal
void after_end(Pass& pass);  // terminal is final: late pods go, TTL runs

// tally.cpp: what losses have cost, in a status that is being written.
void take_tally(Pass& pass);
api::Tally tally_of(const api::TrainingJobStatus& status);

// status.cpp
void copy_report(Pass& pass);  // progress and checkpoints from the gang
// What the gang has outlived is told once, and is no reason to do anything.
void tell_outlived(Pass& pass);
// "the gang goes on from step 12, which the others hold in memory"; of a pass with a report.
std::string start_text(const Pass& pass);
void set_condition(Pass& pass, const char* type, const char* status, const std::string& reason,
                   const std::string& message);
// Sets to False if it is there and is not False already.
void clear_condition(Pass& pass, const char* type, const std::string& reason,
                     const std::string& message);
Plan seal(Pass& pass);

}  // namespace pawl::core
