#include "operator/admission/victims.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "operator/admission/cover.h"

namespace pawl::admission {
namespace {

using placement::Clearing;
using placement::HostRange;
using Price = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Of domains that cost the same so many are looked at more closely.
constexpr std::size_t kTiesMax = 8;

// Fewer gangs where as much work is lost.
std::int64_t price_of(std::int64_t lost) {
  constexpr std::int64_t kGangs = 1 << 12, kLostMax = std::int64_t{1} << 38;
  return std::clamp<std::int64_t>(lost, 0, kLostMax) * kGangs + 1;
}

// Of the clearing: the spare pods of a runner, and the others.
std::size_t spare_of(std::size_t runner) { return 2 * runner; }
std::size_t rest_of(std::size_t runner) { return 2 * runner + 1; }

// In one domain: who has to go, and what is out of the clearing at the moment.
class Choice {
 public:
  Choice(Clearing& clearing, HostRange range, std::span<const Runner> runners,
         std::span<const std::size_t> here)
      : clearing_(clearing), range_(range), runners_(runners) {
    for (const std::size_t runner : here) {
      const bool has_spare = runners[runner].gone == Runner::Part::kNone;
      if (has_spare && clearing.touches(spare_of(runner), range)) spares_.push_back(runner);
      if (clearing.touches(rest_of(runner), range))
        levels_[runners[runner].priority].push_back(runner);
    }
  }

  // False: it is impossible, or dearer than `best`, if there is one. The clearing is as before.
  bool run(int units, const Price* best, int& steps) {
    const bool is_possible = make_room(units, best) && choose(units, best, steps);
    for (const std::size_t group : out_) clearing_.put_back(group, range_);
    out_.clear();
    return is_possible;
  }
  const Price& price() const { return price_; }

  std::vector<Victim> victims() const {
    std::vector<Victim> victims;
    for (const std::size_t runner : gone_) victims.push_back({runners_[runner].id});
    for (const std::size_t runner : shrunk_) victims.push_back({runners_[runner].id, true});
    std::ranges::sort(victims, {}, &Victim::id);
    return victims;
  }

 private:
  using Level = std::map<std::int64_t, std::vector<std::size_t>>::iterator;

  void take_out(std::size_t group) {
    if (out_.insert(group).second) now_ += clearing_.take_out(group, range_);
  }
  void put_back(std::size_t group) {
    if (out_.erase(group) > 0) now_ -= clearing_.put_back(group, range_);
  }

  bool is_enough(int units) const {
    return now_ >= units && clearing_.fits_in_slices(range_, units);
  }

  // Takes out all up to the lowest priority with which it fits: top_ is that one.
  bool make_room(int units, const Price* best) {
    now_ = clearing_.units(range_);
    top_ = levels_.begin();
    if (is_enough(units)) return true;
    for (const std::size_t runner : spares_) take_out(spare_of(runner));
    const bool is_bounded = best != nullptr;
    for (; !is_enough(units); ++top_) {
      const bool is_too_dear =
          is_bounded &&
          (best->empty() || (top_ != levels_.end() && top_->first > best->front().first));
      if (top_ == levels_.end() || is_too_dear) return false;
      for (const std::size_t runner : top_->second) take_out(rest_of(runner));
    }
    return true;
  }

  bool choose(int units, const Price* best, int& steps) {
    while (top_ != levels_.begin()) {
      --top_;
      std::vector<Priced> offered;
      for (const std::size_t runner : top_->second) {
        put_back(rest_of(runner));
        offered.push_back({rest_of(runner), price_of(runners_[runner].lost)});
      }
      const auto cover = cheapest_cover(clearing_, range_, offered, units, steps);
      if (!note(top_->first, cover, best)) return false;
      for (const std::size_t group : cover->groups) {
        take_out(group);
        gone_.push_back(group / 2);
      }
    }
    std::vector<Priced> offered;
    for (const std::size_t runner : spares_) {
      if (std::ranges::find(gone_, runner) != gone_.end()) continue;
      put_back(spare_of(runner));
      offered.push_back(
          {spare_of(runner), price_of(static_cast<std::int64_t>(runners_[runner].spare.size()))});
    }
    const auto cover = cheapest_cover(clearing_, range_, offered, units, steps);
    if (!note(kShrunk, cover, best)) return false;
    for (const std::size_t group : cover->groups) shrunk_.push_back(group / 2);
    return true;
  }

  bool note(std::int64_t level, const std::optional<Cover>& cover, const Price* best) {
    if (!cover) return false;
    if (cover->price > 0) price_.emplace_back(level, cover->price);
    if (best == nullptr) return true;
    const std::size_t size = std::min(price_.size(), best->size());
    return !std::ranges::lexicographical_compare(
        best->begin(), best->begin() + static_cast<std::ptrdiff_t>(size), price_.begin(),
        price_.begin() + static_cast<std::ptrdiff_t>(size));
  }

  Clearing& clearing_;
  const HostRange range_;
  const std::span<const Runner> runners_;
  std::map<std::int64_t, std::vector<std::size_t>> levels_;  // who may go, by priority
  std::vector<std::size_t> spares_;                          // whose spare pods may
  Level top_;
  std::set<std::size_t> out_;  // groups
  int now_ = 0;                // members that fit without those
  std::vector<std::size_t> gone_, shrunk_;
  Price price_;
};

// How near each other the members would be: smaller is nearer.
std::vector<int> distance(const placement::Topology& topology, Clearing& clearing,
                          const Sacrifice& found, placement::Ask ask,
                          std::span<const Runner> runners) {
  const HostRange all{0, topology.hosts()};
  const auto change = [&](auto&& how) {
    for (const Victim& victim : found.victims) {
      const auto at = std::ranges::lower_bound(runners, victim.id, {}, &Runner::id);
      const auto runner = static_cast<std::size_t>(at - runners.begin());
      if (at->gone == Runner::Part::kNone) how(spare_of(runner));
      if (!victim.is_shrunk) how(rest_of(runner));
    }
  };
  change([&](std::size_t group) { clearing.take_out(group, all); });
  const placement::Room room = clearing.room(topology, found.domain);
  change([&](std::size_t group) { clearing.put_back(group, all); });
  const auto placed = placement::place(topology, room, ask);
  if (!placed) return {1};
  std::vector<int> distance{-placed->depth};
  distance.insert(distance.end(), placed->touched.begin(), placed->touched.end());
  return distance;
}

// Who has pods in which domain of this depth.
std::vector<std::vector<std::size_t>> runners_by_domain(const placement::Topology& topology,
                                                        int depth, const Clearing& clearing,
                                                        const std::vector<bool>& is_candidate) {
  const auto domains = topology.domains(depth);
  std::vector<std::vector<std::size_t>> here(domains.size());
  const HostRange all{0, topology.hosts()};
  for (std::size_t runner = 0; runner < is_candidate.size(); ++runner) {
    if (!is_candidate[runner]) continue;
    for (const std::size_t group : {spare_of(runner), rest_of(runner)}) {
      std::size_t domain = 0;
      for (const Clearing::Use& use : clearing.uses(group, all)) {
        if (use.host >= domains[domain].end_host) {
          const auto after =
              std::ranges::upper_bound(domains, use.host, {}, &placement::Domain::first_host);
          domain = static_cast<std::size_t>(after - domains.begin()) - 1;
        }
        if (here[domain].empty() || here[domain].back() != runner) here[domain].push_back(runner);
      }
    }
  }
  return here;
}

}  // namespace

std::optional<Sacrifice> choose_victims(placement::Ledger& ledger, const Need& need,
                                        std::span<const Runner> runners) {
  std::vector<placement::Ledger::Leaver> leavers;
  for (const Runner& runner : runners) leavers.push_back({runner.id, runner.spare});
  Clearing clearing = ledger.clearing(need.shape, leavers);
  for (std::size_t host = 0; host < need.is_closed.size(); ++host) {
    if (need.is_closed[host]) clearing.close(static_cast<int>(host));
  }
  const placement::Topology& topology = ledger.topology();
  if (need.ask.has_slices()) {
    std::vector<HostRange> ranges;
    for (const placement::Domain& domain : topology.domains(need.ask.slices.depth))
      ranges.push_back({domain.first_host, domain.end_host});
    clearing.set_slices(std::move(ranges), need.ask.slices.size);
  }
  std::vector<bool> is_candidate;
  for (std::size_t runner = 0; runner < runners.size(); ++runner) {
    const Runner& one = runners[runner];
    is_candidate.push_back(one.may_go && one.gone != Runner::Part::kAll);
    const HostRange all{0, topology.hosts()};
    if (one.gone != Runner::Part::kNone) clearing.take_out(spare_of(runner), all);
    if (one.gone == Runner::Part::kAll) clearing.take_out(rest_of(runner), all);
  }
  const int depth = need.ask.required_depth;
  const auto domains = topology.domains(depth);
  const auto here = runners_by_domain(topology, depth, clearing, is_candidate);
  std::vector<Sacrifice> cheapest;
  int steps = need.steps;
  for (std::size_t domain = 0; domain < domains.size(); ++domain) {
    const HostRange range{domains[domain].first_host, domains[domain].end_host};
    const bool holds_others = std::ranges::all_of(
        need.ask.beside, [&](int host) { return host >= range.first && host < range.end; });
    if (!holds_others) continue;
    Choice choice(clearing, range, runners, here[domain]);
    const Price* best = cheapest.empty() ? nullptr : &cheapest.front().price;
    if (!choice.run(need.ask.units, best, steps)) continue;
    if (best != nullptr && choice.price() < *best) cheapest.clear();
    if (!cheapest.empty() &&
        (choice.price() > cheapest.front().price || cheapest.size() == kTiesMax))
      continue;
    cheapest.push_back({choice.victims(), range, choice.price()});
  }
  if (cheapest.empty()) return std::nullopt;
  if (cheapest.size() == 1) return cheapest.front();
  std::vector<std::vector<int>> distances;
  for (const Sacrifice& one : cheapest)
    distances.push_back(distance(topology, clearing, one, need.ask, runners));
  const auto nearest = std::ranges::min_element(distances) - distances.begin();
  return cheapest[static_cast<std::size_t>(nearest)];
}

}  // namespace pawl::admission
