// Why did the gang lose a member, and who began? Reads the current attempt's pods, their
// termination messages and the gang's own report; names one culprit and says whether the loss
// counts against the user's budget. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/api/contract.h"
#include "operator/core/pass.h"

namespace pawl::core {

enum class LossKind {
  kFault,  // the job's own failure: spends maxRestarts
  kRetry,  // the workers asked to be run again (exit 75) and nobody else is to blame: free, but no
           // progress
  kDisruption,  // the cluster or a person took a pod away: free
  kFatal        // exit 93: never restart
};

struct Loss {
  LossKind kind = LossKind::kFault;
  api::Failure failure;
  std::vector<Action> confirms;  // to be read before this is believed
  std::optional<TimePoint>
      wait_until;           // only victims so far: the culprit's report may be under way
  bool is_leaving = false;  // until then the member is on its way out, and its gang may be saving
  std::vector<int> slots;   // of all members that are lost, without those that are leaving
  bool has_fault = false;   // one of them ended by itself, and so does its gang
  std::vector<api::Failure> left;  // who left machines that go, or that are broken
  std::vector<std::string> taken;  // pods whose machines were taken away
};

// Nothing if every member of the attempt is there, or has succeeded.
// `without_leaving`: as if those that have time left to leave were well.
std::optional<Loss> find_loss(const Pass& pass, bool without_leaving = false);

// By a signal, by its launcher too where it hung: another one may do.
bool is_killed(const api::Failure& failure);

// The gang has formed anew without leaving memory since it happened.
bool is_outlived(const Pass& pass, const api::Failure& failure);

// It fell silent, and the gang has gone on without it and not heard of it since.
bool is_left_out(const Pass& pass, const api::Failure& failure);

// The slot of its pod has another pod on record since.
bool has_successor(const Pass& pass, const api::Failure& failure);

// What was written down of a loss of this attempt while the culprit is waited for; null: nothing.
const api::Failure* noted_failure(const Pass& pass);

// "rank 1 (pod a-1-1-0 on node b) ended with exit code 1"
std::string sentence(const api::Failure& failure);

// "rank 1 (pod a-1-1-0 on node b) takes 2.1 times as long as the others"
std::string sentence(const api::Straggler& slow);

// Causes that the operator names itself; the launchers' are in contract.h (Failure.cause).
namespace cause {
inline constexpr const char* kError = api::kCauseError;
inline constexpr const char* kSignal = api::kCauseSignal;
inline constexpr const char* kOutOfMemory = api::kCauseOutOfMemory;
inline constexpr char kEvicted[] = "Evicted";
inline constexpr char kNodeLost[] = "NodeLost";
inline constexpr const char* kVictim = api::kCauseVictim;
inline constexpr const char* kUnknown = api::kCauseUnknown;
inline constexpr char kDeleted[] = "Deleted";  // somebody deleted the pod
// kube-scheduler did, or its gang goes on without it so that another job gets its room.
inline constexpr const char* kPreempted = api::kCausePreempted;
inline constexpr char kNodeRefused[] = "NodeRefused";  // the kubelet did not admit it
// Its machine is taken away: it was told to leave while there was time.
inline constexpr const char* kInterrupted = api::kCauseInterrupted;
// It held up its gang, and was told to leave its node.
inline constexpr const char* kStraggler = api::kCauseStraggler;
// Its gang goes on without it: its processes and another's do not reach each other.
inline constexpr const char* kUnreached = api::kCauseUnreached;
// Its machine's hardware failed, or was found bad before it began.
inline constexpr const char* kGpuFault = api::kCauseGpuFault;
inline constexpr char kRetry[] = "Retry";
inline constexpr char kFatal[] = "Fatal";
// Running, and no new step for too long; with a pod, a process that its launcher found hanging.
inline constexpr const char* kHang = api::kCauseHang;
// Its pod cannot be scheduled on the node that was decided on for it.
inline constexpr char kUnschedulable[] = "Unschedulable";
// The gang did not form in the time that it had for that.
inline constexpr char kStartTimeout[] = "StartTimeout";
// Nodes that an autoscaler was to add did not come in time.
inline constexpr char kNodesTimeout[] = "NodesTimeout";
// spec.replicas changed, or what a pod that is missing would be made from.
inline constexpr char kResized[] = "Resized";
inline constexpr char kRecordLost[] =
    "RecordLost";  // somebody deleted the WorkerGroup, or the job's status

// A node is in quarantine after it, for longer each time (quarantine.cpp).
inline bool is_for_a_while(const std::string& cause) {
  return cause == kGpuFault || cause == kUnreached || cause == kUnschedulable ||
         cause == kStartTimeout;
}
}  // namespace cause

}  // namespace pawl::core
