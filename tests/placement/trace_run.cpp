#include "tests/placement/trace_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <utility>

#include "tests/placement/peers.h"
#include "tests/placement/states.h"

namespace pawl::placement {
namespace {

constexpr int kGpus = 8;

// Shaped like published traces, not drawn from them: how many GPUs a job asks for, in percent of
// the jobs, and log-normal run times. Philly: most jobs of one GPU, none above 128, a median of 13
// minutes with a long tail. Helios: half of one GPU, one in six of whole hosts, short. Alibaba's
// spot trace of 2026: gangs of whole hosts for the half of it, and running for hours.
struct Mix {
  const char* name;
  double load;  // of the GPUs
  double median_s, sigma;
  std::array<Slice, 9> sizes;
};
constexpr std::array kMixes{
    Mix{"philly", 0.75, 800, 2.2, {{{1, 76}, {2, 7}, {4, 7}, {8, 6}, {16, 2}, {32, 1}, {128, 1}}}},
    Mix{"helios",
        0.85,
        206,
        2.4,
        {{{1, 52}, {2, 13}, {4, 10}, {8, 17}, {16, 4}, {32, 2}, {64, 1}, {512, 1}}}},
    Mix{"alibaba_spot",
        0.90,
        3'600,
        1.4,
        {{{1, 30}, {2, 8}, {4, 8}, {8, 24}, {16, 12}, {32, 9}, {64, 5}, {128, 3}, {512, 1}}}}};

struct Job {
  double at = 0, runs = 0;  // seconds
  int gpus = 0;
  int units() const { return std::max(gpus / kGpus, 1); }
  int each() const { return std::min(gpus, kGpus); }
};

std::vector<Job> jobs_of(const Mix& mix, int hosts, int count) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> runs(std::log(mix.median_s), mix.sigma);
  std::vector<Job> jobs;
  double gpu_seconds = 0;
  for (int i = 0; i < count; ++i) {
    const int gpus = gpus_at(mix.sizes, static_cast<int>(random() % 100));
    jobs.push_back({.runs = std::min(runs(random), 100 * mix.median_s), .gpus = gpus});
    gpu_seconds += jobs.back().runs * jobs.back().gpus;
  }
  std::exponential_distribution<double> gap(mix.load * hosts * kGpus * count / gpu_seconds);
  double now = 0;
  for (Job& job : jobs) job.at = now += gap(random);
  return jobs;
}

struct Outcome {
  std::vector<std::vector<int>> scores;  // by job
  std::vector<bool> is_wide;
  double wait_s = 0;  // all together
};

// First come, first served; who has no room does not hold up those behind it.
class TracedCluster {
 public:
  TracedCluster(const Topology& topology, const peers::Strategy& strategy,
                const std::vector<Job>& jobs)
      : topology_(topology),
        strategy_(strategy),
        jobs_(jobs),
        free_(static_cast<std::size_t>(topology.hosts()), kGpus) {
    outcome_.scores.resize(jobs.size());
    outcome_.is_wide.resize(jobs.size());
  }

  Outcome run() {
    for (std::size_t next = 0; next < jobs_.size() || !waiting_.empty();) {
      const bool is_arrival =
          next < jobs_.size() && (ends_.empty() || jobs_[next].at <= ends_.top().first);
      if (is_arrival) {
        now_ = jobs_[next].at;
        if (!start(next)) waiting_.push_back(next);
        ++next;
      } else if (!ends_.empty()) {
        now_ = ends_.top().first;
        end(ends_.top().second);
        ends_.pop();
        std::erase_if(waiting_, [&](std::size_t job) { return start(job); });
      } else {
        break;  // it fits into the empty cluster, or never
      }
    }
    return std::move(outcome_);
  }

 private:
  using Use = std::pair<int, int>;  // of a host, GPUs

  bool start(std::size_t which) {
    const Job& job = jobs_[which];
    std::vector<int> units(free_.size());
    std::vector<bool> is_pristine(free_.size());
    int total = 0;
    for (std::size_t host = 0; host < free_.size(); ++host) {
      units[host] = free_[host] / job.each();
      is_pristine[host] = free_[host] == kGpus;
      total += units[host];
    }
    if (total < job.units()) return false;
    const Room room(topology_, std::move(units), std::move(is_pristine));
    const std::vector<int> hosts = strategy_(topology_, room, {.units = job.units()});
    if (hosts.empty()) return false;
    outcome_.scores[which] = peers::score(topology_, hosts);
    outcome_.is_wide[which] = job.units() > 1;
    outcome_.wait_s += now_ - job.at;
    std::vector<Use> uses;
    int left = job.units();
    for (const int host : hosts) {
      const int here = std::min(left, room.units_on(host));
      uses.emplace_back(host, here * job.each());
      free_[static_cast<std::size_t>(host)] -= here * job.each();
      left -= here;
    }
    running_.push_back(std::move(uses));
    ends_.emplace(now_ + job.runs, running_.size() - 1);
    return true;
  }

  void end(std::size_t run) {
    for (const auto& [host, gpus] : running_[run]) free_[static_cast<std::size_t>(host)] += gpus;
  }

  const Topology& topology_;
  const peers::Strategy& strategy_;
  const std::vector<Job>& jobs_;
  std::vector<int> free_;  // GPUs, by host
  std::vector<std::vector<Use>> running_;
  using End = std::pair<double, std::size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<std::size_t> waiting_;
  double now_ = 0;
  Outcome outcome_;
};

}  // namespace

std::vector<TraceResult> run_traces(int hosts, int count_of_jobs) {
  const Topology topology = regular_topology(hosts);
  std::vector<TraceResult> results;
  for (const Mix& mix : kMixes) {
    const std::vector<Job> jobs = jobs_of(mix, hosts, count_of_jobs);
    const Outcome mine = TracedCluster(topology, peers::ours, jobs).run();
    for (const auto& [name, strategy] : peers::all()) {
      const Outcome theirs = TracedCluster(topology, strategy, jobs).run();
      TraceResult& result = results.emplace_back(TraceResult{.trace = mix.name, .peer = name});
      for (std::size_t job = 0; job < jobs.size(); ++job) {
        peers::count(result.all, mine.scores[job], theirs.scores[job]);
        if (mine.is_wide[job]) peers::count(result.wide, mine.scores[job], theirs.scores[job]);
      }
      if (mine.wait_s > 0) result.wait_ratio = theirs.wait_s / mine.wait_s;
    }
  }
  return results;
}

}  // namespace pawl::placement
