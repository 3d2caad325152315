// Hosts, queues and a line.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "operator/admission/line.h"

namespace pawl::test {

inline const placement::Shape kOne{{{"gpu", 1}}, {}};

// Hosts of eight GPUs each; gangs of members of one.
struct Park {
  explicit Park(int hosts) {
    for (int host = 0; host < hosts; ++host) {
      ledger.set_host({.name = "host-" + std::to_string(10 + host),
                       .allocatable = {{"gpu", 8}},
                       .is_ready = true});
    }
  }
  void set_queue(const std::string& name, admission::Quota quota, int weight = 1,
                 bool is_fifo = false) {
    quotas.set(name, {{{"gpu", quota}}, weight, is_fifo});
  }
  admission::Gang gang(const std::string& id, const std::string& queue, int units,
                       int priority = 0) {
    const TimePoint since =
        asked.try_emplace(id, now + std::chrono::milliseconds{asked.size()}).first->second;
    return {.id = id,
            .priority = priority,
            .since = since,
            .waits_since = since,
            .shape = kOne,
            .ask = {.units = units},
            .queue = queue};
  }
  void join(const std::string& id, const std::string& queue, int units, int priority = 0) {
    line.join(gang(id, queue, units, priority));
  }
  // Who is given room, in the order in which that happens.
  std::string round(bool is_freed = true) {
    std::string text;
    last = line.round(
        {ledger, quotas}, is_freed, now, [&](const admission::Gang& gang, const auto& placed) {
          for (const auto& share : placed.shares) {
            const std::string& host = ledger.topology().host(share.host);
            const std::string pod = gang.id + "/" + host;
            ledger.promise(pod,
                           {.host = host, .requests = {{"gpu", share.units}}, .owner = gang.id});
            running[gang.id].push_back(pod);
          }
          text += (text.empty() ? "" : " ") + gang.id;
        });
    return text;
  }
  void end(const std::string& id) {
    for (const std::string& pod : running[id]) ledger.withdraw(pod);
    running.erase(id);
    quotas.charge(id, "", {});
  }
  const admission::Verdict& verdict(const std::string& id) const {
    return *std::ranges::find(last, id, &admission::Verdict::id);
  }

  TimePoint now{std::chrono::seconds{100'000}};
  placement::Ledger ledger{{}};
  admission::Quotas quotas;
  admission::Line line{{.wait_max = std::chrono::seconds{60}}};
  std::map<std::string, TimePoint> asked;
  std::map<std::string, std::vector<std::string>> running;
  std::vector<admission::Verdict> last;
};

}  // namespace pawl::test
