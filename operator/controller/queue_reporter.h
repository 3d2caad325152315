// Writes what a TrainingQueue is used for into its status: now and then, only what has changed,
// and never instead of what jobs need. A write that is lost is made again, as long as what is seen
// differs from what it should be. Owner thread of the controller only; answers come by the inbox.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/api/training_queue.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/kube/transport.h"
#include "operator/controller/inbox.h"

namespace pawl::controller {

class QueueReporter {
 public:
  static constexpr std::chrono::seconds kEvery{5}, kRetryAfter{30};

  QueueReporter(kube::Transport& transport, Log& log, std::shared_ptr<Inbox> inbox)
      : transport_(transport), log_(log), inbox_(std::move(inbox)) {}
  ~QueueReporter() { cancel(); }
  QueueReporter(const QueueReporter&) = delete;
  QueueReporter& operator=(const QueueReporter&) = delete;

  void receive(const Mail& mail);
  // `changes`: of the same number nothing has changed; `statuses` says what they are by now. When
  // to call again; nothing: when something has changed.
  using Statuses = std::function<std::map<std::string, api::TrainingQueueStatus>()>;
  std::optional<SteadyPoint> turn(SteadyPoint now, std::uint64_t changes, const Statuses& statuses);
  void cancel();

 private:
  struct Report {
    api::TrainingQueueStatus seen;
    std::string resource_version;
    std::optional<api::TrainingQueueStatus> sent;
    kube::RequestHandle handle = 0;
    bool is_under_way = false;
    SteadyPoint not_before{};
  };
  void send(const std::string& name, Report& report, const api::TrainingQueueStatus& status);

  kube::Transport& transport_;
  Log& log_;
  const std::shared_ptr<Inbox> inbox_;
  std::map<std::string, Report> reports_;  // by queue
  std::optional<std::uint64_t> changes_;   // that were reported
  SteadyPoint due_{};
};

}  // namespace pawl::controller
