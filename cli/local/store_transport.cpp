#include "cli/local/store_transport.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cli/local/api_status.h"

namespace pawl::local {
namespace {

constexpr std::chrono::seconds kWakeEvery{1};

kube::HttpResponse queue_full() {
  StatusError error;
  error.code = 429;
  error.reason = "TooManyRequests";
  error.message = "the embedded API has too many requests waiting";
  kube::HttpResponse response = response_of(error);
  response.retry_after = std::chrono::seconds{1};
  return response;
}

}  // namespace

class StoreTransport::Impl {
 public:
  Impl(const Clock& clock, const StoreTransportOptions& options)
      : clock_(clock),
        options_(options),
        store_(clock, Random{options.seed}, options.store),
        thread_([this] { run(); }) {}

  ~Impl() {
    {
      const std::lock_guard lock{mutex_};
      is_stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  kube::RequestHandle post(kube::HttpRequest request, std::function<void()> on_open,
                           OnBytes on_bytes, Done done) {
    const std::lock_guard lock{mutex_};
    const kube::RequestHandle handle = next_handle_++;
    Call call{handle, std::move(request), std::move(on_open), std::move(on_bytes), std::move(done),
              false};
    call.is_refused = calls_.size() >= options_.queue_max;
    calls_.push_back(std::move(call));
    wake_.notify_one();
    return handle;
  }

  void cancel(kube::RequestHandle handle) {
    const std::lock_guard lock{mutex_};
    cancelled_.push_back(handle);
    wake_.notify_one();
  }

 private:
  struct Call {
    kube::RequestHandle handle = 0;
    kube::HttpRequest request;
    std::function<void()> on_open;
    OnBytes on_bytes;  // set: a stream
    Done done;
    bool is_refused = false;
  };
  struct OpenWatch {
    Watch watch;
    OnBytes on_bytes;
    Done done;
    SteadyPoint end = SteadyPoint::max();
    SteadyPoint next_bookmark = SteadyPoint::max();
  };

  void run() {
    while (true) {
      std::deque<Call> calls;
      std::vector<kube::RequestHandle> cancelled;
      bool is_stopping = false;
      {
        std::unique_lock lock{mutex_};
        // Woken for work; the tick is only for bookmarks and the ends of watches.
        wake_.wait_for(lock, kWakeEvery,
                       [&] { return is_stopping_ || !calls_.empty() || !cancelled_.empty(); });
        calls.swap(calls_);
        cancelled.swap(cancelled_);
        is_stopping = is_stopping_;
      }
      for (const kube::RequestHandle handle : cancelled) end_cancelled(handle, calls);
      if (is_stopping) return end_all(calls);
      for (Call& call : calls) serve(call);
      while (store_.collect_garbage() > 0) {
      }
      feed_watches();
    }
  }

  void serve(Call& call) {
    if (call.is_refused) return call.done(queue_full());
    if (!call.on_bytes || !ApiStore::is_watch(call.request)) {
      return call.done(store_.handle(call.request));
    }
    auto watch = store_.begin_watch(call.request);
    if (!watch) return call.done(response_of(watch.error()));
    OpenWatch open{std::move(*watch), std::move(call.on_bytes), std::move(call.done)};
    const SteadyPoint now = clock_.steady_now();
    if (open.watch.timeout_seconds > 0)
      open.end = now + std::chrono::seconds{open.watch.timeout_seconds};
    if (open.watch.has_bookmarks) open.next_bookmark = now + options_.bookmark_every;
    if (call.on_open) call.on_open();
    watches_.emplace(call.handle, std::move(open));
  }

  void feed_watches() {
    const SteadyPoint now = clock_.steady_now();
    for (auto entry = watches_.begin(); entry != watches_.end();) {
      OpenWatch& open = entry->second;
      const std::string bytes = store_.read_watch(open.watch);
      if (!bytes.empty()) open.on_bytes(bytes);
      if (now >= open.next_bookmark) {
        open.on_bytes(store_.bookmark(open.watch));
        open.next_bookmark = now + options_.bookmark_every;
      }
      if (open.watch.is_over || now >= open.end) {
        const Done done = std::move(open.done);
        entry = watches_.erase(entry);
        done(kube::HttpResponse{200, {}, {}});
      } else {
        ++entry;
      }
    }
  }

  void end_cancelled(kube::RequestHandle handle, std::deque<Call>& calls) {
    const auto gone = fail(Code::kCancelled, "cancelled");
    const auto watch = watches_.find(handle);
    if (watch != watches_.end()) {
      const Done done = std::move(watch->second.done);
      watches_.erase(watch);
      return done(gone);
    }
    for (auto call = calls.begin(); call != calls.end(); ++call) {
      if (call->handle != handle) continue;
      const Done done = std::move(call->done);
      calls.erase(call);
      return done(gone);
    }
  }

  void end_all(std::deque<Call>& calls) {
    for (Call& call : calls) call.done(fail(Code::kCancelled, "the embedded API stops"));
    for (auto& [handle, open] : watches_)
      open.done(fail(Code::kCancelled, "the embedded API stops"));
    watches_.clear();
  }

  const Clock& clock_;
  const StoreTransportOptions options_;
  ApiStore store_;                                    // the thread's
  std::map<kube::RequestHandle, OpenWatch> watches_;  // the thread's
  std::mutex mutex_;                                  // guards what follows
  std::condition_variable wake_;
  std::deque<Call> calls_;
  std::vector<kube::RequestHandle> cancelled_;
  kube::RequestHandle next_handle_ = 1;
  bool is_stopping_ = false;
  std::thread thread_;
};

StoreTransport::StoreTransport(const Clock& clock, const StoreTransportOptions& options)
    : impl_(std::make_unique<Impl>(clock, options)) {}

StoreTransport::~StoreTransport() = default;

kube::RequestHandle StoreTransport::send(kube::HttpRequest request, Done done) {
  return impl_->post(std::move(request), nullptr, nullptr, std::move(done));
}

kube::RequestHandle StoreTransport::stream(kube::HttpRequest request, OnBytes on_bytes, Done done) {
  return impl_->post(std::move(request), nullptr, std::move(on_bytes), std::move(done));
}

kube::RequestHandle StoreTransport::open_stream(kube::HttpRequest request,
                                                std::function<void()> on_open, OnBytes on_bytes,
                                                Done done) {
  return impl_->post(std::move(request), std::move(on_open), std::move(on_bytes), std::move(done));
}

void StoreTransport::cancel(kube::RequestHandle handle) { impl_->cancel(handle); }

}  // namespace pawl::local
