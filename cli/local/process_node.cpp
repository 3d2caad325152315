#include "cli/local/process_node.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "cli/local/api_objects.h"
#include "cli/local/health_probe.h"
#include "cli/local/node_files.h"
#include "cli/local/pod_logs.h"
#include "cli/local/pod_process.h"
#include "cli/local/pod_setup.h"
#include "cli/local/pod_status.h"
#include "cli/local/store_watcher.h"
#include "common/api/contract.h"
#include "common/base/json.h"
#include "common/kube/requests.h"

namespace pawl::local {
namespace {

using kube::resources::kPods;

constexpr std::chrono::milliseconds kIdleTick{1000};
constexpr std::chrono::milliseconds kFollowTick{200};  // while somebody follows a log
constexpr std::chrono::milliseconds kProbeTimeout{1000};
constexpr std::size_t kTerminationBytesMax = 4096;
constexpr int kExitCannotStart = 128;  // as the container runtimes say it
constexpr int kExitKilled = 128 + SIGKILL;

enum class Step { kNew, kBinding, kStarting, kRunning, kEnded };

struct Pod {
  nlohmann::json object;
  Step step = Step::kNew;
  bool is_terminating = false;  // SIGTERM was sent
  bool is_confirmed = false;    // the final DELETE was sent
  bool is_removed = false;      // the object is gone
  ProcessFacts facts;
  PodPlace place;
  pid_t pid = 0;
  std::string probe_path;  // "": ready when it runs
  std::unique_ptr<HealthProbe> probe;
  SteadyPoint probe_end, next_probe, kill_at = SteadyPoint::max(), next_token;
};

int milliseconds_until(SteadyPoint time, SteadyPoint now) {
  if (time <= now) return 0;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(time - now).count());
}

}  // namespace

class ProcessNode::Impl {
 public:
  Impl(const NodeBase& base, ProcessNodeOptions options)
      : base_(base),
        options_(std::move(options)),
        setup_(base_, options_),
        logs_([this](const std::string& pod_name) { return log_file(pod_name); }),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        watcher_(
            std::make_unique<StoreWatcher>(base.transport, kPods,
                                           [this](const std::string& type, nlohmann::json pod) {
                                             post(type == "DELETED", std::move(pod));
                                           })),
        thread_([this] { run(); }) {
    base_.server.serve_logs(
        [this](const ApiTarget& target, const http::Reply& reply) { logs_.serve(target, reply); });
  }

  ~Impl() {
    base_.server.serve_logs(nullptr);
    watcher_.reset();
    is_stopping_ = true;
    wake();
    thread_.join();
    logs_.feed([](const std::string&) { return true; });
  }

  std::optional<pid_t> pid_of(const std::string& pod_name) const {
    const std::lock_guard lock{mutex_};
    const auto found = pids_.find(pod_name);
    if (found == pids_.end()) return std::nullopt;
    return found->second;
  }

  std::string log_file(const std::string& pod_name) const { return setup_.log_file(pod_name); }
  bool is_able() const { return is_able_; }

 private:
  struct Event {
    bool is_deletion = false;
    nlohmann::json pod;
  };

  // ---- from other threads
  void post(bool is_deletion, nlohmann::json pod) {
    {
      const std::lock_guard lock{mutex_};
      inbox_.push_back({is_deletion, std::move(pod)});
    }
    wake();
  }

  void wake() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof one) ==
                      sizeof one);  // full means it is awake anyway
  }

  // ---- the node's thread
  void run() {
    while (!is_stopping_) {
      wait();
      take_inbox();
      take_keeper_events();
      const SteadyPoint now = base_.clock.steady_now();
      for (auto& [uid, pod] : pods_) {
        go_on_probing(pod, now);
        if (now >= pod.kill_at && pod.step == Step::kRunning) {
          signal(uid, SIGKILL);
          pod.kill_at = SteadyPoint::max();
        }
        renew_tokens(pod, now);
      }
      logs_.feed([this](const std::string& pod_name) { return has_ended(pod_name); });
      std::erase_if(pods_, [](const auto& entry) {
        return entry.second.is_removed && entry.second.step != Step::kRunning &&
               entry.second.step != Step::kStarting;
      });
    }
  }

  void wait() {
    const SteadyPoint now = base_.clock.steady_now();
    std::vector<pollfd> waiting = {{wake_.get(), POLLIN, 0}};
    if (is_able_) waiting.push_back({base_.keeper.event_fd(), POLLIN, 0});
    int timeout = static_cast<int>((logs_.has_followers() ? kFollowTick : kIdleTick).count());
    for (const auto& [uid, pod] : pods_) {
      if (pod.step != Step::kRunning) continue;
      timeout = std::min(timeout, milliseconds_until(pod.kill_at, now));
      if (pod.probe) {
        waiting.push_back({pod.probe->fd(), pod.probe->events(), 0});
        timeout = std::min(timeout, milliseconds_until(pod.probe_end, now));
      } else if (!pod.probe_path.empty()) {
        timeout = std::min(timeout, milliseconds_until(pod.next_probe, now));
      }
    }
    ::poll(waiting.data(), waiting.size(), timeout);
    std::uint64_t count = 0;
    static_cast<void>(::read(wake_.get(), &count, sizeof count) == sizeof count);
  }

  void take_inbox() {
    std::deque<Event> events;
    {
      const std::lock_guard lock{mutex_};
      events.swap(inbox_);
    }
    for (Event& event : events) {
      const std::string uid = meta_text(event.pod, "uid");
      if (event.is_deletion) {
        remove(uid);
        continue;
      }
      const auto [entry, is_new] = pods_.try_emplace(uid);
      if (is_new) entry->second.facts.created = base_.clock.now();
      entry->second.object = std::move(event.pod);
      reconcile(uid, entry->second);
    }
  }

  bool has_ended(const std::string& pod_name) const {
    return std::ranges::none_of(pods_, [&](const auto& entry) {
      return entry.second.step != Step::kEnded &&
             meta_text(entry.second.object, "name") == pod_name;
    });
  }

  // Level-triggered: what the object says now, and how far we are.
  void reconcile(const std::string& uid, Pod& pod) {
    const bool is_bound = !text_of(pod.object.at("spec"), "nodeName").empty();
    if (is_deleting(pod.object)) return terminate(uid, pod);
    if (!is_bound && pod.step == Step::kNew) {
      pod.step = Step::kBinding;
      return send("bind_pod", binding_of(pod.object, options_.node_name));
    }
    if (is_bound && (pod.step == Step::kNew || pod.step == Step::kBinding)) start(uid, pod);
  }

  void start(const std::string& uid, Pod& pod) {
    const auto prepared = prepare(pod);
    Status spawned = prepared ? base_.keeper.spawn(uid, *prepared)
                              : fail(Code::kInvalid, prepared.error().message);
    if (!spawned)
      return end(pod, kExitCannotStart, "CreateContainerConfigError", spawned.error().message);
    pod.step = Step::kStarting;
  }

  Result<ProcessSpec> prepare(Pod& pod) {
    PAWL_TRY(process, setup_.prepare(pod.object, pod.place));
    pod.next_token = base_.clock.steady_now() + kTokenRenewal;
    const auto& container = worker_container(pod.object);
    if (container.contains("readinessProbe") &&
        container.at("readinessProbe").contains("httpGet")) {
      pod.probe_path = container.at("readinessProbe").at("httpGet").value("path", std::string{"/"});
    }
    return process;
  }

  void renew_tokens(Pod& pod, SteadyPoint now) {
    if (pod.step != Step::kRunning || now < pod.next_token) return;
    pod.next_token = now + kTokenRenewal;
    if (const auto written = setup_.write_tokens(pod.object, pod.place); !written) {
      base_.log.warning("tokens_not_renewed", {{"why", written.error().message}});
    }
  }

  void take_keeper_events() {
    while (is_able_) {
      auto event = base_.keeper.receive(std::chrono::milliseconds{0});
      if (!event) return lose_keeper(event.error().message);
      if (!*event) return;
      const auto entry = pods_.find((*event)->id);
      if (entry == pods_.end()) continue;
      Pod& pod = entry->second;
      switch ((*event)->kind) {
        case KeeperEvent::Kind::kStarted:
          started(entry->first, pod, (*event)->pid);
          break;
        case KeeperEvent::Kind::kRefused:
          end(pod, kExitCannotStart, "StartError", (*event)->message);
          break;
        case KeeperEvent::Kind::kExited:
          pod.facts.signal = (*event)->signal;
          end(pod, (*event)->exit_code, "",
              read_tail(termination_log(pod.place), kTerminationBytesMax));
          break;
      }
    }
  }

  void lose_keeper(const std::string& why) {
    is_able_ = false;
    base_.log.error("keeper_lost", {{"why", why}});
    for (auto& [uid, pod] : pods_) {
      if (pod.step == Step::kStarting || pod.step == Step::kRunning) {
        end(pod, kExitKilled, "Error", "the process that keeps all workers has died");
      }
    }
  }

  void started(const std::string& uid, Pod& pod, pid_t pid) {
    pod.step = Step::kRunning;
    pod.pid = pid;
    pod.facts.started = base_.clock.now();
    pod.facts.ready_since = *pod.facts.started;
    pod.facts.is_ready = pod.probe_path.empty();
    pod.next_probe = base_.clock.steady_now() + options_.probe_first;
    {
      const std::lock_guard lock{mutex_};
      pids_[meta_text(pod.object, "name")] = pid;
    }
    report(pod);
    if (pod.is_removed) return signal(uid, SIGKILL);
    if (is_deleting(pod.object)) terminate(uid, pod);
  }

  void end(Pod& pod, int exit_code, const std::string& reason, const std::string& message) {
    pod.step = Step::kEnded;
    pod.probe.reset();
    pod.facts.finished = base_.clock.now();
    pod.facts.ready_since = pod.facts.is_ready ? *pod.facts.finished : pod.facts.ready_since;
    pod.facts.is_ready = false;
    pod.facts.exit_code = exit_code;
    pod.facts.reason = reason;
    pod.facts.message = message;
    setup_.release(pod.place);
    {
      const std::lock_guard lock{mutex_};
      pids_.erase(meta_text(pod.object, "name"));
    }
    report(pod);
    if (is_deleting(pod.object)) confirm_deletion(pod);
  }

  void terminate(const std::string& uid, Pod& pod) {
    if (pod.step == Step::kStarting) return;  // continues in started()
    if (pod.step != Step::kRunning) {
      pod.step = Step::kEnded;
      return confirm_deletion(pod);
    }
    const auto grace =
        std::chrono::seconds{pod.object.at("metadata").value("deletionGracePeriodSeconds", 0)};
    pod.kill_at = std::min(pod.kill_at, base_.clock.steady_now() + grace);
    if (!pod.is_terminating) signal(uid, SIGTERM);
    pod.is_terminating = true;
  }

  // The object went without us: by force, or because we let it go.
  void remove(const std::string& uid) {
    base_.server.dismiss(uid);
    const auto entry = pods_.find(uid);
    if (entry == pods_.end()) return;
    entry->second.is_removed = true;
    if (entry->second.step == Step::kRunning) signal(uid, SIGKILL);
  }

  void confirm_deletion(Pod& pod) {
    if (std::exchange(pod.is_confirmed, true)) return;
    kube::DeleteOptions options;
    options.uid = meta_text(pod.object, "uid");
    options.grace_seconds = 0;
    send("confirm_deletion", kube::delete_request(kPods, meta_text(pod.object, "namespace"),
                                                  meta_text(pod.object, "name"), options));
  }

  void go_on_probing(Pod& pod, SteadyPoint now) {
    if (pod.step != Step::kRunning || pod.probe_path.empty()) return;
    if (!pod.probe) {
      if (now < pod.next_probe) return;
      pod.probe = std::make_unique<HealthProbe>(pod.place.health_port, pod.probe_path);
      pod.probe_end = now + kProbeTimeout;
    }
    std::optional<bool> is_ready = pod.probe->proceed();
    if (!is_ready && now >= pod.probe_end) is_ready = false;
    if (!is_ready) return;
    pod.probe.reset();
    pod.next_probe = now + (*is_ready ? options_.probe_later : options_.probe_first);
    if (*is_ready == pod.facts.is_ready) return;
    pod.facts.is_ready = *is_ready;
    pod.facts.ready_since = base_.clock.now();
    report(pod);
  }

  void signal(const std::string& uid, int number) {
    if (const auto sent = base_.keeper.signal(uid, number); !sent) {
      base_.log.warning("signal_not_sent", {{"pod_uid", uid}, {"why", sent.error().message}});
    }
  }

  void report(const Pod& pod) {
    if (pod.is_removed) return;
    send("pod_status", kube::merge_patch_request(
                           kPods, meta_text(pod.object, "namespace"), meta_text(pod.object, "name"),
                           pod_status_patch(pod.object, pod.facts), "status"));
  }

  // What is refused because the object moved on is seen in its next event; anything else is worth a
  // line.
  void send(const char* what, kube::HttpRequest request) {
    base_.transport.send(
        request, [log = &base_.log, what, request](const Result<kube::HttpResponse>& response) {
          if (!response) return;  // the end of `pawl run`
          const auto answer = kube::read_response(request, *response);
          if (answer || answer.error().code == Code::kNotFound ||
              answer.error().code == Code::kConflict)
            return;
          log->warning("node_request_refused", {{"what", what}, {"why", answer.error().message}});
        });
  }

  const NodeBase base_;
  const ProcessNodeOptions options_;
  std::map<std::string, Pod> pods_;  // by UID; the thread's
  PodSetup setup_;                   // the thread's
  PodLogs logs_;                     // the thread's and the server's
  os::Fd wake_;
  mutable std::mutex mutex_;  // guards inbox_ and pids_
  std::deque<Event> inbox_;
  std::map<std::string, pid_t> pids_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_able_{true};
  std::unique_ptr<StoreWatcher> watcher_;
  std::thread thread_;
};

ProcessNode::ProcessNode(const NodeBase& base, ProcessNodeOptions options)
    : impl_(std::make_unique<Impl>(base, std::move(options))) {}
ProcessNode::~ProcessNode() = default;
std::optional<pid_t> ProcessNode::pid_of(const std::string& pod_name) const {
  return impl_->pid_of(pod_name);
}
std::string ProcessNode::log_file(const std::string& pod_name) const {
  return impl_->log_file(pod_name);
}
bool ProcessNode::is_able() const { return impl_->is_able(); }

}  // namespace pawl::local
