#include "operator/admission/line.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "operator/admission/walk.h"

namespace pawl::admission {

bool Line::precedes(const Gang& a, const Gang& b) {
  return std::tie(b.is_underway, b.keeps_quota, b.priority, a.since, a.id) <
         std::tie(a.is_underway, a.keeps_quota, a.priority, b.since, b.id);
}

bool Line::Before::operator()(const Waiting* one, const Waiting* other) const {
  return precedes(one->gang, other->gang);
}

// ---- who is in it

Line::Lane& Line::lane_of(const Gang& gang) {
  const Part part = gang.is_underway ? Part::kUnderway
                    : gang.is_growth ? Part::kGrowth
                                     : Part::kWaiting;
  const std::pair key{part, part == Part::kWaiting ? gang.queue : ""};
  Lane& lane = lanes_[key];
  lane.part = part;
  lane.queue = key.second;
  return lane;
}

void Line::join(Gang gang) {
  take_out(gang.id);
  ++changes_;
  const std::string id = gang.id;
  Lane& lane = lane_of(gang);
  const Kind kind{.queue = gang.queue,
                  .shape = gang.shape,
                  .required_depth = gang.ask.required_depth,
                  .units = gang.ask.units,
                  .kept_units = gang.kept_units,
                  .slices = gang.ask.slices,
                  .is_limited = gang.run_max.has_value(),
                  .preempts = gang.preempts,
                  .is_refused = gang.is_refused,
                  .apart = gang.beside.empty() && gang.avoided.empty() ? "" : id};
  const auto [at, is_new] = lane.groups.try_emplace(kind);
  Group& group = at->second;
  if (is_new) {
    group.room = rooms_.try_emplace(Places{kind.shape, kind.required_depth, kind.slices}).first;
    ++group.room->second.groups;
  }
  Waiting& waiting = waiting_[id];
  waiting = {std::move(gang), &lane, at};
  lane.order.insert(&waiting);
  group.all.insert(&waiting);
  group.fresh.insert(&waiting);
  if (waiting.gang.waits_since)
    patient_at_.emplace(*waiting.gang.waits_since + patience_.wait_max, id);
}

void Line::leave(const std::string& id) {
  take_out(id);
  note_kept(id, {});
  awaited_.erase(id);
}

void Line::take_out(const std::string& id) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  ++changes_;
  Waiting& waiting = found->second;
  Lane& lane = *waiting.lane;
  Group& group = waiting.group->second;
  for (const Waiting** holds_up : {&lane.claimant, &lane.stopped_at}) {
    if (*holds_up != &waiting) continue;
    *holds_up = nullptr;
    is_released_ = true;
  }
  lane.order.erase(&waiting);
  for (Order* order : {&group.all, &group.fresh, &group.patient}) order->erase(&waiting);
  if (waiting.gang.waits_since)
    patient_at_.erase({*waiting.gang.waits_since + patience_.wait_max, id});
  if (group.all.empty()) {
    if (--group.room->second.groups == 0) rooms_.erase(group.room);
    lane.groups.erase(waiting.group);
  }
  if (lane.order.empty()) lanes_.erase({lane.part, std::string{lane.queue}});
  waiting_.erase(found);
}

const Gang* Line::find(const std::string& id) const {
  const auto found = waiting_.find(id);
  return found == waiting_.end() ? nullptr : &found->second.gang;
}

// Of those that are of no queue's lane.
std::size_t Line::size_of(Part part) const {
  const auto found = lanes_.find({part, ""});
  return found == lanes_.end() ? 0 : found->second.order.size();
}

std::size_t Line::waiting_in(const std::string& queue) const {
  const auto found = lanes_.find({Part::kWaiting, queue});
  return found == lanes_.end() ? 0 : found->second.order.size();
}

void Line::note_patient(TimePoint now) {
  while (!patient_at_.empty() && patient_at_.begin()->first <= now) {
    Waiting& waiting = waiting_.at(patient_at_.begin()->second);
    patient_at_.erase(patient_at_.begin());
    waiting.group->second.patient.insert(&waiting);
  }
}

// ---- what is kept

void Line::note_kept(const std::string& id, std::set<std::string> hosts) {
  const auto known = kept_.find(id);
  if (known != kept_.end() && !std::ranges::includes(hosts, known->second)) is_released_ = true;
  if (!hosts.empty()) {
    kept_[id] = std::move(hosts);
  } else if (known != kept_.end()) {
    kept_.erase(known);
  }
}

void Line::close_kept(placement::Ledger& ledger, const Gang& gang, placement::Room& room) const {
  for (const auto& [id, hosts] : kept_) {
    if (id == gang.id) continue;
    for (const std::string& host : hosts) {
      if (const auto number = ledger.number_of(host)) room.close(ledger.topology(), *number);
    }
  }
}

std::set<std::string> Line::kept_before(const Gang& gang, const Quotas& quotas) const {
  std::set<std::string> hosts;
  const Waiting& own = waiting_.at(gang.id);
  const auto borrows = [&](const Gang& one) { return quotas.borrows(one.queue, charge_of(one)); };
  const bool is_entitled = quotas.find(gang.queue) != nullptr && !borrows(gang);
  for (const auto& [id, kept] : kept_) {
    const auto owner = waiting_.find(id);
    if (owner == waiting_.end() || id == gang.id) continue;
    const bool is_before = owner->second.lane != own.lane
                               ? !is_entitled || !borrows(owner->second.gang)
                               : Before{}(&owner->second, &own);
    if (is_before && !awaited_.contains(id)) hosts.insert(kept.begin(), kept.end());
  }
  return hosts;
}

// ---- for whom others make room

void Line::await(const std::string& id, std::set<std::string> hosts) {
  const auto found = waiting_.find(id);
  if (hosts.empty()) {
    is_released_ = awaited_.erase(id) > 0 || is_released_;
  } else if (found != waiting_.end()) {
    awaited_[id] = std::move(hosts);
  }
  if (found != waiting_.end()) found->second.group->second.fresh.insert(&found->second);
}

std::vector<const Gang*> Line::askers(const Quotas& quotas) const {
  std::vector<Order> firsts;  // by lane, of each kind
  for (const auto& [key, lane] : lanes_) {
    const Queue* queue = quotas.find(lane.queue);
    if (lane.part != Part::kWaiting || (queue == nullptr && !lane.queue.empty())) continue;
    Order& order = firsts.emplace_back();
    if (queue != nullptr && queue->is_fifo) {
      order.insert(*lane.order.begin());
      continue;
    }
    for (const auto& [kind, group] : lane.groups) order.insert(*group.all.begin());
  }
  const auto key = [&](const Order& order) {
    const Gang& gang = (*order.begin())->gang;
    return std::tuple{!awaited_.contains(gang.id), quotas.borrows(gang.queue, charge_of(gang)),
                      quotas.share(gang.queue)};
  };
  std::vector<const Gang*> gangs;
  while (!firsts.empty()) {
    const auto next = std::ranges::min_element(firsts, [&](const Order& one, const Order& other) {
      const auto a = key(one), b = key(other);
      return a != b ? a < b : Before{}(*one.begin(), *other.begin());
    });
    gangs.push_back(&(*next->begin())->gang);
    next->erase(next->begin());
    if (next->empty()) firsts.erase(next);
  }
  return gangs;
}

// ---- who gets room

std::vector<Verdict> Line::round(const Stock& stock, bool is_freed, TimePoint now,
                                 const Book& book) {
  note_patient(now);
  const bool is_released = std::exchange(is_released_, false);
  std::vector<Verdict> verdicts = pass(stock, is_freed || is_released, now, book);
  if (!std::exchange(is_released_, false)) return verdicts;
  std::vector<Verdict> more = pass(stock, true, now, book);
  std::erase_if(verdicts, [&](const Verdict& verdict) {  // who has got something after all
    return !verdict.placement && !waiting_.contains(verdict.id);
  });
  std::ranges::move(more, std::back_inserter(verdicts));
  return verdicts;
}

std::vector<Verdict> Line::pass(const Stock& stock, bool is_freed, TimePoint now,
                                const Book& book) {
  for (auto& [places, room] : rooms_) room.counted = {};
  Round round(stock.ledger, patience_, now, book);
  for (const auto& [id, hosts] : awaited_) round.keep_awaited(waiting_.at(id).gang, hosts);
  Walk walk(*this, round, stock.quotas, is_freed);
  walk.run();
  std::vector<Verdict> verdicts = walk.verdicts();
  stock.quotas.drop_claims();
  if (walk.note_holders()) is_released_ = true;
  for (auto& [id, hosts] : walk.kept()) note_kept(id, std::move(hosts));
  for (const Verdict& verdict : verdicts) {
    if (verdict.placement) leave(verdict.id);
  }
  const std::size_t underway = size_of(Part::kUnderway);
  const std::size_t others = waiting_.size() - size_of(Part::kGrowth);
  for (Verdict& verdict : verdicts) {
    if (verdict.placement) continue;
    Waiting& waiting = waiting_.at(verdict.id);
    const std::size_t rank = waiting.lane->order.order_of_key(&waiting);
    const Part part = waiting.lane->part;
    verdict.ahead = static_cast<int>(rank + (part == Part::kUnderway  ? 0
                                             : part == Part::kWaiting ? underway
                                                                      : others));
    waiting.group->second.fresh.erase(&waiting);
  }
  return verdicts;
}

}  // namespace pawl::admission
