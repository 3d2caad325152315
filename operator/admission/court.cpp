#include "operator/admission/court.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/mutant.h"

namespace pawl::admission {
namespace {

using placement::amount_of;

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

placement::Resources without(placement::Resources all, const placement::Resources& each,
                             std::size_t pods) {
  const placement::Resources less = placement::times(each, static_cast<int>(pods));
  for (auto& [resource, amount] : all)
    amount = std::max<std::int64_t>(amount - amount_of(less, resource), 0);
  return all;
}

}  // namespace

Court::Court(placement::Ledger& ledger, const Quotas& quotas, std::vector<Tenant> tenants,
             TimePoint now)
    : ledger_(ledger), now_used_(quotas), tenants_(std::move(tenants)), now_(now) {
  now_used_.drop_claims();
  quotas_ = now_used_;
  for (std::size_t tenant = 0; tenant < tenants_.size(); ++tenant) {
    const Tenant& one = tenants_[tenant];
    if (one.is_leaving || one.is_shrinking) leaving_.insert(spare_of(tenant));
    if (one.is_leaving) leaving_.insert(rest_of(tenant));
    if (leaving_.contains(spare_of(tenant))) charge(quotas_, tenant, {});
  }
  is_reserved_.assign(static_cast<std::size_t>(ledger_.topology().hosts()), false);
}

std::set<std::size_t> Court::tenants_of(const Set& parts) {
  std::set<std::size_t> tenants;
  for (const std::size_t part : parts) tenants.insert(part / 2);
  return tenants;
}

// Of its quota.
placement::Resources Court::left_of(std::size_t tenant, const Set& gone) const {
  const auto is_gone = [&](std::size_t part) {
    return leaving_.contains(part) || gone.contains(part);
  };
  const Tenant& one = tenants_[tenant];
  if (is_gone(rest_of(tenant))) return {};
  placement::Resources left = now_used_.charged(one.id);
  if (!is_gone(spare_of(tenant))) return left;
  return without(std::move(left), one.each, one.spare.size());
}

void Court::charge(Quotas& quotas, std::size_t tenant, const Set& gone) const {
  quotas.charge(tenants_[tenant].id, tenants_[tenant].queue, left_of(tenant, gone));
}

void Court::send_away(const Eviction::Victim& victim) {
  const auto found = std::ranges::lower_bound(tenants_, victim.id, {}, &Tenant::id);
  if (found == tenants_.end() || found->id != victim.id) return;
  const auto tenant = static_cast<std::size_t>(found - tenants_.begin());
  found->is_sent_away = true;
  leaving_.insert(spare_of(tenant));
  if (victim.gives_up.empty()) {
    found->is_leaving = true;
    leaving_.insert(rest_of(tenant));
  } else {
    found->is_shrinking = true;
    found->spare = victim.gives_up;
  }
  charge(quotas_, tenant, {});
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
  const std::set<std::size_t> tenants = tenants_of(victims);
  std::vector<std::size_t> order(tenants.begin(), tenants.end());
  const auto freed = [&](std::size_t tenant) {
    const placement::Resources left = left_of(tenant, victims);
    std::int64_t sum = 0;
    for (const auto& [resource, amount] : quotas_.charged(tenants_[tenant].id))
      sum += amount_of(wanted, resource) > 0 ? amount - amount_of(left, resource) : 0;
    return std::tuple{tenants_[tenant].queue != gang.queue, sum, tenant};
  };
  std::ranges::sort(order, {}, freed);
  eviction.victims.clear();
  for (const std::size_t tenant : order) {
    const Tenant& one = tenants_[tenant];
    const auto right = right_over(gang, one, quotas);
    if (!right) return tenant;
    const bool leaves = victims.contains(rest_of(tenant));
    eviction.victims.push_back({one.id, *right, leaves ? std::vector<Spare>{} : one.spare});
    charge(quotas, tenant, victims);
  }
  std::ranges::sort(eviction.victims, {}, &Eviction::Victim::id);
  return std::nullopt;
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
  return std::ranges::any_of(tenants_of(leaving_), [&](std::size_t tenant) {
    return tenants_[tenant].is_sent_away && right_over(gang, tenants_[tenant], now_used_);
  });
}

// Where the gang will not be: as many of them as there is quota for beside it.
void Court::keep_unneeded(const Gang& gang, Eviction& eviction) const {
  const placement::Resources wanted = charge_of(gang);
  Quotas quotas = quotas_;
  const auto charge_without = [&](const Eviction::Victim& victim, std::size_t pods) {
    const auto tenant = std::ranges::lower_bound(tenants_, victim.id, {}, &Tenant::id);
    placement::Resources left;  // of one that leaves
    if (pods > 0) left = without(quotas_.charged(victim.id), tenant->each, pods);
    quotas.charge(victim.id, tenant->queue, std::move(left));
  };
  for (const Eviction::Victim& victim : eviction.victims)
    charge_without(victim, victim.gives_up.size());
  for (Eviction::Victim& victim : eviction.victims) {
    const std::vector<Spare> spares = victim.gives_up;
    for (const Spare& spare : spares) {
      if (eviction.hosts.contains(spare.host) || victim.gives_up.size() == 1) continue;
      charge_without(victim, victim.gives_up.size() - 1);
      if (!quotas.shortage(gang.queue, wanted)) {
        std::erase(victim.gives_up, spare);
      } else {
        charge_without(victim, victim.gives_up.size());
      }
    }
  }
}

Court::Set Court::candidates_for(const Gang& gang) {
  Set candidates;
  for (std::size_t tenant = 0; tenant < tenants_.size(); ++tenant) {
    const Tenant& one = tenants_[tenant];
    // What one that becomes smaller can do without is not known before it has.
    if (one.is_leaving || one.is_shrinking) continue;
    if (!right_over(gang, one, quotas_) || is_protected(one)) continue;
    candidates.insert(rest_of(tenant));
    if (!one.spare.empty()) candidates.insert(spare_of(tenant));
  }
  return candidates;
}

std::optional<Eviction> Court::judge(const Gang& gang, const std::set<std::string>& closed) {
  if (gang.is_refused) return std::nullopt;
  close(gang, closed);
  const auto shortage = quotas_.shortage(gang.queue, charge_of(gang));
  if (shortage && shortage->is_for_ever) return std::nullopt;
  Set candidates = candidates_for(gang);
  if (candidates.empty() && !is_owed(gang)) return std::nullopt;
  for (int hearing = 0; hearing < kHearingsMax; ++hearing) {
    const auto chosen = choose(gang, candidates);
    if (!chosen || (chosen->victims.empty() && !is_owed(gang))) return std::nullopt;
    Eviction eviction;
    if (const auto wronged = without_right(gang, chosen->victims, eviction)) {
      candidates.erase(spare_of(*wronged));
      candidates.erase(rest_of(*wronged));
      continue;
    }
    Set gone = leaving_;
    gone.insert(chosen->victims.begin(), chosen->victims.end());
    const auto placed = placed_in(gang, gone, chosen->domain);
    if (!placed) return std::nullopt;
    eviction.hosts = names(*placed);
    keep_unneeded(gang, eviction);
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
