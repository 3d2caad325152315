#include "launcher/gpu/gpu_watch.h"

#include <utility>

#include "launcher/gpu/xid.h"

namespace pawl::launcher::gpu {

GpuWatch::GpuWatch(std::unique_ptr<Nvml> nvml, GpuWatchOptions options, Log& log,
                   GpuWatchEvents events)
    : nvml_(std::move(nvml)),
      options_(std::move(options)),
      log_(log),
      events_(std::move(events)),
      thread_([this] { run(); }) {}

GpuWatch::~GpuWatch() {
  {
    const std::lock_guard lock(mutex_);
    must_stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void GpuWatch::look(std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(std::move(done));
  }
  changed_.notify_all();
}

bool GpuWatch::must_stop() {
  const std::lock_guard lock(mutex_);
  return must_stop_;
}

void GpuWatch::run() {
  check();
  while (!must_stop()) turn();
}

// GPUs that the container was given are its worker's; where nobody gave it any, a driver that does
// not answer is no matter of the worker.
void GpuWatch::check() {
  const Status started = nvml_->start(options_.uuids);
  is_started_ = started.has_value();
  if (!started) {
    log_.warning("gpus_not_watched", {{"why", started.error().message}});
    return events_.on_checked(options_.uuids.empty() ? "" : started.error().message);
  }
  states_ = nvml_->look();
  looked_at_ = std::chrono::steady_clock::now();
  const std::string fault = unfit(states_, options_.uuids).value_or("");
  log_.info("gpus_watched", {{"count", states_.size()}});
  if (!fault.empty()) log_.warning("gpu_unfit", {{"what", fault}});
  events_.on_checked(fault);
}

// An event, if there is one; and a look, if it is time for one or somebody asks.
void GpuWatch::turn() {
  std::vector<std::function<void()>> asked;
  if (!is_started_) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return must_stop_ || !asked_.empty(); });
    asked.swap(asked_);
  } else {
    {  // first: what had happened when somebody asked is told before the answer
      const std::lock_guard lock(mutex_);
      asked.swap(asked_);
    }
    const auto wait = asked.empty() ? options_.wait : std::chrono::milliseconds{0};
    constexpr int kEventsMax = 32;  // an unceasing stream must not hold up the rest
    for (int i = 0; i < kEventsMax; ++i) {
      const auto event = nvml_->wait(static_cast<int>(wait.count()));
      if (!event) break;
      take(*event);
    }
  }
  const bool is_due =
      !asked.empty() || std::chrono::steady_clock::now() - looked_at_ >= options_.look_every;
  if (is_due && is_started_) compare();
  for (const auto& done : asked) done();
}

void GpuWatch::take(const GpuEvent& event) {
  if (event.type == nvml::kEventDoubleBitEcc) {
    constexpr std::uint64_t kXidDoubleBit = 48;
    return fail(xid_text(event.gpu, kXidDoubleBit));
  }
  if (event.type != nvml::kEventXid) return;
  const std::string text = xid_text(event.gpu, event.xid);
  switch (meaning_of(event.xid).kind) {
    case XidKind::kFault:
      return fail(text);
    case XidKind::kWear:
      return log_.warning("gpu_warning", {{"what", text}});
    case XidKind::kProgram:
      log_.warning("gpu_program_error", {{"what", text}});
      return events_.on_program_error(text);
  }
}

void GpuWatch::compare() {
  std::vector<GpuState> states = nvml_->look();
  looked_at_ = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < states.size() && i < states_.size(); ++i) {
    for (const std::string& line : warnings_between(states_[i], states[i]))
      log_.warning("gpu_warning", {{"what", line}});
    if (const auto what = fault_between(states_[i], states[i])) fail(*what);
  }
  states_ = std::move(states);
}

// One is enough; what else it says is told all the same.
void GpuWatch::fail(const std::string& what) {
  log_.error("gpu_fault", {{"what", what}});
  if (std::exchange(has_failed_, true)) return;
  events_.on_fault(what);
}

}  // namespace pawl::launcher::gpu
