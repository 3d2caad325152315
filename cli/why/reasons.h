// The parts of why.h's answer, each for one kind of cause. For the .cpp files of this folder. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/why/why.h"

namespace pawl::cli::reasons {

// Ends, deletion, suspension and everything else that is decided by the job's own object.
std::optional<Answer> from_lifecycle(const JobSnapshot& snapshot);
// Nobody has acted on the newest spec.
std::optional<Answer> from_operator(const JobSnapshot& snapshot);
// Stalled: the spec cannot work as it stands, or the API server refuses.
std::optional<Answer> from_stall(const JobSnapshot& snapshot);
// Pods that have to end before something can begin.
std::optional<Answer> from_ending_pods(const JobSnapshot& snapshot);
// Pods of the attempt that have not come up.
std::optional<Answer> from_starting_pods(const JobSnapshot& snapshot);

// What to do about a member that ended badly.
std::string advice(const JobSnapshot& snapshot, const api::Failure& failure);

// ---- shared words
std::string kubectl(const JobSnapshot& snapshot, const std::string& words);  // "`kubectl -n ns …`"
std::string pawl(const JobSnapshot& snapshot, const std::string& words);     // "`pawl … -n ns`"
// How a template is corrected, which is frozen while the job is not suspended.
std::string edit_template(const JobSnapshot& snapshot);
const api::Condition* true_condition(const JobSnapshot& snapshot, const char* type);
bool contains(const std::string& text, const char* part);
bool is_terminal(const SeenWorker& worker);
std::vector<const SeenWorker*> current_workers(const JobSnapshot& snapshot);

}  // namespace pawl::cli::reasons
