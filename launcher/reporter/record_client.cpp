#include "launcher/reporter/record_client.h"

#include <algorithm>
#include <utility>

#include "common/kube/requests.h"
#include "launcher/reporter/record_json.h"

namespace pawl::launcher {
namespace {

using membership::RecordSeen;
using membership::WriteDone;
using membership::WriteOutcome;

constexpr std::chrono::milliseconds kRequestTimeout{5000};
constexpr std::chrono::milliseconds kMissingMin{500}, kUnauthorizedMin{10'000};
constexpr std::chrono::milliseconds kBackoffFirst{100}, kBackoffMax{3000};

}  // namespace

RecordClient::RecordClient(kube::Transport& transport, const Clock& clock, Log& log,
                           std::shared_ptr<Inbox> inbox, std::string ns, std::string name,
                           RecordEvents events)
    : transport_(transport),
      clock_(clock),
      log_(log),
      inbox_(std::move(inbox)),
      ns_(std::move(ns)),
      name_(std::move(name)),
      events_(std::move(events)),
      started_(clock.steady_now()) {}

void RecordClient::read(std::uint64_t id) {
  wanted_read_ = std::max(wanted_read_.value_or(0), id);
  if (!is_reading_ && clock_.steady_now() >= retry_at_) send_read();
}

void RecordClient::send_read() {
  is_reading_ = true;
  kube::HttpRequest request = record_request(ns_, name_);
  const std::uint64_t id = *wanted_read_;
  transport_.send(request,
                  [this, inbox = inbox_, id, request](Result<kube::HttpResponse> response) {
                    inbox->post([this, id, request, response = std::move(response)] {
                      on_read(id, response, request);
                    });
                  });
}

// The job is gone (404), or this pod is and the server does not take its token any more (401). An
// API server that is just starting can answer either for a moment, so it must say it for a while.
bool RecordClient::is_gone(const Result<kube::HttpResponse>& response) {
  const bool says_so = response && (response->status == 404 || response->status == 401);
  if (!says_so) {
    denied_since_.reset();
    return false;
  }
  const SteadyPoint now = clock_.steady_now();
  if (!denied_since_) denied_since_ = now;
  return now - *denied_since_ >= (response->status == 404 ? kMissingMin : kUnauthorizedMin);
}

void RecordClient::on_read(std::uint64_t id, const Result<kube::HttpResponse>& response,
                           const kube::HttpRequest& request) {
  is_reading_ = false;
  if (is_gone(response)) {
    wanted_read_.reset();
    return events_.on_gone("the API server answered " + std::to_string(response->status));
  }
  auto group = response ? read_group(request, *response)
                        : Result<api::WorkerGroup>{tl::make_unexpected(response.error())};
  if (!group) {
    const bool is_new = !was_read_ && clock_.steady_now() - started_ > kForbiddenMax;
    if (response && response->status == 403 && is_new)
      return events_.on_forbidden(group.error().message);
    return retry_later(group.error().message);
  }
  was_read_ = true;
  backoff_ = {};
  if (wanted_read_ == id) wanted_read_.reset();
  events_.on_record(RecordSeen{std::move(*group), id});
  if (is_watching_ && !informer_) start_informer();
  if (wanted_read_ && !is_reading_) send_read();
}

void RecordClient::retry_later(const std::string& why) {
  backoff_ = std::clamp(backoff_ * 2, kBackoffFirst, kBackoffMax);
  retry_at_ = clock_.steady_now() + backoff_;
  log_.warning("record_read_failed", {{"error", why}});
}

void RecordClient::on_tick() {
  if (wanted_read_ && !is_reading_ && clock_.steady_now() >= retry_at_) send_read();
}

void RecordClient::watch(bool is_on) {
  is_watching_ = is_on;
  if (!is_on) {
    informer_.reset();
  } else if (!informer_) {
    read(0);  // says at once whether there is a record at all; the watch begins after it
  }
}

void RecordClient::start_informer() {
  kube::InformerOptions options;
  options.resource = kube::resources::kWorkerGroups;
  options.ns = ns_;
  options.field_selector = "metadata.name=" + name_;
  options.can_list = false;
  kube::InformerEvents events;
  events.on_upsert = [this, inbox = inbox_](const nlohmann::json& object) {
    auto group = read_group(object);
    inbox->post([this, group = std::move(group)] {
      if (group) {
        events_.on_record(RecordSeen{*group, 0});
      } else {
        log_.warning("record_unreadable", {{"error", group.error().message}});
      }
    });
  };
  events.on_delete = [this, inbox = inbox_](const nlohmann::json&) {
    inbox->post([this] { events_.on_gone("the WorkerGroup was deleted"); });
  };
  informer_ = std::make_unique<kube::Informer>(transport_, clock_, log_, std::move(options),
                                               std::move(events));
  informer_->start();
}

void RecordClient::write(const membership::WriteStatus& write) {
  kube::HttpRequest request = status_patch(ns_, name_, write);
  transport_.send(request, [this, inbox = inbox_, request](Result<kube::HttpResponse> response) {
    inbox->post([this, request, response = std::move(response)] { on_write(response, request); });
  });
}

void RecordClient::on_write(const Result<kube::HttpResponse>& response,
                            const kube::HttpRequest& request) {
  auto group = response ? read_group(request, *response)
                        : Result<api::WorkerGroup>{tl::make_unexpected(response.error())};
  if (group) {
    // The record first: what is decided next must see its own write.
    events_.on_record(RecordSeen{std::move(*group), 0});
    events_.on_written(WriteDone{WriteOutcome::kApplied, ""});
    return;
  }
  if (response && (response->status == 404 || response->status == 401))
    read(0);  // a read says whether it is gone
  const bool was_answered = response && response->status >= 200 && response->status < 300;
  const Code code = group.error().code;
  const bool is_unclear = was_answered || code == Code::kConflict || code == Code::kOutcomeUnknown;
  events_.on_written(WriteDone{is_unclear ? WriteOutcome::kUnclear : WriteOutcome::kRefused,
                               group.error().message});
}

void RecordClient::get_text(const std::string& target,
                            std::function<void(Result<std::string>)> done) {
  kube::HttpRequest request;
  request.target = target;
  request.timeout = kRequestTimeout;
  transport_.send(
      request, [inbox = inbox_, done = std::move(done)](Result<kube::HttpResponse> response) {
        inbox->post([done, response = std::move(response)] {
          if (!response) return done(tl::make_unexpected(response.error()));
          if (response->status != 200) {
            return done(fail(Code::kUnavailable,
                             "the API server answered " + std::to_string(response->status)));
          }
          done(response->body);
        });
      });
}

}  // namespace pawl::launcher
