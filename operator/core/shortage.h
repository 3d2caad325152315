// A gang that has not all its workers (shortage.cpp): with how many it begins, and when it waits no
// longer; spec.elastic. Steps of plan(), as steps.h.
#pragma once

#include "operator/core/pass.h"

namespace pawl::core {

// With fewer it does not begin (spec.elastic.onShortage Shrink), nor go on.
int least_members(const Pass& pass);
// When one that may begin smaller has waited for all of it for long enough; of a job with
// spec.elastic.
TimePoint settles_at(const Pass& pass);
bool has_settled(Pass& pass);  // or wakes up then
// Nothing of it has run since it was started, or resumed.
bool is_first_attempt(const api::TrainingJobStatus& status);
// With how many of its workers it would begin now. One that has run before begins again at once.
int seats_needed(Pass& pass);
// The gang runs, and another pod would not be what the others are.
bool would_differ(const Pass& pass);
void leave_seat(Pass& pass, const api::EligiblePod& place);  // of such a pod
bool restarts_changed(Pass& pass);                           // a gang that waits for such a pod
// It goes on with fewer workers, so that another job gets their room (preempt.cpp). True if some
// were told to leave.
bool gives_room(Pass& pass);
bool gave_room(const Pass& pass, const std::string& pod);  // it was
bool deletes_given_up(Pass& pass);  // pods that it does without, and were told nothing yet

}  // namespace pawl::core
