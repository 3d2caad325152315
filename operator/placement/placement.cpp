#include "operator/placement/placement.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "operator/placement/choice.h"
#include "operator/placement/ranks.h"
#include "operator/placement/slices.h"

namespace pawl::placement {
namespace {

class Search {
 public:
  Search(const Topology& topology, const Room& room, const Ask& ask)
      : topology_(topology),
        room_(room),
        ask_(ask),
        beside_(ask.beside),
        chooser_(topology, room, beside_, ask.units) {}

  std::optional<Placement> run();
  // In a domain that holds them.
  Placement within(int depth, const Domain& domain) const {
    return placement_of(depth, chooser_.choose(depth, domain));
  }

 private:
  struct Found {
    Choice choice;
    std::size_t index = 0;  // of its domain
    auto key() const { return std::tuple_cat(choice.key(), std::tie(index)); }
  };
  int units_on(int host) const { return room_.units_on(host); }
  std::optional<Choice> best_of(int depth) const;
  std::optional<Choice> best_host() const;
  void look_for_host(int depth, std::size_t index, bool is_pristine, int& best) const;
  std::optional<Choice> beside_others(int depth) const;
  bool set_bound(int depth, std::size_t index, Found& bound) const;
  void offer(int depth, std::size_t index, std::optional<Found>& best) const;
  Placement placement_of(int depth, Choice choice) const;

  const Topology& topology_;
  const Room& room_;
  const Ask& ask_;
  const Beside beside_;
  const Chooser chooser_;
};

std::optional<Placement> Search::run() {
  for (int depth = topology_.host_depth(); depth >= ask_.required_depth; --depth) {
    auto best = !beside_.is_empty()               ? beside_others(depth)
                : depth == topology_.host_depth() ? best_host()
                                                  : best_of(depth);
    if (best) return placement_of(depth, std::move(*best));
  }
  return std::nullopt;
}

// There is one domain that has all of them.
std::optional<Choice> Search::beside_others(int depth) const {
  const Domain& domain = domain_of(topology_, depth, beside_.first());
  if (!beside_.lies_in(domain) || room_.units_in(topology_, depth, domain) < ask_.units)
    return std::nullopt;
  return chooser_.choose(depth, domain);
}

// One on which something runs, if there is, and with as little room as will do.
std::optional<Choice> Search::best_host() const {
  for (const bool is_pristine : {false, true}) {
    int best = -1;
    look_for_host(0, 0, is_pristine, best);
    if (best >= 0) return Choice{.hosts = {best}};
  }
  return std::nullopt;
}

void Search::look_for_host(int depth, std::size_t index, bool is_pristine, int& best) const {
  const Totals& totals = room_.totals(depth)[index];
  const bool is_perfect = best >= 0 && units_on(best) == ask_.units;
  if (totals.most < ask_.units || is_perfect || (!is_pristine && totals.in_use == 0)) return;
  const Domain& domain = topology_.domains(depth)[index];
  for (int child = domain.first_child; child < domain.end_child; ++child) {
    if (depth + 1 < topology_.host_depth()) {
      look_for_host(depth + 1, static_cast<std::size_t>(child), is_pristine, best);
      continue;
    }
    const int units = units_on(child);
    const bool is_better = units >= ask_.units && (best < 0 || units < units_on(best));
    if (is_better && room_.is_pristine(child) == is_pristine) best = child;
  }
}

// That no choice in this domain goes below. False: it does not hold the gang.
bool Search::set_bound(int depth, std::size_t index, Found& bound) const {
  const Totals& totals = room_.totals(depth)[index];
  if (totals.units < ask_.units) return false;
  const int levels = topology_.host_depth() - depth;
  const int hosts = (ask_.units + totals.most - 1) / totals.most;
  int children = hosts;
  if (levels > 1) {
    int largest = 0;
    const Domain& domain = topology_.domains(depth)[index];
    for (const Domain& child : topology_.children(depth, domain))
      largest = std::max(largest, room_.units_in(topology_, depth + 1, child));
    children = (ask_.units + largest - 1) / largest;
  }
  bound.choice.touched.assign(static_cast<std::size_t>(levels), children);
  bound.choice.touched.back() = std::max(hosts, children);
  bound.choice.pristine = std::max(bound.choice.touched.back() - totals.in_use, 0);
  bound.choice.left_over = totals.units - ask_.units;
  bound.index = index;
  return true;
}

void Search::offer(int depth, std::size_t index, std::optional<Found>& best) const {
  const Domain& domain = topology_.domains(depth)[index];
  if (best && chooser_.fewest_children(depth, domain) > best->choice.touched.front()) return;
  Found found{chooser_.choose(depth, domain), index};
  if (!best || found.key() < best->key()) best = std::move(found);
}

// First the one that promises most, then whoever may be better than what it keeps of that.
std::optional<Choice> Search::best_of(int depth) const {
  const std::size_t count = topology_.domains(depth).size();
  std::optional<Found> first;
  Found bound;
  for (std::size_t index = 0; index < count; ++index) {
    if (!set_bound(depth, index, bound)) continue;
    if (!first || bound.key() < first->key()) first = bound;
  }
  if (!first) return std::nullopt;
  std::optional<Found> best;
  offer(depth, first->index, best);
  for (std::size_t index = 0; index < count; ++index) {
    if (index != first->index && set_bound(depth, index, bound) && bound.key() < best->key())
      offer(depth, index, best);
  }
  return std::move(best->choice);
}

// What is too much is left on the new host that has the least: it cannot be as much as that host
// has, or the gang would do without it. Hosts that have members already are filled first.
Placement Search::placement_of(int depth, Choice choice) const {
  std::ranges::sort(choice.hosts);
  Placement placement{.depth = depth, .touched = std::move(choice.touched)};
  int least = -1, rest = ask_.units;
  std::map<int, int> shares;
  for (const int host : choice.hosts) {
    if (beside_.has(host)) {
      shares[host] = std::min(rest, units_on(host));
      rest -= shares[host];
    } else if (least < 0 || units_on(host) < units_on(least)) {
      least = host;
    }
  }
  for (const int host : choice.hosts) {
    if (beside_.has(host) || host == least) continue;
    shares[host] = units_on(host);
    rest -= shares[host];
  }
  if (least >= 0) shares[least] = rest;
  std::vector<Share> dealt;
  for (const auto& [host, units] : shares) {
    if (units > 0) dealt.push_back({host, units});
  }
  placement.shares = in_order_of_ranks(topology_, depth, beside_, std::move(dealt));
  return placement;
}

}  // namespace

const Domain& domain_of(const Topology& topology, int depth, int host) {
  const auto domains = topology.domains(depth);
  return *(std::ranges::upper_bound(domains, host, {}, &Domain::first_host) - 1);
}

int common_depth(const Topology& topology, std::span<const int> hosts) {
  int depth = topology.host_depth();
  if (hosts.empty()) return depth;
  const auto [first, last] = std::ranges::minmax(hosts);
  while (depth > 0 && domain_of(topology, depth, first).end_host <= last) --depth;
  return depth;
}

// A domain holds what those within it hold: the ones of this depth are enough to look at.
Largest largest(const Topology& topology, const Room& room, int depth) {
  Largest most;
  for (const Domain& domain : topology.domains(depth)) {
    const int units = room.units_in(topology, depth, domain);
    if (units > most.units) most = {units, &domain};
  }
  return most;
}

Placement place_within(const Topology& topology, const Room& room, const Ask& ask,
                       const Domain& domain) {
  return Search(topology, room, ask).within(ask.required_depth, domain);
}

std::optional<Placement> place(const Topology& topology, const Room& room, const Ask& ask) {
  PAWL_CHECK(ask.units > 0, "a gang has a member");
  PAWL_CHECK(std::cmp_equal(room.units().size(), topology.hosts()), "room is said of each host");
  return ask.has_slices() ? place_slices(topology, room, ask) : Search(topology, room, ask).run();
}

}  // namespace pawl::placement
