// The decision of a launcher: one input in, ordered actions out. A pure function of what it was
// told: no I/O, no clock, no randomness; it runs under the simulator as it does in a pod and in
// `pawl run`. launcher.cpp performs the actions on its one owner thread. An attempt's places stay
// the same; its generations follow each other when a process, a launcher or the leader is lost
// (gang_reform.cpp, gang_members.cpp, claim.cpp), and it ends as a whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/membership/claim.h"
#include "launcher/membership/context.h"
#include "launcher/membership/gang.h"
#include "launcher/membership/member.h"
#include "launcher/membership/record_writer.h"

namespace pawl::membership {

class Membership {
 public:
  explicit Membership(Identity identity, Timings timings = {});
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // The first actions, before any input.
  std::vector<Action> start(Now now);
  std::vector<Action> step(const Input& input, Now now);

 private:
  void notice_pause();
  void on(const RecordSeen& seen);
  void on(const RecordGone& gone);
  void on(const WriteDone& done) { writer_.on_done(done); }
  void on(const PeerUp&) { member_.on_peer_up(); }
  void on(const PeerDown& down);
  void on(const PeerSaid& said);
  void on(const ProcessSaid& said) { member_.on_process_said(said); }
  void on(const ProcessExited& exited) { member_.on_process_exited(exited); }
  void on(const CheckpointSelected& selected);
  void on(const ShardWritten& written) { member_.on_shard_written(written); }
  void on(const PublishDone& done);
  void on(const TerminationAsked& asked) { member_.on_termination_asked(asked.interruption); }
  void on(const NodeChecked& checked) { member_.on_node_checked(checked.fault); }
  void on(const NodeFault& fault) { member_.on_node_fault(fault.what); }
  void on(const Tick&);
  void on_leader_said(const Message& message);
  void on_leads(PeerId peer, const api::WorkerGroup& group);
  void settle();
  void take_or_give_up_lead();
  void give_up_lead(const std::string& why);

  Context ctx_;
  RecordWriter writer_;
  Claim claim_;
  Member member_;
  std::unique_ptr<Gang> gang_;
  std::optional<std::uint64_t> asked_read_;  // the leader wants to know whether it goes through
  bool has_left_ = false, is_gone_ = false;
};

// resourceVersions of one object compare as numbers of arbitrary length.
bool is_older(const std::string& resource_version, const std::string& other);

}  // namespace pawl::membership
