#include "common/api/codec.h"
#include "common/api/codec_shared.h"
#include "common/api/contract.h"

namespace pawl::api {

using nlohmann::json;

namespace {

WorkerGroupSpec read_group_spec(Fields& fields) {
  WorkerGroupSpec spec;
  fields.read("attempt", spec.attempt);
  fields.read("minMembers", spec.min_members);
  fields.read("stabilizationSeconds", spec.stabilization_seconds);
  fields.read("shortageSeconds", spec.shortage_seconds);
  fields.read("targetMembers", spec.target_members);
  fields.read("spares", spec.spares);
  fields.each("pods", [&](Fields& item) {
    EligiblePod pod;
    item.read("slot", pod.slot);
    item.read("name", pod.name);
    item.read("uid", pod.uid);
    item.read("n", pod.n);
    item.read("order", pod.order);
    item.read("rankOrder", pod.rank_order);
    spec.pods.push_back(std::move(pod));
  });
  fields.read("checkpointNow", spec.checkpoint_now);
  fields.read("stopping", spec.is_stopping);
  std::string success_policy;
  fields.read("successPolicy", success_policy);
  spec.is_rank0_enough = success_policy == "Rank0";
  fields.read("inPlace", spec.is_in_place);
  fields.read("replacePods", spec.has_successors);
  fields.read("podGroup", spec.pod_group);
  fields.read("podHash", spec.pod_hash);
  fields.read("reportSeconds", spec.report_seconds);
  fields.child("before", [&](Fields& child) { read_tally(child, spec.before); });
  return spec;
}

MemberRef read_ref(Fields& fields) {
  MemberRef ref;
  fields.read("uid", ref.uid);
  fields.read("start", ref.start);
  return ref;
}

json write_ref(const MemberRef& ref) { return {{"uid", ref.uid}, {"start", ref.start}}; }

void read_membership(Fields& fields, WorkerGroupStatus& status) {
  fields.child("leader", [&](Fields& child) {
    Leader leader;
    leader.ref = read_ref(child);
    child.read("address", leader.address);
    child.read("fingerprint", leader.fingerprint);
    status.leader = std::move(leader);
  });
  fields.each("members", [&](Fields& item) {
    Member member;
    member.ref = read_ref(item);
    item.read("address", member.address);
    item.read("rank", member.rank);
    item.read("slot", member.slot);
    status.members.push_back(std::move(member));
  });
  fields.child("base", [&](Fields& child) {
    child.read("generation", status.base_generation);
    child.each("members", [&](Fields& item) { status.base_members.push_back(read_ref(item)); });
  });
  fields.each("lineage", [&](Fields& item) {
    LineageEntry entry;
    item.read("attempt", entry.attempt);
    item.read("generation", entry.generation);
    item.read("startStep", entry.start_step);
    status.lineage.push_back(entry);
  });
}

WorkerGroupStatus read_group_status(Fields& fields) {
  WorkerGroupStatus status;
  fields.read("attempt", status.attempt);
  fields.read("term", status.term);
  fields.read("generation", status.generation);
  fields.read("startStep", status.start_step);
  read_membership(fields, status);
  fields.child("progress", [&](Fields& child) { status.progress = read_progress(child); });
  fields.child("checkpoint", [&](Fields& child) { status.checkpoint = read_checkpoint(child); });
  fields.each("failures", [&](Fields& item) { status.failures.push_back(read_failure(item)); });
  fields.child("checkpointFailures", [&](Fields& child) {
    child.read("count", status.checkpoint_failures.count);
    child.read("message", status.checkpoint_failures.message);
    child.read("time", status.checkpoint_failures.time);
  });
  fields.read("checkpointDone", status.checkpoint_done);
  fields.read("finished", status.is_finished);
  read_tally(fields, status.tally);
  return status;
}

}  // namespace

Result<WorkerGroup> decode_worker_group(const json& object) {
  std::optional<Error> error;
  Fields fields(object, "", error);
  WorkerGroup group;
  group.meta = read_meta(fields);
  fields.child("spec", [&](Fields& spec) { group.spec = read_group_spec(spec); });
  fields.child("status", [&](Fields& status) { group.status = read_group_status(status); });
  if (error) return tl::make_unexpected(*error);
  return group;
}

json encode_spec(const WorkerGroupSpec& spec) {
  json pods = json::array();
  for (const EligiblePod& pod : spec.pods) {
    json item = {{"slot", pod.slot}, {"name", pod.name}, {"n", pod.n}, {"order", pod.order}};
    put(item, "uid", pod.uid);
    if (pod.rank_order >= 0) item["rankOrder"] = pod.rank_order;
    pods.push_back(std::move(item));
  }
  json object = {{"attempt", spec.attempt},
                 {"minMembers", spec.min_members},
                 {"stabilizationSeconds", spec.stabilization_seconds},
                 {"shortageSeconds", spec.shortage_seconds},
                 {"targetMembers", spec.target_members},
                 {"spares", spec.spares},
                 {"pods", std::move(pods)},
                 {"checkpointNow", spec.checkpoint_now},
                 {"stopping", spec.is_stopping},
                 {"successPolicy", spec.is_rank0_enough ? "Rank0" : "AllRanks"},
                 {"inPlace", spec.is_in_place},
                 {"replacePods", spec.has_successors},
                 {"podGroup", spec.pod_group},
                 {"podHash", spec.pod_hash},
                 {"reportSeconds", spec.report_seconds}};
  if (spec.before != Tally{}) write_tally(object["before"], spec.before);
  return object;
}

// Counters, flags and lists are written even when they are zero or empty, so that the result used
// as a merge patch also clears what an earlier attempt left.
json encode_status(const WorkerGroupStatus& status) {
  json object = {{"attempt", status.attempt},
                 {"term", status.term},
                 {"generation", status.generation},
                 {"startStep", status.start_step},
                 {"members", json::array()},
                 {"base", {{"generation", status.base_generation}, {"members", json::array()}}},
                 {"lineage", json::array()},
                 {"failures", json::array()},
                 {"checkpointFailures", {{"count", status.checkpoint_failures.count}}},
                 {"checkpointDone", status.checkpoint_done},
                 {"finished", status.is_finished}};
  const std::string& error = status.checkpoint_failures.message;
  put(object["checkpointFailures"], "message", clip_front(error, kMessageBytesMax));
  put(object["checkpointFailures"], "time", status.checkpoint_failures.time);
  if (status.leader) {
    json leader = write_ref(status.leader->ref);
    put(leader, "address", status.leader->address);
    put(leader, "fingerprint", status.leader->fingerprint);
    object["leader"] = std::move(leader);
  }
  for (const Member& member : status.members) {
    json item = write_ref(member.ref);
    put(item, "address", member.address);
    item["rank"] = member.rank;
    item["slot"] = member.slot;
    object["members"].push_back(std::move(item));
  }
  for (const MemberRef& ref : status.base_members)
    object["base"]["members"].push_back(write_ref(ref));
  for (const LineageEntry& entry : status.lineage) {
    object["lineage"].push_back({{"attempt", entry.attempt},
                                 {"generation", entry.generation},
                                 {"startStep", entry.start_step}});
  }
  if (status.progress) object["progress"] = write_progress(*status.progress);
  if (status.checkpoint) object["checkpoint"] = write_checkpoint(*status.checkpoint);
  for (const Failure& failure : status.failures) {
    object["failures"].push_back(encode_failure(failure));
  }
  write_tally(object, status.tally);
  return object;
}

json encode_worker_group(const WorkerGroup& group) {
  return {{"apiVersion", kApiVersion},
          {"kind", "WorkerGroup"},
          {"metadata", write_meta(group.meta)},
          {"spec", encode_spec(group.spec)},
          {"status", encode_status(group.status)}};
}

}  // namespace pawl::api
