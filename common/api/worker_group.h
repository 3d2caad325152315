// WorkerGroup as a value: the channel between the operator (spec) and the launchers of one gang
// (status). What crds/workergroups.yaml describes, decoded; the JSON codec is in codec.h. Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/api/meta.h"
#include "common/api/report.h"
#include "common/api/tally.h"

namespace pawl::api {

struct EligiblePod {
  int slot = 0;
  std::string name, uid;  // uid is empty between the persisted intent and the creation
  int n = 0;              // incarnation of the slot
  int order = 0;          // who claims first; lowest stands first
  int rank_order = -1;    // its place in the order of ranks; -1: that of its slot
  bool operator==(const EligiblePod&) const = default;
};

struct WorkerGroupSpec {
  std::int64_t attempt = 0;
  // Pods in slots from target_members on leave as soon as the gang goes on without them. With fewer
  // than min_members it waits; 0: target_members.
  int min_members = 0, target_members = 0;
  int spares = 0;  // of target_members: as many wait until one of the others is lost
  int stabilization_seconds = 10;  // for each other, of members that come in one by one
  // Then the first generation begins with min_members or more; 0: it waits for all but spares.
  int shortage_seconds = 0;
  std::vector<EligiblePod> pods;
  std::int64_t checkpoint_now =
      0;  // a counter: each increase asks for one checkpoint, then the gang keeps running
  bool is_stopping = false;      // checkpoint, then leave with kExitDrained (suspend)
  bool is_rank0_enough = false;  // successPolicy: Rank0
  bool is_in_place = false;      // who is lost is replaced, and the others keep their state
  bool has_successors = false;   // replacePods: a lost pod gets another one in its slot
  std::string pod_group;         // in which kube-scheduler places the first pods of an attempt
  std::string pod_hash;          // of what the pods of this attempt were made from
  int report_seconds = 10;
  Tally before;  // what the job had counted when the attempt began
  bool operator==(const WorkerGroupSpec&) const = default;
};

// Ranks have the order of this.
inline int rank_key(const EligiblePod& pod) {
  return pod.rank_order >= 0 ? pod.rank_order : pod.slot;
}

// Those who train at one time; of all its pods any may.
inline int most_members(const WorkerGroupSpec& spec) { return spec.target_members - spec.spares; }

// It may go on without one of its pods.
inline bool may_be_smaller(const WorkerGroupSpec& spec) {
  return spec.min_members > 0 && spec.min_members < spec.target_members;
}

struct MemberRef {
  std::string uid, start;  // start: random id of this launcher process; (uid, start) identifies it
  bool operator==(const MemberRef&) const = default;
};

struct Leader {
  MemberRef ref;
  std::string address;      // "10.0.0.1:41000", of the launcher's TLS listener
  std::string fingerprint;  // SHA-256 of its ephemeral certificate (DER), hex
  bool operator==(const Leader&) const = default;
};

struct Member {
  MemberRef ref;
  std::string address;
  int rank =
      0;  // of the member in the gang (0 … members-1); process ranks follow from processesPerWorker
  int slot = 0;  // of its pod
  bool operator==(const Member&) const = default;
};

struct LineageEntry {
  std::int64_t attempt = 0, generation = 0, start_step = 0;
  bool operator==(const LineageEntry&) const = default;
};

// In a row, since the last checkpoint that could be saved.
struct CheckpointFailures {
  int count = 0;
  std::string message;  // of the last one
  std::optional<TimePoint> time;
  bool operator==(const CheckpointFailures&) const = default;
};

struct WorkerGroupStatus {
  std::int64_t attempt = 0, term = 0, generation = 0;
  std::optional<Leader> leader;
  std::vector<Member> members;
  std::int64_t start_step = 0;
  std::int64_t base_generation = 0;
  std::vector<MemberRef> base_members;
  std::vector<LineageEntry> lineage;  // oldest first, at most 32
  std::optional<Progress> progress;
  std::optional<CheckpointStatus> checkpoint;
  std::vector<Failure> failures;  // at most 16, newest last
  CheckpointFailures checkpoint_failures;
  std::int64_t checkpoint_done = 0;  // the newest checkpointNow that is on storage
  bool is_finished = false;          // all ranks passed the closing barrier of the last step
  Tally tally;                       // of all attempts
  bool operator==(const WorkerGroupStatus&) const = default;
};

struct WorkerGroup {
  ObjectMeta meta;
  WorkerGroupSpec spec;
  WorkerGroupStatus status;
  bool operator==(const WorkerGroup&) const = default;
};

}  // namespace pawl::api
