#include "operator/admission/court.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutant.h"

namespace pawl::admission {
namespace {

using placement::amount_of;
using placement::HostRange;

// So often a choice is made anew without one that must not be in it.
constexpr int kHearingsMax = 4;

// What its queue has borrowed of a resource that the other one takes.
std::int64_t borrowed(const Quotas& quotas, const Tenant& tenant,
                      const placement::Resources& wanted) {
  const Queue* queue = quotas.find(tenant.queue);
  std::int64_t most = 0;
  if (queue == nullptr) return most;
  for (const auto& [resource, quota] : queue->quotas) {
    const bool is_taken =
        amount_of(wanted, resource) > 0 && amount_of(quotas.charged(tenant.id), resource) > 0;
    if (is_taken) most = std::max(most, quotas.used(tenant.queue, resource) - quota.nominal);
  }
  return most;
}

}  // namespace

Court::Court(placement::Ledger& ledger, const Quotas& quotas, std::vector<Tenant> tenants,
             TimePoint now)
    : ledger_(ledger), now_used_(quotas), tenants_(std::move(tenants)), now_(now) {
  now_used_.drop_claims();
  quotas_ = now_used_;
  for (std::size_t tenant = 0; tenant < tenants_.size(); ++tenant) {
    if (!tenants_[tenant].is_leaving) continue;
    leaving_.insert(tenant);
    quotas_.charge(tenants_[tenant].id, tenants_[tenant].queue, {});
  }
  is_reserved_.assign(static_cast<std::size_t>(ledger_.topology().hosts()), false);
}

void Court::send_away(const std::string& id) {
  const auto found = std::ranges::lower_bound(tenants_, id, {}, &Tenant::id);
  if (found == tenants_.end() || found->id != id) return;
  found->is_leaving = found->is_sent_away = true;
  leaving_.insert(static_cast<std::size_t>(found - tenants_.begin()));
  quotas_.charge(id, found->queue, {});
}

void Court::reserve(const Gang& gang, const std::set<std::string>& hosts) {
  for (Quotas* quotas : {&now_used_, &quotas_}) {
    placement::Resources all = quotas->charged(gang.id);
    placement::add(all, charge_of(gang));
    quotas->charge(gang.id, gang.queue, std::move(all));
  }
  for (const std::string& name : hosts) {
    if (const auto host = ledger_.number_of(name))
      is_reserved_[static_cast<std::size_t>(*host)] = true;
  }
}

// ---- who may be sent away

bool Court::may_reclaim(const Gang& gang, const Tenant& tenant, const Quotas& quotas) const {
  const Queue* own = quotas.find(gang.queue);
  const bool may_take = own != nullptr && own->reclaim != Reclaim::kNever &&
                        charged_units(gang, gang.ask.units) > 0 && tenant.queue != gang.queue;
  if (!may_take) return false;
  if (own->reclaim == Reclaim::kLowerPriority && tenant.priority >= gang.priority) return false;
  const placement::Resources wanted = charge_of(gang);
  return !quotas.borrows(gang.queue, wanted) && borrowed(quotas, tenant, wanted) > 0;
}

// True: because its queue has borrowed. Nothing: it may not.
std::optional<bool> Court::right_over(const Gang& gang, const Tenant& tenant,
                                      const Quotas& quotas) const {
  if (tenant.id == gang.id) return std::nullopt;
  if (may_reclaim(gang, tenant, quotas)) return true;
  const Queue* queue = quotas.find(gang.queue);
  const bool may_within = gang.queue.empty() || (queue != nullptr && queue->preempts_within);
  const int margin = is_mutant(Mutant::kI45EqualsLeave) ? 1 : 0;
  const bool is_lower = tenant.queue == gang.queue && tenant.priority < gang.priority + margin;
  return may_within && is_lower && gang.preempts ? std::optional{false} : std::nullopt;
}

bool Court::is_protected(const Tenant& tenant) {
  if (!tenant.protected_until || *tenant.protected_until <= now_) return false;
  again_ = std::min(again_.value_or(*tenant.protected_until), *tenant.protected_until);
  return true;
}

// Each right where all are gone that go before it: those of its own queue first, which may have to
// go so that it need not borrow; then the smallest, so that as many as possible are right.
std::optional<std::size_t> Court::without_right(const Gang& gang, const Set& victims,
                                                Eviction& eviction) const {
  Quotas quotas = quotas_;
  const placement::Resources wanted = charge_of(gang);
  std::vector<std::size_t> order(victims.begin(), victims.end());
  const auto charge = [&](std::size_t tenant) {
    std::int64_t sum = 0;
    for (const auto& [resource, amount] : quotas_.charged(tenants_[tenant].id))
      sum += amount_of(wanted, resource) > 0 ? amount : 0;
    return std::tuple{tenants_[tenant].queue != gang.queue, sum, tenant};
  };
  std::ranges::sort(order, {}, charge);
  eviction.victims.clear();
  for (const std::size_t tenant : order) {
    const auto right = right_over(gang, tenants_[tenant], quotas);
    if (!right) return tenant;
    eviction.victims.push_back({tenants_[tenant].id, *right});
    quotas.charge(tenants_[tenant].id, tenants_[tenant].queue, {});
  }
  std::ranges::sort(eviction.victims, {}, &Eviction::Victim::id);
  return std::nullopt;
}

// ---- who has to go

// By priority, from the highest on: the work that is lost, and how many gangs.
std::vector<std::pair<std::int64_t, std::pair<std::int64_t, std::size_t>>> Court::price_of(
    const Set& victims) const {
  std::map<std::int64_t, std::pair<std::int64_t, std::size_t>, std::greater<>> levels;
  for (const std::size_t tenant : victims) {
    auto& [lost, count] = levels[tenants_[tenant].priority];
    lost += tenants_[tenant].lost;
    ++count;
  }
  return {levels.begin(), levels.end()};
}

// Those that cost least, until there is enough; then without those that were not needed, the
// dearest first. Not the least in all cases: what each would give back is not weighed.
std::optional<Court::Set> Court::quota_victims(const Gang& gang, const Set& candidates,
                                               Quotas quotas) const {
  const placement::Resources wanted = charge_of(gang);
  std::vector<std::size_t> order(candidates.begin(), candidates.end());
  std::ranges::sort(order, {}, [&](std::size_t tenant) {
    return std::tuple{tenants_[tenant].priority, tenants_[tenant].lost, tenant};
  });
  const auto set_charge = [&](std::size_t tenant, const placement::Resources& amount) {
    quotas.charge(tenants_[tenant].id, tenants_[tenant].queue, amount);
  };
  std::vector<std::size_t> gone;
  for (const std::size_t tenant : order) {
    if (!quotas.shortage(gang.queue, wanted)) break;
    if (!right_over(gang, tenants_[tenant], quotas)) continue;
    set_charge(tenant, {});
    gone.push_back(tenant);
  }
  if (quotas.shortage(gang.queue, wanted)) return std::nullopt;
  Set needed;
  for (const std::size_t tenant : gone) needed.insert(tenant);
  for (auto tenant = gone.rbegin(); tenant != gone.rend(); ++tenant) {
    set_charge(*tenant, quotas_.charged(tenants_[*tenant].id));
    if (quotas.shortage(gang.queue, wanted)) {
      set_charge(*tenant, {});
    } else {
      needed.erase(*tenant);
    }
  }
  return needed;
}

std::optional<Court::Set> Court::room_victims(const Gang& gang, const Set& candidates,
                                              const Set& gone, HostRange& domain) {
  std::vector<Runner> runners;
  std::vector<std::size_t> numbers;
  Need need{.shape = gang.shape, .ask = ask_of(ledger_, gang), .is_closed = is_closed_};
  for (std::size_t tenant = 0; tenant < tenants_.size(); ++tenant) {
    const bool is_gone = leaving_.contains(tenant) || gone.contains(tenant);
    if (!is_gone && !candidates.contains(tenant)) continue;
    const Tenant& one = tenants_[tenant];
    runners.push_back({.id = one.id, .priority = one.priority, .lost = one.lost});
    need.is_leaving.push_back(is_gone);
    numbers.push_back(tenant);
  }
  ++searches_;
  const auto found = choose_victims(ledger_, need, runners);
  if (!found) return std::nullopt;
  domain = found->domain;
  Set victims;
  for (const Victim& victim : found->victims) {
    PAWL_CHECK(!victim.is_shrunk, "nobody is said to have more than its least");
    const auto runner = std::ranges::lower_bound(runners, victim.id, {}, &Runner::id);
    victims.insert(numbers[static_cast<std::size_t>(runner - runners.begin())]);
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
    Quotas quotas = quotas_;
    for (const std::size_t tenant : *room)
      quotas.charge(tenants_[tenant].id, tenants_[tenant].queue, {});
    Set others;
    std::ranges::set_difference(candidates, *room, std::inserter(others, others.end()));
    if (auto more = quota_victims(gang, others, std::move(quotas))) {
      room->insert(more->begin(), more->end());
      offer(std::move(*room), domain);
    }
  }
  if (!quotas_.shortage(gang.queue, wanted)) return best;
  if (auto gone = quota_victims(gang, candidates, quotas_)) {
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
  for (const std::size_t tenant : gone) leavers.push_back({tenants_[tenant].id, {}});
  const int hosts = ledger_.topology().hosts();
  placement::Clearing clearing = ledger_.clearing(gang.shape, leavers);
  for (std::size_t group = 0; group < 2 * leavers.size(); ++group)
    clearing.take_out(group, {0, hosts});
  placement::Room room = clearing.room();
  for (int host = 0; host < hosts; ++host) {
    const auto number = static_cast<std::size_t>(host);
    if (host < range.first || host >= range.end || is_closed_[number]) room.units[number] = 0;
  }
  return placement::place(ledger_.topology(), room, ask_of(ledger_, gang));
}

// ---- what is asked for

std::set<std::string> Court::names(const placement::Placement& placed) {
  std::set<std::string> hosts;
  for (const placement::Share& share : placed.shares)
    hosts.insert(ledger_.topology().host(share.host));
  return hosts;
}

// Nobody is sent away from machines that are only to be avoided: it may be refused there again.
void Court::close(const Gang& gang, const std::set<std::string>& hosts) {
  is_closed_ = is_reserved_;
  const auto close_one = [&](const std::string& name) {
    if (const auto host = ledger_.number_of(name))
      is_closed_[static_cast<std::size_t>(*host)] = true;
  };
  std::ranges::for_each(hosts, close_one);
  std::ranges::for_each(gang.avoided, close_one);
}

// Somebody leaves already whom it might have sent away.
bool Court::is_owed(const Gang& gang) const {
  return std::ranges::any_of(leaving_, [&](std::size_t tenant) {
    return tenants_[tenant].is_sent_away && right_over(gang, tenants_[tenant], now_used_);
  });
}

std::optional<Eviction> Court::judge(const Gang& gang, const std::set<std::string>& closed) {
  if (gang.is_refused) return std::nullopt;
  close(gang, closed);
  const auto shortage = quotas_.shortage(gang.queue, charge_of(gang));
  if (shortage && shortage->is_for_ever) return std::nullopt;
  Set candidates;
  for (std::size_t tenant = 0; tenant < tenants_.size(); ++tenant) {
    const Tenant& one = tenants_[tenant];
    if (!one.is_leaving && right_over(gang, one, quotas_) && !is_protected(one))
      candidates.insert(tenant);
  }
  if (candidates.empty() && !is_owed(gang)) return std::nullopt;
  for (int hearing = 0; hearing < kHearingsMax; ++hearing) {
    const auto chosen = choose(gang, candidates);
    if (!chosen || (chosen->victims.empty() && !is_owed(gang))) return std::nullopt;
    Eviction eviction;
    if (const auto wronged = without_right(gang, chosen->victims, eviction)) {
      candidates.erase(*wronged);
      continue;
    }
    Set gone = leaving_;
    gone.insert(chosen->victims.begin(), chosen->victims.end());
    const auto placed = placed_in(gang, gone, chosen->domain);
    if (!placed) return std::nullopt;
    eviction.hosts = names(*placed);
    return eviction;
  }
  return std::nullopt;
}

bool Court::holds(const Gang& gang, const std::set<std::string>& hosts) {
  if (quotas_.shortage(gang.queue, charge_of(gang))) return false;
  is_closed_.assign(is_reserved_.size(), true);
  for (const std::string& name : hosts) {
    const auto host = ledger_.number_of(name);
    if (host && !is_reserved_[static_cast<std::size_t>(*host)])
      is_closed_[static_cast<std::size_t>(*host)] = false;
  }
  return placed_in(gang, leaving_, {0, ledger_.topology().hosts()}).has_value();
}

}  // namespace pawl::admission
