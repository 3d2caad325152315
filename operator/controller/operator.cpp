// The thread around ControllerLoop and Elector; the only file of the operator that creates one. A
// standby keeps its views warm and plans nothing; role.h says what follows when the lead changes.
#include "operator/controller/operator.h"

#include <malloc.h>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "operator/controller/inbox.h"
#include "operator/controller/loop.h"
#include "operator/controller/role.h"
#include "operator/controller/watches.h"
#include "operator/leader/elector.h"

namespace pawl::controller {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTurnEvery{5'000};  // at least, so that liveness can be seen
constexpr std::chrono::seconds kTurnLate{30};
constexpr std::chrono::minutes kContactLate{10};
constexpr std::chrono::seconds kPublishEvery{1};
constexpr milliseconds kDrainMax{900}, kReleaseMax{900};

LoopOptions loop_options(const OperatorOptions& options) {
  LoopOptions loop;
  loop.policy.children = options.children;
  loop.policy.asks_by_pods = options.asks_by_pods && options.placement.has_value();
  loop.policy.report_seconds = options.report_seconds;
  loop.policy.numbers_every = options.numbers_every;
  loop.is_standby = options.lease.has_value();
  loop.placement = options.placement;
  loop.patience = options.patience;
  loop.flavors = options.flavors;
  loop.wants_pod_groups = options.wants_pod_groups;
  return loop;
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
    const WatchOptions watched{options_.ns, options_.signals, options_.placement.has_value(),
                               !options_.children.provisioning_class.empty()};
    watches_.emplace(transport_, clock_, log_, watched, inbox_);
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
    const SteadyPoint due = elector_->turn();
    const Role::Step step =
        role_.next(elector_->epoch(), elector_->is_leading(), elector_->inherited(),
                   loop_->is_caught_up(), clock_.steady_now());
    if (step == Role::Step::kFollow || step == Role::Step::kLeadAnew) begin_anew();
    if (step == Role::Step::kLeadAnew) {
      log_.info("leads_anew", {{"handover", elector_->inherited()}});
      loop_->lead({});
    }
    if (step == Role::Step::kLead) loop_->lead(role_.inherited());
    if (elector_->is_leading()) loop_->lead_until(elector_->leads_until());
    return std::min(due, role_.due());
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

  std::uint64_t epoch() const { return elector_ ? elector_->epoch() : 0; }

  void publish() {
    // Lists of everything have passed through; glibc keeps that memory unless it is told not to.
    if (!std::exchange(has_synced_, has_synced_ || loop_->is_synced()) && has_synced_)
      ::malloc_trim(0);
    const std::string metrics = loop_->metrics() + (elector_ ? elector_->metrics() : "");
    bulletin_.publish({metrics, has_synced_, clock_.steady_now().time_since_epoch(),
                       loop_->last_contact().time_since_epoch()});
    published_at_ = clock_.steady_now();
    published_epoch_ = epoch();
  }

  void publish_now_and_then() {
    const bool is_news = (loop_->is_synced() && !has_synced_) || epoch() != published_epoch_;
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
  Role role_;
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
