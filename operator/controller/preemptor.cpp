#include "operator/controller/preemptor.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace pawl::controller {
namespace {

using admission::Court;
using admission::Eviction;
using admission::Gang;
using admission::Spare;
using admission::Tenant;

constexpr std::chrono::seconds kEvery{1};
// Each takes some tens of milliseconds on 15,000 hosts; who is left is looked at the next time.
constexpr int kSearchesMax = 8;
constexpr std::size_t kAwaitedMax = 3;  // fewer than reservations: one of those remains

std::string why_of(const Gang& gang, std::int64_t priority, const Eviction::Victim& victim,
                   const std::string& queue) {
  if (victim.is_reclaimed)
    return "job " + gang.id + " takes back what queue " + queue + " has borrowed of queue " +
           gang.queue;
  return "job " + gang.id + " of priority " + std::to_string(gang.priority) +
         " needs its room, and this one has priority " + std::to_string(priority);
}

}  // namespace

void Preemptor::note(const std::string& id, const std::optional<Occupant>& occupant) {
  const auto known = occupants_.find(id);
  if (!occupant) {
    if (known == occupants_.end()) return;
    occupants_.erase(known);
    orders_.erase(id);
    left_for_.erase(id);
    return want();
  }
  note_order(id, *occupant);
  if (known != occupants_.end() && known->second == *occupant) return;
  const bool is_new = known == occupants_.end();
  const Occupant before = is_new ? *occupant : known->second;
  occupants_[id] = *occupant;
  if (before.is_shrinking && !occupant->is_shrinking && !occupant->is_leaving) left_for_.erase(id);
  // A newer checkpoint makes nobody have to leave who had not to before.
  const bool is_news = is_new || before.is_leaving != occupant->is_leaving ||
                       before.priority != occupant->priority || before.queue != occupant->queue ||
                       before.is_shrinking != occupant->is_shrinking ||
                       before.spare != occupant->spare;
  if (is_news) want();
}

void Preemptor::note_each(const std::string& id, placement::Resources each) {
  const auto known = occupants_.find(id);
  if (known != occupants_.end() && !known->second.spare.empty())
    known->second.each = std::move(each);
}

// It is in its view, or cannot be carried out as it is.
void Preemptor::note_order(const std::string& id, const Occupant& occupant) {
  const auto order = orders_.find(id);
  if (order == orders_.end()) return;
  const std::vector<Spare>& pods = order->second.pods;
  const bool is_carried_out = occupant.is_leaving || (occupant.is_shrinking && !pods.empty());
  const bool are_spare = std::ranges::all_of(pods, [&](const Spare& pod) {
    return std::ranges::find(occupant.spare, pod) != occupant.spare.end();
  });
  if (!is_carried_out && are_spare) return;
  if (!is_carried_out) left_for_.erase(id);
  orders_.erase(order);
}

void Preemptor::note_end(const std::string& id) {
  const auto known = occupants_.find(id);
  if (known == occupants_.end() || known->second.is_leaving) return;
  known->second.is_leaving = true;
  orders_.erase(id);
  want();
}

const Preemptor::Order* Preemptor::order_for(const std::string& id,
                                             const admission::Line& line) const {
  const auto found = orders_.find(id);
  const bool is_valid = found != orders_.end() && line.awaited().contains(found->second.asker);
  return is_valid ? &found->second : nullptr;
}

int Preemptor::leaving_for(const std::string& id) const {
  return static_cast<int>(
      std::ranges::count(left_for_, id, &std::pair<const std::string, std::string>::second));
}

std::optional<TimePoint> Preemptor::next() const {
  if (is_wanted_) return not_before_;
  return again_ ? std::optional{std::max(*again_, not_before_)} : std::nullopt;
}

Court Preemptor::court(const admission::Stock& stock, TimePoint now) const {
  std::vector<Tenant> tenants;
  tenants.reserve(occupants_.size());
  for (const auto& [id, one] : occupants_) {
    const auto idle = now - std::max(one.placed_at, one.saved_at);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(idle).count();
    Tenant tenant{.id = id,
                  .priority = one.priority,
                  .lost = one.devices * std::max<std::int64_t>(seconds, 0),
                  .queue = one.queue,
                  .is_leaving = one.is_leaving,
                  .is_sent_away = one.is_preempted || one.is_shrinking,
                  .spare = one.spare,
                  .each = one.each,
                  .is_shrinking = one.is_shrinking};
    if (const auto order = orders_.find(id); order != orders_.end()) {
      tenant.is_sent_away = true;
      tenant.is_shrinking = !order->second.pods.empty();
      tenant.is_leaving = !tenant.is_shrinking;
      if (tenant.is_shrinking) tenant.spare = order->second.pods;
    }
    if (const admission::Queue* queue = stock.quotas.find(one.queue))
      tenant.protected_until = one.placed_at + queue->protected_for;
    tenants.push_back(std::move(tenant));
  }
  return {stock.ledger, stock.quotas, std::move(tenants), now};
}

// Of whom nobody waits for any more.
bool Preemptor::drop_orders(const admission::Line& line) {
  return std::erase_if(orders_, [&](const auto& entry) {
           if (line.awaited().contains(entry.second.asker)) return false;
           left_for_.erase(entry.first);
           return true;
         }) > 0;
}

std::vector<std::string> Preemptor::order(const Gang& gang, const Eviction& eviction,
                                          Court& court) {
  std::vector<std::string> leaving;
  for (const Eviction::Victim& victim : eviction.victims) {
    const Occupant& one = occupants_.at(victim.id);
    court.send_away(victim);
    orders_[victim.id] = {gang.id, why_of(gang, one.priority, victim, one.queue), victim.gives_up};
    left_for_[victim.id] = gang.id;
    leaving.push_back(victim.id);
  }
  return leaving;
}

void Preemptor::restore(const admission::Stock& stock, admission::Line& line, TimePoint now) {
  const bool is_somebody_leaving = std::ranges::any_of(occupants_, [](const auto& entry) {
    return entry.second.is_preempted || entry.second.is_shrinking;
  });
  if (!is_somebody_leaving) return;
  Court here = court(stock, now);
  for (const Gang* gang : line.askers(stock.quotas)) {
    if (line.awaited().size() == kAwaitedMax || here.searches() >= kSearchesMax) break;
    const auto found = here.judge(*gang, line.kept_before(*gang, stock.quotas));
    if (!found || !found->victims.empty()) continue;
    here.reserve(*gang, found->hosts);
    line.await(gang->id, found->hosts);
  }
}

std::vector<std::string> Preemptor::search(const admission::Stock& stock, admission::Line& line,
                                           TimePoint now) {
  const bool was_dropped = drop_orders(line);
  not_before_ = std::min(not_before_, now + kEvery);  // a clock may go back
  const bool is_due = is_wanted_ || was_dropped || (again_ && now >= *again_);
  is_wanted_ = is_wanted_ || was_dropped;
  if (!is_due || now < not_before_ || line.size() == 0) return {};
  not_before_ = now + kEvery;
  if (asked_.empty()) {
    again_.reset();
    has_news_ = false;
  }
  Court here = court(stock, now);
  const Awaited before = line.awaited();
  Awaited awaited;
  std::vector<std::string> leaving;
  bool is_cut = false;
  for (const Gang* gang : line.askers(stock.quotas)) {
    if (awaited.size() == kAwaitedMax) break;
    const auto known = before.find(gang->id);
    if (known != before.end() && here.holds(*gang, known->second)) {
      here.reserve(*gang, known->second);
      awaited.insert(*known);
      continue;
    }
    if (known == before.end() && asked_.contains(gang->id)) continue;
    is_cut = is_cut || here.searches() >= kSearchesMax;
    if (is_cut) continue;
    asked_.insert(gang->id);
    const auto found = here.judge(*gang, line.kept_before(*gang, stock.quotas));
    if (!found) continue;
    std::ranges::move(order(*gang, *found, here), std::back_inserter(leaving));
    here.reserve(*gang, found->hosts);
    awaited[gang->id] = found->hosts;
  }
  // Who has to leave itself asks again when it has left.
  std::erase_if(awaited, [&](const auto& entry) { return orders_.contains(entry.first); });
  change(line, before, awaited);
  // Who counted on those that need not leave any more has to ask again.
  const bool is_changed = drop_orders(line);
  if (const auto time = here.again()) again_ = std::min(again_.value_or(*time), *time);
  if (!is_cut) asked_.clear();
  is_wanted_ = is_cut || has_news_ || is_changed;
  std::erase_if(leaving, [&](const std::string& id) { return !orders_.contains(id); });
  return leaving;
}

void Preemptor::change(admission::Line& line, const Awaited& before, const Awaited& after) {
  for (const auto& [id, hosts] : before) {
    if (after.contains(id)) continue;
    line.await(id, {});
    asked_.erase(id);
  }
  for (const auto& [id, hosts] : after) {
    const auto known = before.find(id);
    if (known == before.end() || known->second != hosts) line.await(id, hosts);
  }
}

}  // namespace pawl::controller
