// The steps of plan() that have to do with machines, as steps.h has the others: which of them go,
// are broken or slow, or may be taken back. Pure.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "operator/core/failures.h"
#include "operator/core/pass.h"

namespace pawl::core {

// interrupt.cpp: machines that go. True if workers were told to leave theirs.
bool leaves_nodes(Pass& pass);
// `left` is what a worker that left said of it.
void avoid_node(Pass& pass, const api::Failure& left);
// Makes room in excludedNodes; false: none of them is there for its machine's end.
bool forget_avoided(Pass& pass);
// Before the next pod of a slot whose pods had to leave one node again and again.
std::chrono::seconds backoff_after_leaving(const Pass& pass, const api::Failure& failure);
std::chrono::seconds backoff_of_node(const Pass& pass, const api::Failure& failure);  // … or failed
const NodeSignal* signal_of(const Pass& pass, const std::string& node);               // null: none
// The node that this pod was told to leave, or that all are to leave; null: none.
const api::ExcludedNode* left_node(const Pass& pass, const std::string& pod,
                                   const std::string& node);

// quarantine.cpp: machines that are broken. `failed` is what a worker said of its.
void quarantine_node(Pass& pass, const api::Failure& failed);
// … of those that say so when their attempt has ended already.
void quarantine_late(Pass& pass);
bool is_in_quarantine(const Pass& pass, const api::Failure& failure);  // its node is, for that
// Before the next pod, where there seems to be no other node.
std::chrono::seconds backoff_in_quarantine(const Pass& pass, const api::Failure& failure);
inline constexpr std::size_t kNodeMessageBytesMax = 512;  // of an excluded node, in the schema

// capacity.cpp: spot machines. What a loss says of them, before it is acted on.
void count_spot_losses(Pass& pass, const Loss& loss);
// The time of avoiding them is over, or nobody asks for them any more.
void return_to_spot(Pass& pass);
int order_of(const api::TrainingJob& job, int slot);  // who claims first: on-demand machines

// seating.cpp: on which nodes the pods of a new attempt go, before there is any. True if that is
// not decided yet: nothing of the attempt is made.
bool waits_for_seats(Pass& pass);
void keep_quota(Pass& pass);                        // for no more workers than the gang is to have
std::set<int> placed_before(const Observed& seen);  // slots of the attempt before; staff.cpp
// Its first pods were made, or are to be, without nodes, and no generation has formed. staff.cpp
bool waits_anywhere(const Observed& seen);
inline constexpr char kWaitingForRoom[] = "WaitingForRoom", kWaitingForQuota[] = "WaitingForQuota";
bool is_left_to_scheduler(const Pass& pass);
bool waits_in_line(const Pass& pass);  // … and nothing of it has run since its start, or resume
// A pod that is not scheduled where it was to go: the whole gang is placed anew, or, where it runs,
// the pod. True if it is.
bool leaves_seats(Pass& pass);
// pod_group.cpp: pods that the scheduler places together. In the attempt that is to begin:
bool joins_pod_group(const Pass& pass);
bool is_in_pod_group(const Pass& pass);  // … as its record says
void drop_pod_group(Pass& pass);         // of the attempt on record, which another one follows
// After the group that it belongs to, where it does.
void create_pod(Pass& pass, const api::WorkerGroupSpec& spec, const api::EligiblePod& place);
std::string placed_by(const Pass& pass);  // for status.placedBy
// provision.cpp: nodes that an autoscaler is asked for. What is to be said of that of a gang that
// waits for room, from a semicolon on; "": nothing.
std::string ask_for_nodes(Pass& pass, const Seating& seating);
// … where its pods ask: after how long without room it has them, later each time that no nodes
// came.
std::chrono::seconds asks_by_pods_after(const api::TrainingJobStatus& status, const Policy& policy);
void wake_to_ask(Pass& pass, const Seating& seating);
void drop_node_requests(Pass& pass);             // that nobody needs any more
std::string consumed_request(const Pass& pass);  // by the first pods of the attempt; "": none
// late_start.cpp: true if its nodes are given back, because it did not begin on them in time.
bool gives_up_start(Pass& pass);
// seating.cpp: true if the gang is to be placed anew as a whole, as it cannot get a lost member
// back.
bool reunites(Pass& pass);
// Of a pod that comes into a gang that has begun: its node, near the others, is not decided yet.
bool waits_for_seat(Pass& pass, const api::EligiblePod& place);

// straggler.cpp: slow workers. True if one was told to leave its node.
bool moves_straggler(Pass& pass);
// The node that this pod was told to leave for that; null: none.
const api::ExcludedNode* moved_from(const Pass& pass, const std::string& pod);

}  // namespace pawl::core
