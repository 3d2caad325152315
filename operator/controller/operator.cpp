// The thread around ControllerLoop and Elector; the only file of the operator that creates one.
//
// Who leads, in this file:
//  1. A standby keeps its views warm and plans nothing.
//  2. A lease that was given back names the newest versions that the leader before had seen or
//     written: the loop begins when its own views have come that far.
//  3. A lease that ran out, or was ours already, says nothing of the kind: everything is listed
//     anew, as by a fresh process, so that a view that lags cannot mislead the first plans.
//  4. Whoever loses the lead throws loop and views away: what was in flight is cancelled, what was
//     decided is forgotten, and what is left is what a fresh process would have.
#include "operator/controller/operator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "operator/controller/inbox.h"
#include "operator/controller/loop.h"
#include "operator/controller/watches.h"
#include "operator/leader/elector.h"

namespace pawl::controller {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTurnEvery{5'000};  // at least, so that liveness can be seen
constexpr std::chrono::seconds kTurnLate{30};
constexpr std::chrono::minutes kContactLate{10};
constexpr std::chrono::seconds kPublishEvery{1};
constexpr std::chrono::seconds kCatchUpMax{5};  // then everything is listed anew
constexpr milliseconds kDrainMax{900}, kReleaseMax{900};

LoopOptions loop_options(const OperatorOptions& options) {
  LoopOptions loop;
  loop.policy.children = options.children;
  loop.policy.report_seconds = options.report_seconds;
  loop.policy.numbers_every = options.numbers_every;
  loop.is_standby = options.lease.has_value();
  return loop;
}

// "12/34/-": the versions of jobs, groups and pods, as they stand in the lease.
std::string encode_views(const Views& views) {
  std::string text;
  for (const std::string& view : views) {
    text += (text.empty() ? "" : "/") + (view.empty() ? "-" : view);
  }
  return text;
}

// Nothing if this is not what encode_views() writes (another version of this program).
std::optional<Views> decode_views(const std::string& text) {
  Views views;
  std::istringstream in(text);
  for (std::string& view : views) {
    if (!std::getline(in, view, '/') || view.empty()) return std::nullopt;
    if (view == "-") view.clear();
    if (view.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  }
  if (!in.eof()) return std::nullopt;
  return views;
}

}  // namespace

class Operator::Impl {
 public:
  Impl(kube::Transport& transport, const Clock& clock, Random random, Log& log,
       OperatorOptions options)
      : transport_(transport),
        clock_(clock),
        random_(random),
        log_(log),
        options_(std::move(options)) {
    make_loop();
    if (options_.lease) {
      auto& own = options_.lease_transport != nullptr ? *options_.lease_transport : transport;
      elector_.emplace(own, clock, Random{random_.next()}, log, *options_.lease,
                       [inbox = inbox_] { inbox->nudge(); });
    }
  }

  ~Impl() { stop(); }

  void start() {
    publish();
    watches_->start();
    if (elector_) elector_->start();
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    must_stop_ = true;
    inbox_->nudge();
    if (thread_.joinable()) thread_.join();
    watches_->stop();
  }

  Bulletin::News news() const { return bulletin_.read(); }
  bool is_alive() const {
    const auto now = clock_.steady_now().time_since_epoch();
    const Bulletin::News seen = news();
    return now - seen.turned_at < kTurnLate && now - seen.contact_at < kContactLate;
  }

 private:
  void make_loop() {
    auto loop = std::make_unique<ControllerLoop>(transport_, clock_, Random{random_.next()}, log_,
                                                 inbox_, loop_options(options_));
    if (loop_) loop->follow(*loop_);
    loop_ = std::move(loop);
    watches_.emplace(transport_, clock_, log_, options_.ns, inbox_);
  }

  void begin_anew() {
    watches_->stop();
    make_loop();           // cancels what the loop before had in flight
    (void)inbox_->take();  // what the views before have posted
    watches_->start();
  }

  void run() {
    try {
      while (!must_stop_) {
        const SteadyPoint election_due = elect();  // first: it says until when the loop may act
        const SteadyPoint due = loop_->turn().value_or(SteadyPoint::max());
        publish_now_and_then();
        wait_until(std::min(due, election_due), kTurnEvery);
      }
      hand_over();
    } catch (const std::exception& error) {
      log_.error("controller_thread_died", {{"message", error.what()}});
      std::abort();
    }
  }

  void wait_until(SteadyPoint due, milliseconds most) {
    const auto left = due == SteadyPoint::max()
                          ? most
                          : std::chrono::ceil<milliseconds>(due - clock_.steady_now());
    inbox_->wait(std::clamp(left, milliseconds{0}, most));
  }

  // One turn of the election, and what follows from it. When to be called again.
  SteadyPoint elect() {
    if (!elector_) return SteadyPoint::max();
    SteadyPoint due = elector_->turn();
    if (elector_->epoch() != epoch_) {
      epoch_ = elector_->epoch();
      change_role();
    }
    if (!elector_->is_leading()) return due;
    loop_->lead_until(elector_->leads_until());
    if (loop_->is_caught_up()) return due;
    if (clock_.steady_now() >= catch_up_end_) {
      log_.warning("views_lag_behind", {{"wanted", elector_->inherited()}});
      lead_anew();
    }
    return std::min(due, catch_up_end_);
  }

  void change_role() {
    const bool has_led = std::exchange(is_leading_, elector_->is_leading());
    if (!is_leading_) return begin_anew();
    const auto inherited = decode_views(elector_->inherited());
    if (has_led || !inherited) return lead_anew();
    loop_->lead(*inherited);
    catch_up_end_ = clock_.steady_now() + kCatchUpMax;
  }

  void lead_anew() {
    begin_anew();
    loop_->lead({});
    loop_->lead_until(elector_->leads_until());
  }

  // Nothing new leaves; what is on its way is answered or given up; then the lease is free. A
  // successor that does not hear of what was given up lists everything.
  void hand_over() {
    if (!elector_) return;
    loop_->lead_until(SteadyPoint::min());
    const SteadyPoint drained_by = clock_.steady_now() + kDrainMax;
    loop_->turn();
    while (loop_->requests_in_flight() > 0 && clock_.steady_now() < drained_by) {
      wait_until(drained_by, kDrainMax);
      loop_->turn();
    }
    const bool is_drained = loop_->requests_in_flight() == 0;
    if (!is_drained) log_.warning("requests_given_up", {{"count", loop_->requests_in_flight()}});
    const bool knows = is_drained && loop_->is_synced() && loop_->is_caught_up();
    const std::string views = knows ? encode_views(loop_->newest()) : "";
    loop_->cancel_requests();
    elector_->release(views);
    const SteadyPoint released_by = clock_.steady_now() + kReleaseMax;
    SteadyPoint due = elector_->turn();
    while (!elector_->is_released() && clock_.steady_now() < released_by) {
      wait_until(std::min(due, released_by), kReleaseMax);
      (void)inbox_->take();
      due = elector_->turn();
    }
    if (!elector_->is_released()) log_.warning("lease_not_released");
  }

  void publish() {
    has_synced_ = has_synced_ || loop_->is_synced();
    const std::string metrics = loop_->metrics() + (elector_ ? elector_->metrics() : "");
    bulletin_.publish({metrics, has_synced_, clock_.steady_now().time_since_epoch(),
                       loop_->last_contact().time_since_epoch()});
    published_at_ = clock_.steady_now();
    published_epoch_ = epoch_;
  }

  void publish_now_and_then() {
    const bool is_news = (loop_->is_synced() && !has_synced_) || epoch_ != published_epoch_;
    if (is_news || clock_.steady_now() - published_at_ >= kPublishEvery) publish();
  }

  kube::Transport& transport_;
  const Clock& clock_;
  Random random_;
  Log& log_;
  const OperatorOptions options_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  Bulletin bulletin_;
  std::unique_ptr<ControllerLoop> loop_;
  std::optional<Watches> watches_;
  std::optional<leader::Elector> elector_;
  std::uint64_t epoch_ = 0;
  bool is_leading_ = false;
  SteadyPoint catch_up_end_{};
  std::atomic<bool> must_stop_{false};
  std::thread thread_;
  SteadyPoint published_at_{};
  std::uint64_t published_epoch_ = 0;
  bool has_synced_ = false;
};

Operator::Operator(kube::Transport& transport, const Clock& clock, Random random, Log& log,
                   OperatorOptions options)
    : impl_(std::make_unique<Impl>(transport, clock, random, log, std::move(options))) {}
Operator::~Operator() = default;

void Operator::start() { impl_->start(); }
void Operator::stop() { impl_->stop(); }
bool Operator::is_synced() const { return impl_->news().is_synced; }
bool Operator::is_alive() const { return impl_->is_alive(); }
std::string Operator::metrics() const { return impl_->news().metrics; }

}  // namespace pawl::controller
