// Who has to go so that a gang has room and quota (court.h).
#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "operator/admission/court.h"

namespace pawl::admission {

using placement::HostRange;

// By priority, from the highest on: the work that is lost, and how many gangs; then the pods of
// those that become smaller.
std::vector<std::pair<std::int64_t, std::pair<std::int64_t, std::size_t>>> Court::price_of(
    const Set& victims) const {
  std::map<std::int64_t, std::pair<std::int64_t, std::size_t>, std::greater<>> levels;
  for (const std::size_t tenant : tenants_of(victims)) {
    const Tenant& one = tenants_[tenant];
    const bool leaves = victims.contains(rest_of(tenant));
    auto& [lost, count] = levels[leaves ? one.priority : kShrunk];
    lost += leaves ? one.lost : std::ssize(one.spare);
    ++count;
  }
  return {levels.begin(), levels.end()};
}

// Those that cost least, until there is enough; then without those that were not needed, the
// dearest first. Not the least in all cases: what each would give back is not weighed.
std::optional<Court::Set> Court::quota_victims(const Gang& gang, const Set& candidates,
                                               const Set& gone) const {
  const placement::Resources wanted = charge_of(gang);
  std::vector<std::size_t> order(candidates.begin(), candidates.end());
  std::ranges::sort(order, {}, [&](std::size_t part) {
    const Tenant& one = tenants_[part / 2];
    const bool leaves = part == rest_of(part / 2);
    return leaves ? std::tuple{one.priority, one.lost, part}
                  : std::tuple{kShrunk, std::int64_t{std::ssize(one.spare)}, part};
  });
  Quotas quotas = quotas_;
  for (const std::size_t tenant : tenants_of(gone)) charge(quotas, tenant, gone);
  Set all = gone;
  std::vector<std::size_t> taken;
  for (const std::size_t part : order) {
    if (!quotas.shortage(gang.queue, wanted)) break;
    if (!right_over(gang, tenants_[part / 2], quotas)) continue;
    all.insert(part);
    charge(quotas, part / 2, all);
    taken.push_back(part);
  }
  if (quotas.shortage(gang.queue, wanted)) return std::nullopt;
  for (auto part = taken.rbegin(); part != taken.rend(); ++part) {
    all.erase(*part);
    charge(quotas, *part / 2, all);
    if (!quotas.shortage(gang.queue, wanted)) continue;
    all.insert(*part);
    charge(quotas, *part / 2, all);
  }
  Set needed;
  for (const std::size_t part : all) {
    if (gone.contains(part)) continue;
    needed.insert(part);
    if (part == rest_of(part / 2)) needed.insert(spare_of(part / 2));
  }
  return needed;
}

std::optional<Court::Set> Court::room_victims(const Gang& gang, const Set& candidates,
                                              const Set& gone, HostRange& domain) {
  std::vector<Runner> runners;
  std::vector<std::size_t> numbers;
  Need need{.shape = gang.shape, .ask = ask_of(ledger_, gang), .is_closed = is_closed_};
  const auto is_gone = [&](std::size_t part) {
    return leaving_.contains(part) || gone.contains(part);
  };
  for (std::size_t tenant = 0; tenant < tenants_.size(); ++tenant) {
    const bool may_go = candidates.contains(rest_of(tenant));
    const Runner::Part part = is_gone(rest_of(tenant))    ? Runner::Part::kAll
                              : is_gone(spare_of(tenant)) ? Runner::Part::kSpare
                                                          : Runner::Part::kNone;
    if (part == Runner::Part::kNone && !may_go) continue;
    const Tenant& one = tenants_[tenant];
    Runner runner{.id = one.id, .priority = one.priority, .lost = one.lost};
    for (const Spare& spare : one.spare) runner.spare.push_back(spare.pod);
    runner.gone = part;
    runner.may_go = may_go;
    runners.push_back(std::move(runner));
    numbers.push_back(tenant);
  }
  ++searches_;
  const auto found = choose_victims(ledger_, need, runners);
  if (!found) return std::nullopt;
  domain = found->domain;
  Set victims;
  for (const Victim& victim : found->victims) {
    const auto runner = std::ranges::lower_bound(runners, victim.id, {}, &Runner::id);
    const std::size_t tenant = numbers[static_cast<std::size_t>(runner - runners.begin())];
    victims.insert(spare_of(tenant));
    if (!victim.is_shrunk) victims.insert(rest_of(tenant));
  }
  return victims;
}

// Quota first, or room first: what is given back for the one may be enough for the other.
std::optional<Court::Choice> Court::choose(const Gang& gang, const Set& candidates) {
  const placement::Resources wanted = charge_of(gang);
  std::optional<Choice> best;
  const auto offer = [&](Set victims, HostRange domain) {
    if (!best || price_of(victims) < price_of(best->victims))
      best = Choice{std::move(victims), domain};
  };
  HostRange domain;
  if (auto room = room_victims(gang, candidates, {}, domain)) {
    Set others;
    std::ranges::set_difference(candidates, *room, std::inserter(others, others.end()));
    if (auto more = quota_victims(gang, others, *room)) {
      room->insert(more->begin(), more->end());
      offer(std::move(*room), domain);
    }
  }
  if (!quotas_.shortage(gang.queue, wanted)) return best;
  if (auto gone = quota_victims(gang, candidates, {})) {
    Set others;
    std::ranges::set_difference(candidates, *gone, std::inserter(others, others.end()));
    if (auto room = room_victims(gang, others, *gone, domain)) {
      room->insert(gone->begin(), gone->end());
      offer(std::move(*room), domain);
    }
  }
  return best;
}

std::optional<placement::Placement> Court::placed_in(const Gang& gang, const Set& gone,
                                                     HostRange range) {
  std::vector<placement::Ledger::Leaver> leavers;
  const std::set<std::size_t> tenants = tenants_of(gone);
  for (const std::size_t tenant : tenants) {
    leavers.push_back({tenants_[tenant].id, {}});
    for (const Spare& spare : tenants_[tenant].spare) leavers.back().spare.push_back(spare.pod);
  }
  const placement::Topology& topology = ledger_.topology();
  const int hosts = topology.hosts();
  placement::Clearing clearing = ledger_.clearing(gang.shape, leavers);
  std::size_t leaver = 0;
  for (const std::size_t tenant : tenants) {
    clearing.take_out(spare_of(leaver), {0, hosts});
    if (gone.contains(rest_of(tenant))) clearing.take_out(rest_of(leaver), {0, hosts});
    ++leaver;
  }
  for (int host = range.first; host < range.end; ++host) {
    if (is_closed_[static_cast<std::size_t>(host)]) clearing.close(host);
  }
  return placement::place(topology, clearing.room(topology, range), ask_of(ledger_, gang));
}

}  // namespace pawl::admission
