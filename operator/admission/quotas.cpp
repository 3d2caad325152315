#include "operator/admission/quotas.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/mutant.h"

namespace pawl::admission {
namespace {

using placement::amount_of;

__extension__ using Wide = __int128;

std::int64_t amount_of(const std::map<std::string, placement::Resources>& used,
                       const std::string& queue, const std::string& resource) {
  const auto found = used.find(queue);
  return found == used.end() ? 0 : amount_of(found->second, resource);
}

// What others may use of it.
std::int64_t lent_of(const Quota& quota) {
  return std::min(quota.lending_max.value_or(quota.nominal), quota.nominal);
}

// What nobody else may use.
std::int64_t own_of(const Quota& quota) { return quota.nominal - lent_of(quota); }

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t plus(std::int64_t one, std::int64_t more) {
  return more > kMost - one ? kMost : one + more;
}

std::int64_t most_of(const Quota& quota) {
  return plus(quota.nominal, quota.borrowing_max.value_or(kMost));
}

}  // namespace

bool Quotas::set(const std::string& name, Queue queue) {
  const auto known = queues_.find(name);
  if (known != queues_.end() && known->second == queue) return false;
  drop(name);
  ++changes_;
  queues_[name] = std::move(queue);
  fill_pools();
  return true;
}

bool Quotas::drop(const std::string& name) {
  left_.clear();
  const auto known = queues_.find(name);
  if (known == queues_.end()) return false;
  ++changes_;
  queues_.erase(known);
  fill_pools();
  return true;
}

// Anew, as sums that stop at the most cannot be taken apart again.
void Quotas::fill_pools() {
  pools_.clear();
  for (const auto& [name, queue] : queues_) {
    for (const auto& [resource, quota] : queue.quotas) {
      Pool& pool = pools_[resource];
      pool.total = plus(pool.total, quota.nominal);
      pool.lent = plus(pool.lent, lent_of(quota));
    }
  }
}

const Queue* Quotas::find(const std::string& name) const {
  const auto found = queues_.find(name);
  return found == queues_.end() ? nullptr : &found->second;
}

// ---- what is used

void Quotas::count(const Charge& charge, int sign) {
  ++changes_;
  left_.clear();
  for (const auto& [resource, amount] : charge.amount)
    used_[charge.queue][resource] += sign * amount;
  running_[charge.queue] += sign;
}

bool Quotas::charge(const std::string& owner, const std::string& queue,
                    placement::Resources amount) {
  std::erase_if(amount, [](const auto& entry) { return entry.second == 0; });
  const auto known = charges_.find(owner);
  bool is_freed = false;
  if (known != charges_.end()) {
    const Charge& before = known->second;
    if (before.queue == queue && before.amount == amount) return false;
    is_freed = before.queue != queue || std::ranges::any_of(before.amount, [&](const auto& entry) {
                 return amount_of(amount, entry.first) < entry.second;
               });
    count(before, -1);
    charges_.erase(known);
  }
  if (amount.empty()) return is_freed;
  Charge now{queue, std::move(amount)};
  count(now, 1);
  charges_.emplace(owner, std::move(now));
  return is_freed;
}

const placement::Resources& Quotas::charged(const std::string& owner) const {
  static const placement::Resources kNothing;
  const auto found = charges_.find(owner);
  return found == charges_.end() ? kNothing : found->second.amount;
}

std::int64_t Quotas::used(const std::string& queue, const std::string& resource) const {
  return amount_of(used_, queue, resource);
}

int Quotas::running(const std::string& queue) const {
  const auto found = running_.find(queue);
  return found == running_.end() ? 0 : found->second;
}

void Quotas::set_claim(const std::string& queue, placement::Resources amount) {
  left_.clear();
  claims_[queue] = std::move(amount);
}

void Quotas::drop_claims() {
  left_.clear();
  claims_.clear();
}

// ---- what more may be used

placement::Resources Quotas::entitled(const std::string& name,
                                      const placement::Resources& more) const {
  placement::Resources part;
  const Queue* queue = find(name);
  if (queue == nullptr) return part;
  for (const auto& [resource, quota] : queue->quotas) {
    const std::int64_t rest = std::max<std::int64_t>(0, quota.nominal - used(name, resource));
    part[resource] = std::min(amount_of(more, resource), rest);
  }
  return part;
}

std::int64_t Quotas::taken(const std::string& queue, const std::string& resource,
                           Claims claims) const {
  const std::int64_t claim =
      claims == Claims::kAll ? amount_of(claims_, queue, resource) : std::int64_t{0};
  return used(queue, resource) + claim;
}

// Below 0 where more is taken than there is.
std::int64_t Quotas::left_in_pool(const std::string& resource, Claims claims) const {
  const auto [entry, is_new] = left_.try_emplace({resource, claims}, 0);
  if (!is_new) return entry->second;
  std::int64_t left = pools_.at(resource).lent;
  for (const auto& [name, queue] : queues_) {
    const auto quota = queue.quotas.find(resource);
    if (quota == queue.quotas.end()) continue;
    left -= std::max<std::int64_t>(0, taken(name, resource, claims) - own_of(quota->second));
  }
  return entry->second = left;
}

std::optional<Shortage> Quotas::shortage(const std::string& name, const placement::Resources& more,
                                         Claims claims) const {
  const Queue* queue = find(name);
  if (queue == nullptr || is_mutant(Mutant::kI44QuotaUnseen)) return std::nullopt;
  constexpr std::int64_t kNone = 0;
  std::optional<Shortage> first;
  for (const auto& [resource, quota] : queue->quotas) {
    const std::int64_t needed = amount_of(more, resource);
    if (needed == 0) continue;
    const std::int64_t own = own_of(quota), most = most_of(quota);
    const std::int64_t all = taken(name, resource, claims);
    // What is its own nobody else has a claim to.
    const bool is_own = plus(all, needed) <= quota.nominal && !is_mutant(Mutant::kO14ClaimedByAll);
    const Claims of_others = claims == Claims::kNone || is_own ? Claims::kNone : Claims::kAll;
    // Of the pool its own claims, too, are taken only where they count.
    const std::int64_t from_pool = std::max(kNone, all - own),
                       counted = std::max(kNone, taken(name, resource, of_others) - own);
    const std::int64_t left =
        std::max(kNone, left_in_pool(resource, of_others) + counted - from_pool);
    const std::int64_t in_reach = std::max(kNone, own - all) + left;
    const std::int64_t available = std::min(in_reach, most - std::min(all, most));
    if (needed <= available) continue;
    const bool is_for_ever = needed > std::min(most, plus(own, pools_.at(resource).lent));
    const Shortage lacking{resource,      needed,     available, used(name, resource),
                           quota.nominal, is_for_ever};
    if (is_for_ever) return lacking;
    if (!first) first = lacking;
  }
  return first;
}

bool Quotas::borrows(const std::string& name, const placement::Resources& more) const {
  const Queue* queue = find(name);
  if (queue == nullptr) return false;
  return std::ranges::any_of(queue->quotas, [&](const auto& entry) {
    const std::int64_t needed = amount_of(more, entry.first);
    return needed > 0 && used(name, entry.first) + needed > entry.second.nominal;
  });
}

std::int64_t Quotas::millionths(const std::string& name) const {
  const auto used = used_.find(name);
  std::int64_t largest = 0;
  if (used == used_.end()) return 0;
  for (const auto& [resource, amount] : used->second) {
    const auto pool = pools_.find(resource);
    if (pool == pools_.end() || pool->second.total == 0) continue;
    const Wide share = Wide{amount} * 1'000'000 / pool->second.total;
    largest = std::max(largest, static_cast<std::int64_t>(std::min<Wide>(share, kMost)));
  }
  return largest;
}

std::int64_t Quotas::share(const std::string& name) const {
  const Queue* queue = find(name);
  return millionths(name) / (queue == nullptr ? 1 : queue->weight);
}

int Quotas::share_percent(const std::string& name) const {
  constexpr std::int64_t kPercentMax = std::numeric_limits<int>::max();
  return static_cast<int>(std::min(millionths(name) / 10'000, kPercentMax));
}

}  // namespace pawl::admission
