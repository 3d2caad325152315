#include "cli/run/observer.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <charconv>
#include <deque>
#include <mutex>

#include "cli/local/store_watcher.h"
#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::cli {
namespace {

struct Change {
  std::string type;  // ADDED, MODIFIED, DELETED
  nlohmann::json object;
};

std::int64_t number_label(const api::PodView& pod, const char* label) {
  const auto found = pod.meta.labels.find(label);
  std::int64_t number = 0;
  if (found == pod.meta.labels.end()) return number;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
  return number;
}

std::string event_line(const nlohmann::json& event) {
  const std::string mark = event.value("type", "") == "Warning" ? "! " : "· ";
  return mark + event.value("reason", "") + ": " + event.value("message", event.value("note", ""));
}

}  // namespace

class Observer::Feed {
 public:
  explicit Feed(local::StoreTransport& transport)
      : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (const kube::Resource* resource :
         {&kube::resources::kTrainingJobs, &kube::resources::kWorkerGroups, &kube::resources::kPods,
          &kube::resources::kEvents}) {
      watchers_.push_back(std::make_unique<local::StoreWatcher>(
          transport, *resource, [this](const std::string& type, nlohmann::json object) {
            const std::lock_guard lock{mutex_};
            changes_.push_back({type, std::move(object)});
            const std::uint64_t one = 1;
            static_cast<void>(::write(wake_.get(), &one, sizeof one) == sizeof one);
          }));
    }
  }

  std::deque<Change> take() {
    const std::lock_guard lock{mutex_};
    std::uint64_t count = 0;
    static_cast<void>(::read(wake_.get(), &count, sizeof count) == sizeof count);
    return std::exchange(changes_, {});
  }

  int fd() const { return wake_.get(); }

 private:
  os::Fd wake_;
  std::mutex mutex_;  // guards changes_
  std::deque<Change> changes_;
  std::vector<std::unique_ptr<local::StoreWatcher>> watchers_;  // last: they use the rest
};

Observer::Observer(local::StoreTransport& transport) : feed_(std::make_unique<Feed>(transport)) {}
Observer::~Observer() = default;

int Observer::fd() const { return feed_->fd(); }

std::vector<std::string> Observer::take() {
  std::vector<std::string> lines;
  for (const Change& change : feed_->take()) {
    const std::string kind = change.object.value("kind", "");
    const bool is_gone = change.type == "DELETED";
    if (kind == "Event" && !is_gone) lines.push_back(event_line(change.object));
    if (kind == "TrainingJob") {
      is_job_gone_ = is_gone;
      if (auto job = api::decode_training_job(change.object)) job_ = std::move(*job);
    }
    if (kind == "WorkerGroup" && !is_gone) {
      if (auto group = api::decode_worker_group(change.object)) group_ = std::move(*group);
    }
    if (kind != "Pod") continue;
    const auto pod = api::decode_pod(change.object);
    if (!pod) continue;
    if (is_gone) {
      pods_.erase(pod->meta.uid);
      continue;
    }
    pods_[pod->meta.uid] = {
        pod->meta.name,
        pod->meta.uid,
        number_label(*pod, api::kLabelAttempt),
        static_cast<int>(number_label(*pod, api::kLabelSlot)),
        static_cast<int>(number_label(*pod, api::kLabelIncarnation)),
        pod->phase == api::PodPhase::kSucceeded || pod->phase == api::PodPhase::kFailed};
  }
  return lines;
}

}  // namespace pawl::cli
