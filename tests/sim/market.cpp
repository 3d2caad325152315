#include "tests/sim/market.h"

#include <algorithm>
#include <set>

namespace pawl::sim {
namespace {

using kube::resources::kPods;
using nlohmann::json;
using std::chrono::minutes;

// The sources of these are in docs/spot.md.
constexpr seconds kScanEvery{10};
constexpr milliseconds kComesFirst = minutes{3}, kComesLast = minutes{6};
constexpr milliseconds kGivenBackAfter = minutes{10}, kFallsBackAfter = minutes{15};
constexpr milliseconds kZoneEmptiesWithin = minutes{3};
constexpr seconds kLongNotice{120}, kShortNotice{30};

bool is_pending(const json& pod) {
  if (!pod.contains("status") || !pod["status"].contains("conditions")) return false;
  return text_at_pointer(pod, "/spec/nodeName").empty() && !is_terminal_pod(pod) &&
         !pod.at("metadata").contains("deletionTimestamp");
}

}  // namespace

Market::Market(World& world, const MarketRun& run)
    : world_(world), run_(run), zones_(world.engine, *run.terms, run.seed) {
  zones_.on_shut = [this](int zone) { shut(zone); };
}

void Market::begin() {
  zones_.begin();
  scan();
  take_one_by_one();
}

// ---- the autoscaler

void Market::scan() {
  int anchors = 0;
  std::vector<local::Object> others;
  for (const local::Object& pod : world_.api.all(kPods)) {
    if (!is_pending(*pod)) continue;
    if (may_run(*pod, true)) {
      others.push_back(pod);
    } else {
      ++anchors;
    }
  }
  serve(anchors, others);
  std::erase_if(waits_since_, [&](const auto& item) {
    return std::ranges::none_of(others, [&](const local::Object& pod) {
      return pod->at("metadata").at("name") == item.first;
    });
  });
  give_back_empty();
  world_.engine.after(kScanEvery, [this] { scan(); });
}

void Market::serve(int anchors, const std::vector<local::Object>& others) {
  // Machines that have just come are not looked for again: the scheduler is about to fill them.
  for (int i = ordered(Purpose::kAnchor) + unused(false); i < anchors; ++i)
    buy(Purpose::kAnchor, -1);
  int under_way = ordered(Purpose::kSpot) + ordered(Purpose::kFallback) + unused(true);
  for (const local::Object& pod : others) {
    const bool has_waited_long = has_waited(pod);
    if (under_way-- > 0) continue;
    // The operator may have told its pods to keep away from spot for a while.
    const bool wants_spot = !run_.falls_back || liking(*pod, true) >= liking(*pod, false);
    const int zone = zones_.best();
    if (wants_spot && zone >= 0) {
      buy(Purpose::kSpot, zone);
    } else if (run_.falls_back && (has_waited_long || !wants_spot)) {
      buy(Purpose::kFallback, -1);
    }
  }
}

// Machines that came and have not had a pod yet.
int Market::unused(bool is_spot) const {
  return static_cast<int>(std::ranges::count_if(machines_, [is_spot](const auto& item) {
    const Machine& machine = item.second;
    return machine.is_spot == is_spot && !machine.was_used && !machine.until;
  }));
}

bool Market::has_waited(const local::Object& pod) {
  const milliseconds now = world_.engine.elapsed();
  const auto since = waits_since_.try_emplace(pod->at("metadata").at("name"), now).first->second;
  return now - since >= kFallsBackAfter;
}

int Market::ordered(Purpose purpose) const {
  return static_cast<int>(std::ranges::count_if(
      orders_, [purpose](const auto& item) { return item.second.purpose == purpose; }));
}

void Market::buy(Purpose purpose, int zone) {
  const int number = ++count_;
  orders_[number] = {purpose, zone, world_.engine.elapsed()};
  world_.engine.after(world_.engine.between(kComesFirst, kComesLast), [this, number] {
    if (orders_.contains(number)) deliver(number);  // else its zone has shut meanwhile
  });
}

void Market::deliver(int number) {
  const Order order = orders_.extract(number).mapped();
  const bool is_spot = order.purpose == Purpose::kSpot;
  Machine machine;
  machine.name = (is_spot ? "spot-" : "demand-") + std::to_string(number);
  machine.is_spot = is_spot;
  machine.zone = order.zone;
  machine.from = order.at;
  world_.nodes.add_machine(machine.name, is_spot);
  machines_[number] = std::move(machine);
  ++past_.bought;
}

void Market::give_back_empty() {
  const milliseconds now = world_.engine.elapsed();
  std::set<std::string> used;
  for (const local::Object& pod : world_.api.all(kPods))
    used.insert(text_at_pointer(*pod, "/spec/nodeName"));
  std::vector<int> empty;
  for (auto& [number, machine] : machines_) {
    if (machine.until) continue;
    if (used.contains(machine.name)) {
      machine.empty_since.reset();
      machine.was_used = true;
    } else if (!machine.empty_since) {
      machine.empty_since = now;
    } else if (now - *machine.empty_since >= kGivenBackAfter) {
      machine.until = now;
      world_.nodes.give_back(machine.name);
      empty.push_back(number);
    }
  }
  for (const int number : empty) end(number);
}

void Market::end(int number) {
  const Machine machine = machines_.extract(number).mapped();
  (machine.is_spot ? past_.spot : past_.on_demand) += *machine.until - machine.from;
}

// ---- the cloud

void Market::shut(int zone) {
  std::erase_if(orders_, [zone](const auto& item) { return item.second.zone == zone; });
  for (const auto& [number, machine] : machines_) {
    if (machine.zone != zone || machine.until) continue;
    world_.engine.after(world_.engine.between(milliseconds{0}, kZoneEmptiesWithin),
                        [this, number = number] { reclaim(number); });
  }
}

void Market::take_one_by_one() {
  const auto life = static_cast<std::uint64_t>(run_.terms->life_minutes);
  std::vector<int> taken;
  for (const auto& [number, machine] : machines_) {
    const bool is_here = life > 0 && machine.is_spot && !machine.until;
    if (is_here && world_.engine.random().one_in(life)) taken.push_back(number);
  }
  for (const int number : taken) reclaim(number);
  world_.engine.after(minutes{1}, [this] { take_one_by_one(); });
}

// One in ten is gone without a word, three in ten in half a minute, the others in two.
void Market::reclaim(int number) {
  const auto found = machines_.find(number);
  if (found == machines_.end() || found->second.until) return;
  Machine& machine = found->second;
  const std::uint64_t kind = world_.engine.random().below(10);
  const milliseconds notice = kind == 0 ? milliseconds{0} : kind < 4 ? kShortNotice : kLongNotice;
  ++past_.interrupted;
  machine.until = world_.engine.elapsed() + notice;
  world_.engine.trace("the cloud takes " + machine.name + " back");
  world_.nodes.interrupt(machine.name, notice);
  world_.engine.after(notice, [this, number] { end(number); });
}

MarketBill Market::bill() const {
  const milliseconds now = world_.engine.elapsed();
  MarketBill bill = past_;
  for (const auto& [number, machine] : machines_) {
    const milliseconds time = std::min(machine.until.value_or(now), now) - machine.from;
    (machine.is_spot ? bill.spot : bill.on_demand) += time;
  }
  return bill;
}

}  // namespace pawl::sim
