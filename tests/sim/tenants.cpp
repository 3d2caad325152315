#include "tests/sim/tenants.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "operator/controller/preemptor.h"

namespace pawl::sim {
namespace {

using admission::Gang;
using admission::Spare;
using controller::Occupant;
using controller::Preemptor;

constexpr int kNoticeMax = 30;
constexpr int kSecondsMax = 20'000;  // all have ended long before

struct Job {
  std::string id, queue;
  int units = 1, least = 1;  // the latter: it may become smaller
  std::int64_t priority = 0;
  int comes = 0, work = 0;  // seconds
  int saves_every = 0;
  // As it goes.
  enum class State { kToCome, kWaiting, kRunning, kShrinking, kLeaving, kEnded };
  State state = State::kToCome;
  int left = 0;                         // of its work
  int since = 0, saved = 0, until = 0;  // it has nodes; and how long it takes to leave
  std::vector<Spare> pods;
  std::optional<int> began;  // first
  bool has_lost = false;     // nodes, to others
  bool holds_nodes() const { return !pods.empty(); }
};

struct Tenancy {
  std::string queue;
  int nominal = 0;
  bool is_fifo = false;
  std::vector<Job*> jobs;
  // Who is first, and fits into what is its own; since when.
  const Job* owed = nullptr;
  int owed_since = 0;
};

class Cluster {
 public:
  Cluster(std::uint64_t seed, bool is_recording);
  RunResult run();

 private:
  void draw_tenants();
  void draw_jobs();
  void pass_time();
  void decide();
  void round();
  void begin(const Gang& gang, const placement::Placement& placed);
  void obey();
  void leave(Job& job);
  void give_up(Job& job, const std::vector<Spare>& pods);
  void take_away(Job& job, const std::vector<Spare>& pods);
  void join(Job& job);
  void note(const Job& job);
  void check_owed(Tenancy& tenant);
  void check_alone(const Tenancy& tenant);
  void fail(const std::string& message);
  void tell(const std::string& what);
  int slack() const { return kDecisions + protected_max_ + 2 * notice_max_; }
  int run_by(const Tenancy& tenant) const;
  TimePoint time() const { return TimePoint{std::chrono::seconds{1'000'000 + now_}}; }
  Job& job(const std::string& id) { return *std::ranges::find(jobs_, id, &Job::id); }

  // Three are decided on at a time, once a second; a fourth has to wait until one has its nodes.
  static constexpr int kDecisions = 8;

  Random random_;
  const bool is_recording_;
  RunResult result_;
  placement::Ledger ledger_{{}};
  admission::Quotas quotas_;
  admission::Line line_{{.wait_max = std::chrono::seconds{60}}};
  Preemptor preemptor_;
  std::vector<Tenancy> tenants_;
  std::vector<Job> jobs_;
  bool is_freed_ = true;
  int now_ = 0, notice_max_ = 1, protected_max_ = 0;
  std::uint64_t departures_ = 0;
};

Cluster::Cluster(std::uint64_t seed, bool is_recording)
    : random_(mix64(~seed)), is_recording_(is_recording) {
  draw_tenants();
  draw_jobs();
}

void Cluster::tell(const std::string& what) {
  result_.hash = mix64(result_.hash ^ static_cast<std::uint64_t>(now_));
  for (const char c : what) result_.hash = result_.hash * 31 + static_cast<unsigned char>(c);
  if (is_recording_) result_.trace.push_back(std::to_string(now_) + " " + what);
}

void Cluster::fail(const std::string& message) {
  if (result_.failure) return;
  tell("FAILED O14: " + message);
  result_.failure = Failure{"O14", message};
}

// The quotas are no more than the machines have.
void Cluster::draw_tenants() {
  const int hosts = 1 + static_cast<int>(random_.below(6));
  const int each = 1 + static_cast<int>(random_.below(8));
  for (int host = 0; host < hosts; ++host) {
    ledger_.set_host(
        {.name = "host-" + std::to_string(host), .allocatable = {{"gpu", each}}, .is_ready = true});
  }
  int rest = hosts * each;
  const int count = 2 + static_cast<int>(random_.below(3));
  for (int i = 0; i < count && rest > 0; ++i) {
    const bool is_last = i + 1 == count;
    const int nominal =
        is_last ? rest : 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(rest)));
    rest -= nominal;
    Tenancy tenant{.queue = "queue-" + std::to_string(i), .nominal = nominal};
    tenant.is_fifo = random_.one_in(2);
    admission::Queue queue{.quotas = {{"gpu", {.nominal = nominal}}},
                           .weight = 1 + static_cast<int>(random_.below(3)),
                           .is_fifo = tenant.is_fifo,
                           .preempts_within = random_.one_in(2)};
    if (random_.one_in(4)) queue.quotas["gpu"].borrowing_max = random_.below(4);
    if (random_.one_in(4))
      queue.quotas["gpu"].lending_max = random_.below(static_cast<std::uint64_t>(nominal) + 1);
    if (random_.one_in(4)) queue.protected_for = std::chrono::seconds{random_.below(60)};
    protected_max_ = std::max(protected_max_, static_cast<int>(queue.protected_for.count()));
    const admission::Quota& quota = queue.quotas["gpu"];
    tell(tenant.queue + " has " + std::to_string(nominal) + " of " + std::to_string(hosts * each) +
         (tenant.is_fifo ? ", FIFO" : "") + ", borrows " +
         std::to_string(quota.borrowing_max.value_or(-1)) + ", lends " +
         std::to_string(quota.lending_max.value_or(-1)) + ", protects for " +
         std::to_string(queue.protected_for.count()) + " s");
    quotas_.set(tenant.queue, std::move(queue));
    tenants_.push_back(std::move(tenant));
  }
  notice_max_ = 1 + static_cast<int>(random_.below(kNoticeMax));
}

// Each fits into the quota of its queue.
void Cluster::draw_jobs() {
  const int count = 3 + static_cast<int>(random_.below(20));
  const bool has_priorities = random_.one_in(2), has_elastic = random_.one_in(2);
  int comes = 0;
  for (int i = 0; i < count; ++i) {
    const Tenancy& tenant = tenants_[random_.below(tenants_.size())];
    Job job{.id = "team/job-" + std::to_string(10 + i), .queue = tenant.queue};
    job.units = 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(tenant.nominal)));
    job.least = job.units;
    if (has_elastic && random_.one_in(2))
      job.least = 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(job.units)));
    if (has_priorities) job.priority = static_cast<std::int64_t>(random_.below(3));
    comes += random_.one_in(3) ? static_cast<int>(random_.below(120)) : 1;
    job.comes = comes;
    job.work = job.left = 1 + static_cast<int>(random_.below(random_.one_in(4) ? 400 : 60));
    job.saves_every = 5 + static_cast<int>(random_.below(30));
    jobs_.push_back(std::move(job));
  }
  for (Job& job : jobs_) {
    const auto tenant = std::ranges::find(tenants_, job.queue, &Tenancy::queue);
    tenant->jobs.push_back(&job);
  }
}

// ---- what befalls jobs

void Cluster::join(Job& job) {
  job.state = Job::State::kWaiting;
  const TimePoint asked{std::chrono::seconds{1'000'000 + job.comes}};
  line_.join({.id = job.id,
              .priority = job.priority,
              .since = asked,
              .waits_since = time(),
              .shape = {{{"gpu", 1}}, {}},
              .ask = {.units = job.units},
              .queue = job.queue});
  preemptor_.want();
}

void Cluster::note(const Job& job) {
  if (!job.holds_nodes()) return preemptor_.note(job.id, std::nullopt);
  const auto at = [](int second) { return TimePoint{std::chrono::seconds{1'000'000 + second}}; };
  Occupant one{.priority = job.priority,
               .queue = job.queue,
               .devices = std::ssize(job.pods),
               .placed_at = at(job.since),
               .saved_at = at(job.saved)};
  one.is_leaving = one.is_preempted = job.state == Job::State::kLeaving;
  one.is_shrinking = job.state == Job::State::kShrinking;
  if (job.least < std::ssize(job.pods)) one.spare = {job.pods.begin() + job.least, job.pods.end()};
  if (!one.spare.empty()) one.each = {{"gpu", 1}};
  preemptor_.note(job.id, one);
}

void Cluster::begin(const Gang& gang, const placement::Placement& placed) {
  Job& one = job(gang.id);
  for (const placement::Share& share : placed.shares) {
    for (int i = 0; i < share.units; ++i) {
      const std::string host = ledger_.topology().host(share.host);
      one.pods.push_back({one.id + "/" + std::to_string(one.pods.size()), host});
      ledger_.promise(one.pods.back().pod,
                      {.host = host, .requests = {{"gpu", 1}}, .owner = one.id});
    }
  }
  one.state = Job::State::kRunning;
  one.since = one.saved = now_;
  if (!one.began) one.began = now_;
  tell(one.id + " of " + one.queue + " begins with " + std::to_string(one.pods.size()));
  note(one);
  preemptor_.want();
}

void Cluster::take_away(Job& job, const std::vector<Spare>& pods) {
  for (const Spare& pod : pods) {
    ledger_.withdraw(pod.pod);
    std::erase(job.pods, pod);
  }
  quotas_.charge(job.id, job.queue,
                 placement::times({{"gpu", 1}}, static_cast<int>(job.pods.size())));
  is_freed_ = true;
}

void Cluster::leave(Job& job) {
  tell(job.id + " is to leave");
  ++departures_;
  job.has_lost = true;
  job.state = Job::State::kLeaving;
  job.until = now_ + 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(notice_max_)));
  note(job);
}

void Cluster::give_up(Job& job, const std::vector<Spare>& pods) {
  tell(job.id + " is to give up " + std::to_string(pods.size()));
  ++departures_;
  job.has_lost = true;
  job.state = Job::State::kShrinking;
  job.until = now_ + 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(notice_max_)));
  // Those that it keeps come first.
  std::ranges::stable_partition(
      job.pods, [&](const Spare& pod) { return std::ranges::find(pods, pod) == pods.end(); });
  job.least = static_cast<int>(job.pods.size() - pods.size());
  note(job);
}

// One second: who runs works, a gang that has become smaller as fast as before.
void Cluster::pass_time() {
  ++now_;
  for (Job& one : jobs_) {
    const bool works = one.state == Job::State::kRunning || one.state == Job::State::kShrinking;
    if (works && (now_ - one.since) % one.saves_every == 0) {
      one.saved = now_;
      note(one);
    }
    if (works && --one.left == 0) {
      tell(one.id + " ends");
      take_away(one, std::vector<Spare>(one.pods));
      one.state = Job::State::kEnded;
      note(one);
    } else if (one.state == Job::State::kShrinking && now_ >= one.until) {
      take_away(one, {one.pods.begin() + one.least, one.pods.end()});
      one.state = Job::State::kRunning;
      note(one);
    } else if (one.state == Job::State::kLeaving && now_ >= one.until) {
      tell(one.id + " has left");
      take_away(one, std::vector<Spare>(one.pods));
      join(one);
      note(one);
    } else if (one.state == Job::State::kToCome && now_ >= one.comes) {
      tell(one.id + " of " + one.queue + " asks for " + std::to_string(one.units));
      join(one);
    }
  }
}

// ---- what the operator does (controller/placer.cpp)

void Cluster::round() {
  const auto verdicts = line_.round(
      {ledger_, quotas_}, std::exchange(is_freed_, false), time(),
      [this](const Gang& gang, const placement::Placement& placed) { begin(gang, placed); });
  for (const admission::Verdict& verdict : verdicts) {
    if (verdict.placement) continue;
    std::string why = verdict.is_behind ? " is behind another one" : "";
    if (verdict.shortage)
      why += ", quota: " + std::to_string(verdict.shortage->available) + " can be had, " +
             std::to_string(verdict.shortage->used) + " used";
    if (verdict.kept)
      why += ", " + std::to_string(verdict.kept->hosts.size()) + " hosts are kept for it";
    if (verdict.is_passed_over) why += ", room is kept for others";
    tell(verdict.id + " waits" + why);
  }
}

void Cluster::obey() {
  for (Job& one : jobs_) {
    if (one.state != Job::State::kRunning) continue;
    const Preemptor::Order* order = preemptor_.order_for(one.id, line_);
    if (order == nullptr) continue;
    tell(order->why);
    const std::vector<Spare> pods = order->pods;
    pods.empty() ? leave(one) : give_up(one, pods);
  }
}

void Cluster::decide() {
  if (is_freed_) preemptor_.want();
  round();
  const auto awaited = line_.awaited();
  preemptor_.search({ledger_, quotas_}, line_, time());
  obey();
  if (line_.awaited() != awaited) round();
}

// ---- what is looked at

int Cluster::run_by(const Tenancy& tenant) const {
  int units = 0;
  for (const Job* one : tenant.jobs) units += static_cast<int>(one->pods.size());
  return units;
}

void Cluster::check_owed(Tenancy& tenant) {
  const Job* first = nullptr;
  for (const Job* one : tenant.jobs) {
    if (one->state != Job::State::kWaiting) continue;
    const auto rank = [](const Job& job) { return std::tuple{-job.priority, job.comes, job.id}; };
    if (first == nullptr || rank(*one) < rank(*first)) first = one;
  }
  const bool fits = first != nullptr && run_by(tenant) + first->units <= tenant.nominal;
  if (!fits || first != tenant.owed) tenant.owed_since = now_;
  tenant.owed = fits ? first : nullptr;
  if (fits && now_ - tenant.owed_since > slack())
    fail(first->id + " needs " + std::to_string(first->units) + ", " + tenant.queue + " uses " +
         std::to_string(run_by(tenant)) + " of its " + std::to_string(tenant.nominal) +
         ", and it has waited for " + std::to_string(now_ - tenant.owed_since) + " s");
}

// In a cluster for it alone; who comes first begins first.
void Cluster::check_alone(const Tenancy& tenant) {
  std::vector<const Job*> jobs(tenant.jobs.begin(), tenant.jobs.end());
  const bool is_same = std::ranges::all_of(jobs, [&](const Job* one) {
    return !one->has_lost && one->priority == jobs.front()->priority;
  });
  if (!tenant.is_fifo || !is_same) return;
  std::vector<std::pair<int, int>> ends;  // when, and how many
  int from = 0;
  for (const Job* one : jobs) {
    int begin = std::max(from, one->comes);
    const auto busy = [&](int second) {
      int units = 0;
      for (const auto& [end, count] : ends) units += end > second ? count : 0;
      return units;
    };
    while (busy(begin) + one->units > tenant.nominal) ++begin;
    begin += slack();
    from = begin;
    ends.emplace_back(begin + one->work, one->units);
    if (*one->began > begin)
      fail(one->id + " of " + tenant.queue + " began at " + std::to_string(*one->began) +
           ", and alone it would have at " + std::to_string(begin));
  }
}

RunResult Cluster::run() {
  const auto has_ended = [](const Job& one) { return one.state == Job::State::kEnded; };
  while (!std::ranges::all_of(jobs_, has_ended) && !result_.failure) {
    if (now_ > kSecondsMax) fail("jobs do not come to their end");
    pass_time();
    decide();
    for (Tenancy& tenant : tenants_) check_owed(tenant);
  }
  if (!result_.failure) {
    for (const Tenancy& tenant : tenants_) check_alone(tenant);
  }
  if (departures_ > 10 * jobs_.size())
    fail(std::to_string(departures_) + " orders to leave for " + std::to_string(jobs_.size()) +
         " jobs");
  result_.faults["orders to leave"] = departures_;
  return std::move(result_);
}

}  // namespace

RunResult run_tenants(std::uint64_t seed, bool is_recording) {
  return Cluster(seed, is_recording).run();
}

}  // namespace pawl::sim
