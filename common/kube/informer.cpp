#include "common/kube/informer.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/kube/alarm.h"
#include "common/kube/watch_machine.h"

namespace pawl::kube {

// The machine is fed under the lock, whichever thread brings the news; what it asks for is done
// outside it, so that a transport may answer at once. Each step has a number: news for an earlier
// step come too late and are dropped. Shared, because a cancelled request may still report.
class Informer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Transport& transport, const Clock& clock, Log& log, InformerOptions options,
       InformerEvents events)
      : transport_(transport),
        clock_(clock),
        log_(log),
        options_(std::move(options)),
        events_(std::move(events)),
        machine_(options_, events_) {}

  void start() {
    feed(0, [this] { return machine_.start(); });
  }

  void stop() {
    PAWL_CHECK(feeding_ != std::this_thread::get_id(),
               "an informer is not stopped from its own callback");
    RequestHandle handle = 0;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopped_) return;
      is_stopped_ = true;
      handle = handle_;
    }
    if (handle != 0) transport_.cancel(handle);
    alarm_.stop();
  }

 private:
  // Gives the machine news of step number `step`, and does what it wants next.
  template <typename Input>
  void feed(std::uint64_t step, const Input& input) {
    WatchStep next;
    RequestHandle superseded = 0;
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopped_ || step != step_) return;
      feeding_ = std::this_thread::get_id();
      next = input();
      feeding_ = std::thread::id{};
      if (next.kind == WatchStep::Kind::kNone) return;
      superseded = std::exchange(handle_, 0);
      number = ++step_;
    }
    if (superseded != 0) transport_.cancel(superseded);  // harmless when it is what has just ended
    report(next);
    perform(std::move(next), number);
  }

  void perform(WatchStep next, std::uint64_t number) {
    RequestHandle handle = 0;
    switch (next.kind) {
      case WatchStep::Kind::kNone:
        return;
      case WatchStep::Kind::kWait:
        alarm_.arm(next.delay,
                   [this, number] { feed(number, [this] { return machine_.on_wait_over(); }); });
        return;
      case WatchStep::Kind::kSend:
        handle = send(std::move(next.request), number);
        break;
      case WatchStep::Kind::kStream:
        handle = stream(std::move(next.request), number);
        break;
    }
    if (is_stopped_after_keeping(handle, number)) return transport_.cancel(handle);
    if (next.kind == WatchStep::Kind::kSend)
      // While the server works. The next answer waits for it, with its thread: a page takes less
      // time than anybody counts on.
      feed(number, [this] { return machine_.flush(); });
  }

  bool is_stopped_after_keeping(RequestHandle handle, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    if (number == step_) handle_ = handle;
    return is_stopped_;
  }

  RequestHandle send(HttpRequest request, std::uint64_t number) {
    return transport_.send(
        std::move(request), [self = shared_from_this(), number](Result<HttpResponse> answer) {
          self->feed(number, [&] { return self->machine_.on_answer(std::move(answer)); });
        });
  }

  RequestHandle stream(HttpRequest request, std::uint64_t number) {
    const SteadyPoint begin = clock_.steady_now();
    return transport_.stream(
        std::move(request),
        [self = shared_from_this(), number](std::string_view bytes) {
          self->feed(number, [&] { return self->machine_.on_bytes(bytes); });
        },
        [self = shared_from_this(), number, begin](Result<HttpResponse> end) {
          self->feed(number, [&] {
            const auto lived = self->clock_.steady_now() - begin;
            return self->machine_.on_stream_end(
                end, std::chrono::duration_cast<std::chrono::milliseconds>(lived));
          });
        });
  }

  void report(const WatchStep& step) {
    if (step.why.empty()) return;
    log_.warning("watch_interrupted", {{"resource", options_.resource.plural},
                                       {"namespace", options_.ns},
                                       {"why", step.why},
                                       {"retry_ms", step.delay.count()}});
  }

  Transport& transport_;
  const Clock& clock_;
  Log& log_;
  const InformerOptions options_;
  const InformerEvents events_;
  std::mutex mutex_;
  WatchMachine machine_;
  std::uint64_t step_ = 0;
  RequestHandle handle_ = 0;
  bool is_stopped_ = false;
  std::atomic<std::thread::id> feeding_{};
  Alarm alarm_;
};

Informer::Informer(Transport& transport, const Clock& clock, Log& log, InformerOptions options,
                   InformerEvents events)
    : impl_(std::make_shared<Impl>(transport, clock, log, std::move(options), std::move(events))) {}

Informer::~Informer() { stop(); }

void Informer::start() { impl_->start(); }
void Informer::stop() { impl_->stop(); }

}  // namespace pawl::kube
