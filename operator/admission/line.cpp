#include "operator/admission/line.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

namespace pawl::admission {
namespace {

// Machines that are only to be avoided count as full, as long as there is room without them.
std::optional<placement::Placement> place(placement::Ledger& ledger, const placement::Room& room,
                                          const Gang& gang) {
  const placement::Topology& topology = ledger.topology();
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
  take_out(gang.id);
  const auto group = groups_.try_emplace({gang.shape, gang.ask.required_depth}).first;
  ++group->second.sizes[gang.ask.units];
  group->second.limited += gang.run_max ? 1 : 0;
  ++new_;
  Place place{gang.is_underway, gang.priority, gang.since, gang.id};
  const auto at = order_.emplace(std::move(place), Waiting{std::move(gang), group}).first;
  places_[at->first.id] = at;
}

void Line::leave(const std::string& id) {
  take_out(id);
  note_kept(id, {});
}

void Line::take_out(const std::string& id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  const auto at = found->second;
  const Waiting& waiting = at->second;
  waiting.group->second.limited -= waiting.gang.run_max ? 1 : 0;
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

void Line::note_kept(const std::string& id, std::set<std::string> hosts) {
  const auto known = kept_.find(id);
  if (known != kept_.end() && !std::ranges::includes(hosts, known->second)) is_released_ = true;
  if (!hosts.empty()) {
    kept_[id] = std::move(hosts);
  } else if (known != kept_.end()) {
    kept_.erase(known);
  }
}

placement::Room Line::room_beside_kept(placement::Ledger& ledger, const Gang& gang) const {
  placement::Room room = ledger.room(gang.shape);
  for (const auto& [id, hosts] : kept_) {
    if (id == gang.id) continue;
    for (const std::string& host : hosts) {
      if (const auto number = ledger.number_of(host))
        room.units[static_cast<std::size_t>(*number)] = 0;
    }
  }
  return room;
}

// What one domain holds of each group, at most, with all that is free and without what is kept: it
// was so much when it was counted last, and has not become more.
class Line::Round {
 public:
  Round(Line& line, placement::Ledger& ledger, const Book& book, TimePoint now)
      : ledger_(ledger),
        book_(book),
        patience_(line.patience_),
        now_(now),
        most_(line.groups_.size()),
        hopeful_(line.groups_.size()),
        too_large_(line.groups_.size(), std::numeric_limits<int>::max()) {
    std::size_t number = 0;
    for (auto& [what, group] : line.groups_) group.number = number++;
  }

  // Somebody who waits may fit.
  bool has_hope() const { return hopeful_ > 0; }

  std::optional<placement::Placement> try_place(const Waiting& waiting) {
    const Gang& gang = waiting.gang;
    if (!may_fit(waiting, kAll)) return std::nullopt;
    const std::size_t level = level_of(gang);
    if (level == kAll) return place_in(ledger_.room(gang.shape), gang);
    return may_fit(waiting, level) ? place_in(without_kept(gang), gang) : std::nullopt;
  }

  // It stays in line: if it has waited for long, room is kept for it from those behind it.
  void pass_by(const Waiting& waiting) {
    const Gang& gang = waiting.gang;
    if (is_all_kept_ || !gang.waits_since || now_ - *gang.waits_since < patience_.wait_max) return;
    int& too_large = too_large_[waiting.group->second.number];
    if (gang.beside.empty() && gang.ask.units >= too_large) return;
    if (!keep_for(gang) && gang.beside.empty()) too_large = gang.ask.units;
  }

  // Null: nothing.
  const Reservation* kept_for(const Gang& gang) const {
    const auto found = std::ranges::find(kept_, &gang, &std::pair<const Gang*, Reservation>::first);
    return found == kept_.end() ? nullptr : &found->second;
  }

  std::set<std::string> hosts_kept_for(const Gang& gang) const {
    std::set<std::string> names;
    const Reservation* kept = kept_for(gang);
    if (kept == nullptr) return names;
    for (const int host : kept->hosts) names.insert(ledger_.topology().host(host));
    return names;
  }

  // Why it got nothing.
  void explain(const Waiting& waiting, Verdict& verdict) {
    if (const Reservation* kept = kept_for(waiting.gang)) verdict.kept = *kept;
    const bool is_asked_of_all = waiting.gang.beside.empty() && !verdict.kept;
    verdict.is_passed_over = is_asked_of_all && may_fit(waiting, kAll);
  }

 private:
  struct Most {
    int units = std::numeric_limits<int>::max();
    int changes = -1;  // that were made before it was counted
  };
  // Room by level: all that is free; without the hosts of all but so many reservations.
  static constexpr std::size_t kAll = Patience::kGangsMax;
  struct Count {
    std::array<Most, kAll + 1> most;
    bool is_hopeless = false;
  };

  std::optional<placement::Placement> place_in(const placement::Room& room, const Gang& gang) {
    auto placed = place(ledger_, room, gang);
    if (placed) {
      book_(gang, *placed);
      ++changes_;
    }
    return placed;
  }

  // Beside others it may be near them that there is no room.
  bool may_fit(const Waiting& waiting, std::size_t level) {
    const Gang& gang = waiting.gang;
    if (!gang.beside.empty()) return true;
    const Group& group = waiting.group->second;
    Most& most = most_[group.number].most[level];
    if (gang.ask.units <= most.units && most.changes != changes_) {
      const placement::Room& room = level == kAll ? ledger_.room(gang.shape) : without_kept(gang);
      most.units = placement::largest(ledger_.topology(), room, gang.ask.required_depth).units;
      most.changes = changes_;
      lose_hope(group, most_[group.number]);
    }
    return gang.ask.units <= most.units;
  }

  // Not even its smallest gang will get anything in this round.
  void lose_hope(const Group& group, Count& count) {
    const std::size_t level = kept_.empty() || group.limited > 0 ? kAll : 0;
    if (count.is_hopeless || group.sizes.begin()->first <= count.most[level].units) return;
    count.is_hopeless = true;
    --hopeful_;
  }

  // It will have ended before that gang begins.
  bool may_use(const Gang& gang, const Reservation& kept) const {
    return gang.run_max && kept.begin != placement::Outlook::kUnknown &&
           now_ + *gang.run_max <= kept.begin;
  }

  // Of how many reservations it may use the hosts: those that begin last.
  std::size_t level_of(const Gang& gang) const {
    const auto usable =
        std::ranges::count_if(kept_, [&](const auto& one) { return may_use(gang, one.second); });
    return std::cmp_equal(usable, kept_.size()) ? kAll : static_cast<std::size_t>(usable);
  }

  const placement::Room& without_kept(const Gang& gang) {
    rest_ = ledger_.room(gang.shape);
    for (const auto& [owner, reservation] : kept_) {
      if (may_use(gang, reservation)) continue;
      for (const int host : reservation.hosts) rest_.units[static_cast<std::size_t>(host)] = 0;
    }
    return rest_;
  }

  // False: no domain will ever hold it.
  bool keep_for(const Gang& gang) {
    is_kept_.resize(static_cast<std::size_t>(ledger_.topology().hosts()), false);
    const placement::Ask ask = ask_of(ledger_, gang);
    const Prospect prospect{ledger_.topology(), ledger_.room(gang.shape),
                            ledger_.outlook(gang.shape)};
    auto found = reserve(prospect, ask, is_kept_, now_);
    if (!found) return false;
    std::size_t hosts = found->hosts.size();
    for (const auto& [owner, reservation] : kept_) hosts += reservation.hosts.size();
    const bool is_too_much =
        hosts * static_cast<std::size_t>(patience_.part_of_hosts) > is_kept_.size();
    is_all_kept_ = is_too_much || kept_.size() + 1 == Patience::kGangsMax;
    if (is_too_much && !kept_.empty()) return true;
    for (const int host : found->hosts) is_kept_[static_cast<std::size_t>(host)] = true;
    kept_.emplace_back(&gang, std::move(*found));
    ++changes_;
    return true;
  }

  placement::Ledger& ledger_;
  const Book& book_;
  const Patience& patience_;
  const TimePoint now_;
  std::vector<Count> most_;     // by the group's number
  std::size_t hopeful_;         // groups of which the smallest gang may fit
  int changes_ = 0;             // bookings, and reservations
  std::vector<int> too_large_;  // by the group's number: as large never fits
  bool is_all_kept_ = false;
  std::vector<std::pair<const Gang*, Reservation>> kept_;
  std::vector<bool> is_kept_;  // by the host's number
  placement::Room rest_;       // of the gang that is looked at
};

std::vector<Verdict> Line::round(placement::Ledger& ledger, bool is_freed, TimePoint now,
                                 const Book& book) {
  const bool is_released = std::exchange(is_released_, false);
  std::vector<Verdict> verdicts = pass(ledger, is_freed || is_released, now, book);
  if (!std::exchange(is_released_, false)) return verdicts;
  std::vector<Verdict> more = pass(ledger, true, now, book);
  std::erase_if(verdicts, [&](const Verdict& verdict) {  // who has got something after all
    return !verdict.placement && !places_.contains(verdict.id);
  });
  std::ranges::move(more, std::back_inserter(verdicts));
  return verdicts;
}

std::vector<Verdict> Line::pass(placement::Ledger& ledger, bool is_freed, TimePoint now,
                                const Book& book) {
  std::vector<Verdict> verdicts;
  int news = std::exchange(new_, 0);
  Round round(*this, ledger, book, now);
  int ahead = 0;
  for (auto at = order_.begin(); at != order_.end(); ++at) {
    if (news == 0 && (!is_freed || !round.has_hope())) break;
    auto& [place, waiting] = *at;
    const bool is_new = std::exchange(waiting.is_new, false);
    news -= is_new ? 1 : 0;
    Verdict verdict{.id = place.id, .ahead = ahead};
    if (is_new || is_freed) verdict.placement = round.try_place(waiting);
    if (!verdict.placement) {
      round.pass_by(waiting);
      note_kept(place.id, round.hosts_kept_for(waiting.gang));
      if (is_new) round.explain(waiting, verdict);
      ++ahead;
    }
    if (verdict.placement || is_new) verdicts.push_back(std::move(verdict));
  }
  for (const Verdict& verdict : verdicts) {
    if (verdict.placement) leave(verdict.id);
  }
  return verdicts;
}

}  // namespace pawl::admission
