#include "operator/admission/line.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace pawl::admission {
namespace {

// Machines that are only to be avoided count as full, as long as there is room without them.
std::optional<placement::Placement> place(placement::Ledger& ledger, const Gang& gang) {
  const placement::Topology& topology = ledger.topology();
  const placement::Room& room = ledger.room(gang.shape);
  const placement::Ask ask = ask_of(ledger, gang);
  if (!gang.avoided.empty()) {
    placement::Room others = room;
    for (int host = 0; host < topology.hosts(); ++host) {
      if (gang.avoided.contains(topology.host(host)))
        others.units[static_cast<std::size_t>(host)] = 0;
    }
    if (auto placed = placement::place(topology, others, ask)) return placed;
  }
  return placement::place(topology, room, ask);
}

}  // namespace

placement::Ask ask_of(placement::Ledger& ledger, const Gang& gang) {
  const placement::Topology& topology = ledger.topology();
  placement::Ask ask = gang.ask;
  for (const std::string& host : gang.beside) {
    if (const auto number = ledger.number_of(host)) ask.beside.push_back(*number);
  }
  // Labels change, and those that run stay where they are: then nothing is nearer than they are.
  const int depth = placement::common_depth(topology, ask.beside);
  ask.required_depth = std::min(ask.required_depth, depth);
  return ask;
}

void Line::join(Gang gang) {
  leave(gang.id);
  const auto group = groups_.try_emplace({gang.shape, gang.ask.required_depth}).first;
  ++group->second.sizes[gang.ask.units];
  ++new_;
  Place place{gang.is_underway, gang.priority, gang.since, gang.id};
  const auto at = order_.emplace(std::move(place), Waiting{std::move(gang), group}).first;
  places_[at->first.id] = at;
}

void Line::leave(const std::string& id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  const auto at = found->second;
  const Waiting& waiting = at->second;
  auto& sizes = waiting.group->second.sizes;
  const auto size = sizes.find(waiting.gang.ask.units);
  if (--size->second == 0) sizes.erase(size);
  if (sizes.empty()) groups_.erase(waiting.group);
  new_ -= waiting.is_new ? 1 : 0;
  places_.erase(found);
  order_.erase(at);
}

const Gang* Line::find(const std::string& id) const {
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : &found->second->second.gang;
}

// What one domain holds of each group, at most: it was so much when it was counted last, and has
// not become more.
class Line::Round {
 public:
  Round(placement::Ledger& ledger, const Book& book, Groups& groups)
      : ledger_(ledger), book_(book), most_(groups.size()), hopeful_(groups.size()) {
    std::size_t number = 0;
    for (auto& [what, group] : groups) group.number = number++;
  }

  // Somebody who waits may fit.
  bool has_hope() const { return hopeful_ > 0; }

  std::optional<placement::Placement> try_place(const Waiting& waiting) {
    const Gang& gang = waiting.gang;
    // Beside others it may be near them that there is none.
    if (gang.beside.empty() && !has_room(waiting)) return std::nullopt;
    auto placed = place(ledger_, gang);
    if (placed) {
      book_(gang, *placed);
      ++bookings_;
    }
    return placed;
  }

 private:
  struct Most {
    int units = std::numeric_limits<int>::max();
    int bookings = -1;  // that were made before it was counted
  };

  bool has_room(const Waiting& waiting) {
    const Gang& gang = waiting.gang;
    const Group& group = waiting.group->second;
    Most& most = most_[group.number];
    const int smallest = group.sizes.begin()->first;
    if (gang.ask.units <= most.units && most.bookings != bookings_) {
      const bool was_hopeful = smallest <= most.units;
      most.units =
          placement::largest(ledger_.topology(), ledger_.room(gang.shape), gang.ask.required_depth)
              .units;
      most.bookings = bookings_;
      if (was_hopeful && smallest > most.units) --hopeful_;
    }
    return gang.ask.units <= most.units;
  }

  placement::Ledger& ledger_;
  const Book& book_;
  std::vector<Most> most_;  // by the group's number
  std::size_t hopeful_;     // groups of which the smallest gang may fit
  int bookings_ = 0;
};

std::vector<Verdict> Line::round(placement::Ledger& ledger, bool is_freed, const Book& book) {
  std::vector<Verdict> verdicts;
  int news = std::exchange(new_, 0);
  Round round(ledger, book, groups_);
  int ahead = 0;
  for (auto at = order_.begin(); at != order_.end(); ++at) {
    if (news == 0 && (!is_freed || !round.has_hope())) break;
    auto& [place, waiting] = *at;
    const bool is_new = std::exchange(waiting.is_new, false);
    news -= is_new ? 1 : 0;
    auto placed = is_new || is_freed ? round.try_place(waiting) : std::nullopt;
    const bool stays = !placed;
    if (placed || is_new) verdicts.push_back({place.id, std::move(placed), ahead});
    ahead += stays ? 1 : 0;
  }
  for (const Verdict& verdict : verdicts) {
    if (verdict.placement) leave(verdict.id);
  }
  return verdicts;
}

}  // namespace pawl::admission
