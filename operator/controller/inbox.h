// The only way into the controller: watch readers and the transport's callbacks post here from
// their threads, the one owner thread (or the simulator) takes everything at once. Bounded by
// construction: of an object only the newest change is kept, of a view only how far it has come,
// and answers are as many as requests in flight. Holds the controller's only locks. Bulletin is the
// way out: what the owner thread publishes for health probes and metrics.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "common/api/provisioning.h"
#include "common/api/types.h"
#include "common/base/result.h"
#include "operator/core/plan.h"
#include "operator/placement/ledger.h"

namespace pawl::controller {

enum class Kind { kJob, kGroup, kPod };
inline constexpr std::size_t kKinds = 3;

// Empty: the object is gone.
using Object =
    std::variant<std::monostate, std::shared_ptr<const api::TrainingJob>,
                 std::shared_ptr<const api::WorkerGroup>, std::shared_ptr<const api::PodView>>;

struct Change {
  Kind kind = Kind::kJob;
  std::string ns, name;
  std::string uid;  // of what is gone; may be empty
  Object object;
};

// What a plan needs of the object that the API server answered with.
struct Reply {
  api::ObjectMeta meta;
  std::optional<api::TrainingJobStatus> job_status;  // of a TrainingJob
  // Of a PodDisruptionBudget its minAvailable, of a PodGroup minCount.
  std::optional<int> least = {};
};

// The answer to one request of a plan, already read.
struct Answer {
  std::uint64_t run = 0;
  std::size_t action = 0;
  Result<Reply> result = Reply{};
};

// A PriorityClass: of two gangs that wait the one with the higher value goes first.
struct PriorityClass {
  std::int64_t value = 0;
  bool is_default = false;  // of those that name none
  bool preempts = true;     // preemptionPolicy
  bool operator==(const PriorityClass&) const = default;
};

struct SeenRequest {
  std::string job;  // by its name
  api::NodeRequest request;
};

struct Mail {
  std::vector<Change> changes;           // by kind, namespace, name
  std::array<std::string, kKinds> view;  // how far each view has come: a resourceVersion, or ""
  std::array<bool, kKinds> is_synced{};  // a full list was delivered since the last take()
  std::vector<Answer> answers;
  std::map<std::string, std::optional<core::NodeSignal>> signals;  // by node; nothing: no longer
  bool are_nodes_listed = false;  // … all that was there then, since the last take()
  // Where Pawl decides on nodes: all machines, and what bound pods take, ours by "namespace/name".
  std::map<std::string, std::optional<placement::Host>> hosts;
  std::map<std::string, std::optional<placement::Booking>> bookings;
  std::map<std::string, std::optional<PriorityClass>> classes;      // by name
  std::map<std::string, std::optional<api::TrainingQueue>> queues;  // by name
  bool are_hosts_listed = false, are_bookings_listed = false, are_classes_listed = false,
       are_queues_listed = false;
  // To writes of their status, by name: the resourceVersion by then.
  std::map<std::string, Result<std::string>> queue_answers;
  std::map<std::string, Result<bool>> served;  // by plural: the newest answers to that question
  // ProvisioningRequests of jobs, by "namespace/name".
  std::map<std::string, std::optional<SeenRequest>> node_requests;
  bool are_node_requests_listed = false;
};

class Inbox {
 public:
  void post(Change change);
  void post_view(Kind kind, const std::string& resource_version);
  void post_synced(Kind kind, const std::string& resource_version);
  void post(Answer answer);
  // Of nodes only what the table of signals finds: most say nothing, and are never posted.
  void post_signal(const std::string& node, std::optional<core::NodeSignal> signal);
  void post_nodes_listed();
  void post_host(const std::string& node, std::optional<placement::Host> host);
  void post_hosts_listed();
  void post_booking(const std::string& pod, std::optional<placement::Booking> booking);
  void post_bookings_listed();
  void post_class(const std::string& name, std::optional<PriorityClass> priority);
  void post_classes_listed();
  void post_queue(const std::string& name, std::optional<api::TrainingQueue> queue);
  void post_queues_listed();
  void post_queue_answer(const std::string& name, Result<std::string> result);
  void post_served(const std::string& plural, Result<bool> is_served);
  void post_node_request(const std::string& id, std::optional<SeenRequest> request);
  void post_node_requests_listed();
  void nudge();  // wakes the owner for what is not mail
  void stop();   // wakes the owner for good

  Mail take();
  // Until something is posted, stop() is called, or the time is over. False after stop().
  bool wait(std::chrono::milliseconds time_max);

 private:
  template <typename Note>
  void note(Note&& write);  // into rest_, and wakes the owner
  void wake();
  std::mutex mutex_;
  std::condition_variable posted_;
  bool has_mail_ = false;
  bool is_stopped_ = false;
  std::map<std::tuple<Kind, std::string, std::string>, Change> changes_;
  Mail rest_;
};

class Bulletin {
 public:
  struct News {
    std::string metrics;
    bool is_synced = false;
    std::chrono::nanoseconds turned_at{0};   // of the steady clock
    std::chrono::nanoseconds contact_at{0};  // when every view had last been heard of
  };
  void publish(News news);
  News read() const;

 private:
  mutable std::mutex mutex_;
  News news_;
};

}  // namespace pawl::controller
