// Steps of a pass that end an attempt that runs, so that its gang saves first: because its user
// wants it, or because another job needs its room.
#pragma once

#include <optional>
#include <string>

#include "operator/core/pass.h"

namespace pawl::core {

// suspend.cpp. kSuspending: why it does not run while it saves.
inline constexpr char kSuspending[] = "Suspending";
bool is_suspending(const Pass& pass);
void suspend(Pass& pass);
// Asks the gang to save and to leave; nothing if it was asked, or has no record.
void ask_to_stop(Pass& pass);
std::string not_ended(int workers);  // "1 worker has not ended yet"
// Until when a gang saves that ran until Running, or Restarting, turned False for this reason.
std::optional<TimePoint> saving_deadline(const Pass& pass, const char* reason);

// preempt.cpp: it gives its nodes to another job. kPreempting: why it does not run while it saves.
inline constexpr char kPreempting[] = "Preempting";
bool is_preempted(const Pass& pass);
bool has_made_room(const Pass& pass);  // this attempt is the first one since
void make_room(Pass& pass);

}  // namespace pawl::core
