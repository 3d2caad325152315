// The informers of the controller: TrainingJobs, WorkerGroups, and the pods that carry our label,
// decoded on the reader's thread and posted to the inbox. An object that cannot be decoded is
// logged and left out; it never stops the others. start() and stop() from one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/kube/informer.h"
#include "operator/controller/inbox.h"
#include "operator/controller/signal_table.h"

namespace pawl::controller {

// What the informer of a kind lists and watches.
const kube::Resource& resource_of(Kind kind);

// A change as the informers post it; nothing if the object cannot be decoded (`log` says why).
std::optional<Change> decode_change(Kind kind, const nlohmann::json& object, bool is_gone,
                                    Log& log);

// What the informer of one kind looks at, and how it posts what it sees; `books`: also what pods
// take of their nodes.
kube::InformerOptions informer_options(Kind kind, const std::string& ns);
kube::InformerEvents informer_events(Kind kind, Log& log, std::shared_ptr<Inbox> inbox,
                                     bool books = false);

// Nodes, of which only the signals are kept; those that say nothing cost no memory.
kube::InformerOptions node_informer_options();
kube::InformerEvents node_informer_events(std::shared_ptr<const SignalTable> table,
                                          const Clock& clock, Log& log,
                                          std::shared_ptr<Inbox> inbox);

// Pods that are bound and have not ended, of which only what they take is kept; and what nodes
// have. For whoever decides on nodes. kOthers: where the informer of jobs' pods books too. As a pod
// comes by the one or the other as its label changes, in any order, it has another name in each;
// for a while it may then be counted twice.
enum class Booked { kAll, kOthers };
kube::InformerOptions booking_informer_options(Booked who);
kube::InformerEvents booking_informer_events(Booked who, std::shared_ptr<Inbox> inbox);
kube::InformerEvents host_informer_events(std::shared_ptr<Inbox> inbox);
// In which order they get room, and how much at one time.
kube::InformerOptions class_informer_options();
kube::InformerEvents class_informer_events(std::shared_ptr<Inbox> inbox);
kube::InformerOptions queue_informer_options();
kube::InformerEvents queue_informer_events(Log& log, std::shared_ptr<Inbox> inbox);

// Requests for nodes, of jobs.
kube::InformerOptions node_request_informer_options(const std::string& ns);
kube::InformerEvents node_request_informer_events(std::shared_ptr<Inbox> inbox);

struct WatchOptions {
  std::string ns;                                   // of jobs and their objects; empty: all
  std::shared_ptr<const SignalTable> signals = {};  // null, or without rows: nodes say nothing
  bool has_placement = false;                       // all nodes and pods are looked at
  bool has_node_requests = false;                   // with that
};

class Watches {
 public:
  Watches(kube::Transport& transport, const Clock& clock, Log& log, const WatchOptions& options,
          std::shared_ptr<Inbox> inbox);
  void start();
  void stop();

 private:
  std::vector<std::unique_ptr<kube::Informer>> informers_;
};

}  // namespace pawl::controller
