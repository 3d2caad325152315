// The launcher's view of its WorkerGroup, and its only writes: reads, watches by name, patches the
// status. Retries what is worth retrying and says the rest. Methods and events on the owner thread;
// the transport's callbacks only post.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/kube/informer.h"
#include "common/kube/transport.h"
#include "launcher/loop/inbox.h"
#include "launcher/membership/action.h"

namespace pawl::launcher {

struct RecordEvents {
  std::function<void(membership::RecordSeen)> on_record;
  std::function<void(const std::string& why)> on_gone;
  std::function<void(membership::WriteDone)> on_written;
  // Still no permission after kForbiddenMax: the role is missing.
  std::function<void(const std::string& why)> on_forbidden;
};

class RecordClient {
 public:
  static constexpr std::chrono::seconds kForbiddenMax{30};

  RecordClient(kube::Transport& transport, const Clock& clock, Log& log,
               std::shared_ptr<Inbox> inbox, std::string ns, std::string name, RecordEvents events);

  // Answered with on_record(read_id = id), however long it takes, unless the record is gone.
  void read(std::uint64_t id);
  void watch(bool is_on);
  void write(const membership::WriteStatus& write);
  // GET of any path: the cluster's public keys. `done` on the owner thread.
  void get_text(const std::string& target, std::function<void(Result<std::string>)> done);
  void on_tick();

 private:
  void send_read();
  void on_read(std::uint64_t id, const Result<kube::HttpResponse>& response,
               const kube::HttpRequest& request);
  void on_write(const Result<kube::HttpResponse>& response, const kube::HttpRequest& request);
  void retry_later(const std::string& why);
  bool is_gone(const Result<kube::HttpResponse>& response);
  void start_informer();

  kube::Transport& transport_;
  const Clock& clock_;
  Log& log_;
  std::shared_ptr<Inbox> inbox_;
  const std::string ns_, name_;
  const RecordEvents events_;
  const SteadyPoint started_;

  std::optional<std::uint64_t> wanted_read_;  // the newest id that is asked for and not answered
  bool is_reading_ = false, is_watching_ = false, was_read_ = false;
  std::chrono::milliseconds backoff_{0};
  SteadyPoint retry_at_{};
  std::optional<SteadyPoint> denied_since_;
  std::unique_ptr<kube::Informer> informer_;
};

}  // namespace pawl::launcher
