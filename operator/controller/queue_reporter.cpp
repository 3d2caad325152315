#include "operator/controller/queue_reporter.h"

#include <algorithm>
#include <utility>

#include "common/api/codec.h"
#include "common/base/json.h"
#include "common/kube/requests.h"

namespace pawl::controller {
namespace {

Result<std::string> version_in(const kube::HttpRequest& request,
                               const Result<kube::HttpResponse>& response) {
  if (!response) return tl::make_unexpected(response.error());
  PAWL_TRY(body, kube::read_response(request, *response));
  PAWL_TRY(meta, api::decode_meta(body));
  return meta.resource_version;
}

}  // namespace

void QueueReporter::receive(const Mail& mail) {
  for (const auto& [name, queue] : mail.queues) {
    if (!queue) {
      const auto gone = reports_.extract(name);
      if (gone && gone.mapped().is_under_way) transport_.cancel(gone.mapped().handle);
      continue;
    }
    Report& report = reports_[name];
    report.seen = queue->status;
    report.resource_version = queue->meta.resource_version;
    changes_.reset();
  }
  for (const auto& [name, result] : mail.queue_answers) {
    const auto report = reports_.find(name);
    if (report == reports_.end()) continue;
    report->second.is_under_way = false;
    if (result) {
      std::string& newest = report->second.resource_version;
      if (newest.empty() || kube::is_at_least(*result, newest)) newest = *result;
      continue;
    }
    if (result.error().code == Code::kConflict) report->second.not_before = {};
    log_.warning("queue_status_not_written",
                 {{"queue", name}, {"message", result.error().message}});
  }
}

std::optional<SteadyPoint> QueueReporter::turn(SteadyPoint now, std::uint64_t changes,
                                               const Statuses& statuses) {
  if (changes_ == changes || reports_.empty()) return std::nullopt;
  if (now < due_) return due_;
  due_ = now + kEvery;
  bool is_all_seen = true;
  for (const auto& [name, status] : statuses()) {
    const auto report = reports_.find(name);
    if (report == reports_.end() || report->second.seen == status) continue;
    is_all_seen = false;
    const bool is_news = report->second.sent != status;
    if (report->second.is_under_way || (!is_news && now < report->second.not_before)) continue;
    report->second.not_before = now + kRetryAfter;
    send(name, report->second, status);
  }
  if (is_all_seen) changes_ = changes;
  return is_all_seen ? std::nullopt : std::optional{due_};
}

void QueueReporter::send(const std::string& name, Report& report,
                         const api::TrainingQueueStatus& status) {
  const nlohmann::json patch = {{"metadata", {{"resourceVersion", report.resource_version}}},
                                {"status", api::encode_status(status)}};
  kube::HttpRequest request =
      kube::merge_patch_request(kube::resources::kTrainingQueues, "", name, patch, "status");
  report.sent = status;
  report.is_under_way = true;
  // The callback may outlive this object: it holds on to the inbox alone.
  auto done = [inbox = inbox_, name, request](const Result<kube::HttpResponse>& response) {
    inbox->post_queue_answer(name, version_in(request, response));
  };
  report.handle = transport_.send(std::move(request), std::move(done));
}

void QueueReporter::cancel() {
  for (auto& [name, report] : reports_) {
    if (std::exchange(report.is_under_way, false)) transport_.cancel(report.handle);
  }
}

}  // namespace pawl::controller
