// The thread around ControllerLoop; the only file of the operator that creates one.
#include "operator/controller/operator.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <thread>

#include "operator/controller/inbox.h"
#include "operator/controller/loop.h"
#include "operator/controller/watches.h"

namespace pawl::controller {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTurnEvery{5'000};  // at least, so that liveness can be seen
constexpr std::chrono::seconds kTurnLate{30};
constexpr std::chrono::minutes kContactLate{10};
constexpr std::chrono::seconds kPublishEvery{1};

LoopOptions loop_options(const OperatorOptions& options) {
  LoopOptions loop;
  loop.policy.children = options.children;
  loop.policy.report_seconds = options.report_seconds;
  loop.policy.numbers_every = options.numbers_every;
  return loop;
}

}  // namespace

class Operator::Impl {
 public:
  Impl(kube::Transport& transport, const Clock& clock, Random random, Log& log,
       const OperatorOptions& options)
      : clock_(clock),
        log_(log),
        loop_(transport, clock, random, log, inbox_, loop_options(options)),
        watches_(transport, clock, log, options.ns, inbox_) {}

  ~Impl() { stop(); }

  void start() {
    publish();
    watches_.start();
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    watches_.stop();
    inbox_->stop();
    if (thread_.joinable()) thread_.join();
  }

  Bulletin::News news() const { return bulletin_.read(); }
  bool is_alive() const {
    const auto now = clock_.steady_now().time_since_epoch();
    const Bulletin::News seen = news();
    return now - seen.turned_at < kTurnLate && now - seen.contact_at < kContactLate;
  }

 private:
  void run() {
    try {
      for (bool goes_on = true; goes_on;) {
        const auto due = loop_.turn();
        publish_now_and_then();
        milliseconds wait = kTurnEvery;
        if (due) {
          const auto left = std::chrono::ceil<milliseconds>(*due - clock_.steady_now());
          wait = std::clamp(left, milliseconds{0}, kTurnEvery);
        }
        goes_on = inbox_->wait(wait);
      }
    } catch (const std::exception& error) {
      log_.error("controller_thread_died", {{"message", error.what()}});
      std::abort();
    }
  }

  void publish() {
    bulletin_.publish({loop_.metrics(), loop_.is_synced(), clock_.steady_now().time_since_epoch(),
                       loop_.last_contact().time_since_epoch()});
    published_at_ = clock_.steady_now();
    is_published_synced_ = loop_.is_synced();
  }

  void publish_now_and_then() {
    const bool is_news = loop_.is_synced() != is_published_synced_;
    if (is_news || clock_.steady_now() - published_at_ >= kPublishEvery) publish();
  }

  const Clock& clock_;
  Log& log_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  Bulletin bulletin_;
  ControllerLoop loop_;
  Watches watches_;
  std::thread thread_;
  SteadyPoint published_at_{};
  bool is_published_synced_ = false;
};

Operator::Operator(kube::Transport& transport, const Clock& clock, Random random, Log& log,
                   OperatorOptions options)
    : impl_(std::make_unique<Impl>(transport, clock, random, log, options)) {}
Operator::~Operator() = default;

void Operator::start() { impl_->start(); }
void Operator::stop() { impl_->stop(); }
bool Operator::is_synced() const { return impl_->news().is_synced; }
bool Operator::is_alive() const { return impl_->is_alive(); }
std::string Operator::metrics() const { return impl_->news().metrics; }

}  // namespace pawl::controller
