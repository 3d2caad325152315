#include "tests/placement/line_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <random>
#include <string>

#include "operator/admission/line.h"
#include "tests/placement/states.h"

namespace pawl::placement {
namespace {

// GPUs of a gang, in percent of the gangs: powers of two, most of them small, as in the published
// traces (Philly, Helios). Up to 8 one member has them all, a larger gang has 8 each.
constexpr std::array kMix{Slice{1, 45}, Slice{2, 12}, Slice{4, 12}, Slice{8, 18},
                          Slice{16, 6}, Slice{32, 4}, Slice{64, 2}, Slice{256, 1}};

class Cluster {
 public:
  explicit Cluster(int hosts) {
    add_hosts(ledger_, hosts);
    ledger_.topology();
  }

  void join() {
    const int gpus = gpus_at(kMix, static_cast<int>(random_() % 100));
    const std::string id = "team/job-" + std::to_string(next_++);
    line_.join({.id = id,
                .priority = static_cast<std::int64_t>(random_() % 3),
                .since = TimePoint{std::chrono::milliseconds{next_}},
                .shape = {{{"gpu", std::min(gpus, 8)}, {"pods", 1}}, {}},
                .ask = {.units = std::max(gpus / 8, 1),
                        .required_depth = gpus > 8 && random_() % 2 == 0 ? 1 : 0}});
  }

  // How many gangs got room.
  std::size_t round(bool is_freed) {
    const auto verdicts =
        line_.round({ledger_, quotas_}, is_freed, TimePoint{std::chrono::hours{1}},
                    [this](const admission::Gang& gang, const Placement& placed) {
                      auto& pods = running_[gang.id];
                      for (const auto& share : placed.shares) {
                        for (int i = 0; i < share.units; ++i) {
                          pods.push_back(gang.id + "-" + std::to_string(pods.size()));
                          ledger_.promise(pods.back(), {.host = ledger_.topology().host(share.host),
                                                        .requests = gang.shape.requests,
                                                        .owner = gang.id});
                        }
                      }
                    });
    return static_cast<std::size_t>(
        std::ranges::count_if(verdicts, [](const auto& one) { return one.placement.has_value(); }));
  }

  void end_one() {
    auto gang = running_.begin();
    std::advance(gang, static_cast<std::ptrdiff_t>(random_() % running_.size()));
    for (const std::string& pod : gang->second) ledger_.withdraw(pod);
    running_.erase(gang);
  }

  std::size_t waiting() const { return line_.size(); }

 private:
  Ledger ledger_{{"block", "rack"}};
  admission::Quotas quotas_;
  admission::Line line_;
  std::map<std::string, std::vector<std::string>> running_;
  std::mt19937 random_{1};
  int next_ = 0;
};

}  // namespace

LineTimes time_line(int hosts, int waiting, int decisions) {
  Cluster cluster(hosts);
  LineTimes times;
  Spent sum;
  std::size_t admitted = 0;
  // What has no room yet stays, until so many wait.
  while (static_cast<int>(cluster.waiting()) < waiting) {
    const Stopwatch watch;
    for (int i = 0; i < 1'000; ++i) cluster.join();
    const std::size_t placed = cluster.round(false);
    const Spent spent = watch.spent();
    if (placed > 0) sum = {sum.wall_ms + spent.wall_ms, sum.cpu_ms + spent.cpu_ms};
    admitted += placed;
  }
  std::vector<Spent> all;
  for (int i = 0; i < decisions; ++i) {
    cluster.end_one();
    cluster.join();
    const Stopwatch watch;
    cluster.round(true);
    all.push_back(watch.spent());
  }
  times.decision_p99 = p99_of(std::move(all));
  times.admissions_per_s = static_cast<double>(admitted) * 1e3 / sum.wall_ms;
  times.admissions_per_cpu_s = static_cast<double>(admitted) * 1e3 / sum.cpu_ms;
  return times;
}

}  // namespace pawl::placement
