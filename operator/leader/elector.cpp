#include "operator/leader/elector.h"

#include <mutex>
#include <optional>
#include <utility>

#include "common/base/json.h"
#include "common/kube/requests.h"

namespace pawl::leader {

using nlohmann::json;

// What came since the last turn: the answer (one request is under way at a time) and the newest
// state that the watch has shown. The election's only lock.
class LeaseBox {
 public:
  struct News {
    std::optional<Result<kube::HttpResponse>> answer;
    std::optional<LeaseRecord> seen;
    std::string gone_uid;
  };

  explicit LeaseBox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void post_answer(Result<kube::HttpResponse> answer) {
    set([&](News& news) { news.answer = std::move(answer); });
  }
  void post_seen(LeaseRecord record) {
    set([&](News& news) { news.seen = std::move(record); });
  }
  // What stood there before is of no interest any more.
  void post_gone(std::string uid) {
    set([&](News& news) {
      news.gone_uid = std::move(uid);
      news.seen.reset();
    });
  }
  News take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
  }

 private:
  template <typename Change>
  void set(const Change& change) {
    {
      const std::lock_guard lock(mutex_);
      change(news_);
    }
    wake_();
  }

  const std::function<void()> wake_;
  std::mutex mutex_;
  News news_;
};

namespace {

kube::InformerOptions watch_options(const LeaseOptions& options) {
  kube::InformerOptions watch;
  watch.resource = kube::resources::kLeases;
  watch.ns = options.ns;
  // RBAC by resourceNames allows a list and a watch with exactly this selector.
  watch.field_selector = "metadata.name=" + options.name;
  return watch;
}

kube::InformerEvents watch_events(const std::shared_ptr<LeaseBox>& box) {
  kube::InformerEvents events;
  events.on_upsert = [box](const json& object) { box->post_seen(decode_lease(object)); };
  events.on_delete = [box](const json& object) { box->post_gone(decode_lease(object).uid); };
  return events;
}

}  // namespace

Elector::Elector(kube::Transport& transport, const Clock& clock, Random random, Log& log,
                 LeaseOptions options, std::function<void()> wake)
    : transport_(transport),
      clock_(clock),
      log_(log),
      options_(std::move(options)),
      machine_(options_, random),
      box_(std::make_shared<LeaseBox>(std::move(wake))),
      watch_(transport, clock, log, watch_options(options_), watch_events(box_)) {}

Elector::~Elector() {
  watch_.stop();
  if (in_flight_ != 0) transport_.cancel(in_flight_);
}

void Elector::start() { watch_.start(); }

SteadyPoint Elector::turn() {
  LeaseBox::News news = box_->take();
  const SteadyPoint now = clock_.steady_now();
  if (!news.gone_uid.empty()) machine_.on_gone(news.gone_uid, now);
  if (news.seen) machine_.on_seen(*news.seen, now);
  if (news.answer) {
    in_flight_ = 0;
    machine_.on_answer(*news.answer, now);
  }
  if (auto request = machine_.next(clock_.now(), clock_.steady_now())) {
    in_flight_ = transport_.send(
        std::move(*request),
        [box = box_](Result<kube::HttpResponse> answer) { box->post_answer(std::move(answer)); });
  }
  report();
  return machine_.due();
}

void Elector::report() {
  if (machine_.losses() != reported_losses_) {
    reported_losses_ = machine_.losses();
    // No event: whoever has lost the lead writes nothing any more.
    log_.warning("leader_lost", {{"lease", options_.ns + "/" + options_.name},
                                 {"identity", options_.identity},
                                 {"why", machine_.why()}});
  }
  if (machine_.terms() != reported_terms_) {
    reported_terms_ = machine_.terms();
    log_.info("leader_gained",
              {{"lease", options_.ns + "/" + options_.name},
               {"identity", options_.identity},
               {"transitions", machine_.record() ? machine_.record()->transitions : 0},
               {"why", machine_.why()}});
    send_event(options_.identity + " became leader: " + machine_.why());
  }
  const std::string holder = machine_.record() ? machine_.record()->holder : "";
  if (holder != reported_holder_ && !holder.empty() && holder != options_.identity) {
    log_.info("leader_seen", {{"holder", holder}, {"version", machine_.record()->version}});
  }
  reported_holder_ = holder;
  if (machine_.trouble() != reported_trouble_ && !machine_.trouble().empty()) {
    log_.warning("lease_request_failed", {{"message", machine_.trouble()}});
  }
  reported_trouble_ = machine_.trouble();
}

// As the Kubernetes controllers do: `kubectl describe lease` shows it. Nobody waits for its answer.
void Elector::send_event(const std::string& message) {
  if (!machine_.record()) return;
  const std::string time = format_time(clock_.now());
  const LeaseRecord& record = *machine_.record();
  const json event = {
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata",
       {{"name", options_.name + ".lease-" + record.resource_version}, {"namespace", options_.ns}}},
      {"involvedObject",
       {{"apiVersion", "coordination.k8s.io/v1"},
        {"kind", "Lease"},
        {"namespace", options_.ns},
        {"name", options_.name},
        {"uid", record.uid}}},
      {"type", "Normal"},
      {"reason", "LeaderElection"},
      {"message", message.substr(0, 1000)},
      {"source", {{"component", "pawl-operator"}}},
      {"reportingComponent", "pawl-operator"},
      {"reportingInstance", options_.identity.substr(0, 128)},
      {"firstTimestamp", time},
      {"lastTimestamp", time},
      {"count", 1}};
  transport_.send(kube::create_request(kube::resources::kEvents, options_.ns, event),
                  [](const Result<kube::HttpResponse>&) {});
}

std::string Elector::metrics() const {
  return "# HELP pawl_leader 1 while this process leads.\n# TYPE pawl_leader gauge\npawl_leader " +
         std::to_string(machine_.is_leading() ? 1 : 0) +
         "\n# HELP pawl_leader_transitions_total Times that this process began or stopped to "
         "lead.\n"
         "# TYPE pawl_leader_transitions_total "
         "counter\npawl_leader_transitions_total{to=\"leader\"} " +
         std::to_string(machine_.terms()) + "\npawl_leader_transitions_total{to=\"standby\"} " +
         std::to_string(machine_.losses()) + "\n";
}

}  // namespace pawl::leader
