#include "operator/admission/round.h"

#include <algorithm>
#include <bit>
#include <span>
#include <tuple>
#include <utility>

namespace pawl::admission {
namespace {

placement::Room without(placement::Ledger& ledger, placement::Room room,
                        std::span<const std::string> names) {
  for (const std::string& name : names) {
    if (const auto host = ledger.number_of(name)) room.close(ledger.topology(), *host);
  }
  return room;
}

// The most that it could get at once.
int most_units(const placement::Topology& topology, const placement::Room& room,
               const placement::Ask& ask) {
  if (ask.beside.empty()) return placement::largest(topology, room, ask.required_depth).units;
  const placement::Domain& domain =
      placement::domain_of(topology, ask.required_depth, ask.beside.front());
  return room.units_in(topology, ask.required_depth, domain);
}

// Machines that are only to be avoided count as full, as long as there is room without them: all of
// them, else all but the first, else the last few, as the preferences of the pods say it to a
// scheduler (common/api/pod_scheduling.h). Nobody takes them for more than the least.
std::optional<placement::Placement> place(placement::Ledger& ledger, const placement::Room& room,
                                          const Gang& gang, int more) {
  const placement::Topology& topology = ledger.topology();
  placement::Ask ask = ask_of(ledger, gang);
  const std::span<const std::string> avoided = gang.avoided;
  if (more > 0) {
    const int most = most_units(topology, without(ledger, room, avoided), ask);
    ask.units = std::clamp(most, ask.units, ask.units + more);
  }
  for (std::size_t count = avoided.size(); count > 0;) {
    const placement::Room others = without(ledger, room, avoided.last(count));
    if (auto placed = placement::place(topology, others, ask)) return placed;
    count = count == avoided.size() && count > 1 ? count - 1 : std::bit_floor(count - 1);
  }
  if (gang.is_enough && !avoided.empty()) return std::nullopt;
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

bool is_same_wish(const Gang& one, const Gang& other) {
  const auto wish = [](const Gang& gang) {
    return std::tie(gang.is_underway, gang.is_growth, gang.is_enough, gang.priority, gang.preempts,
                    gang.is_refused, gang.since, gang.shape, gang.ask.units,
                    gang.ask.required_depth, gang.ask.slices, gang.more_units, gang.queue,
                    gang.kept_units, gang.charged, gang.avoided);
  };
  return wish(one) == wish(other);
}

int charged_units(const Gang& gang, int units) { return std::max(units - gang.kept_units, 0); }

placement::Resources charge_of(const Gang& gang, int units) {
  return placement::times(gang.charged.value_or(gang.shape.requests), charged_units(gang, units));
}

placement::Resources charge_of(const Gang& gang) { return charge_of(gang, gang.ask.units); }

int units_of(const placement::Placement& placement) {
  int units = 0;
  for (const placement::Share& share : placement.shares) units += share.units;
  return units;
}

// ---- who fits

std::optional<placement::Placement> Round::place_in(const placement::Room& room, const Gang& gang,
                                                    int more) {
  auto placed = place(ledger_, room, gang, more);
  if (placed) {
    book_(gang, *placed);
    ++changes_;
  }
  return placed;
}

Round::Try Round::try_place(const Gang& gang, int more, Counted& counted) {
  if (kept_for(gang) != nullptr) {
    Try result{.placement = place_in(without_kept(gang), gang, more)};
    if (result.placement) release(gang);
    return result;
  }
  if (!may_fit(gang, counted, kAll)) return {.is_hopeless = true};
  const std::size_t level = level_of(gang);
  Try result;
  if (level == kAll) {
    result.placement = place_in(ledger_.room(gang.shape), gang, more);
  } else if (may_fit(gang, counted, level)) {
    result.placement = place_in(without_kept(gang), gang, more);
  }
  // Others may run for a shorter time, and use more of what is kept.
  result.is_hopeless = !result.placement && (level == kAll || !gang.run_max);
  return result;
}

// Beside others it may be near them that there is no room; and labels may have changed since they
// came, so that they are in no such domain.
bool Round::may_fit(const Gang& gang, Counted& counted, std::size_t level) {
  if (!gang.beside.empty() && gang.ask.required_depth > 0) return true;
  Most& most = counted[level];
  if (gang.ask.units <= most.units && most.changes != changes_) {
    const placement::Room& room = level == kAll ? ledger_.room(gang.shape) : without_kept(gang);
    most.units = placement::largest(ledger_.topology(), room, gang.ask).units;
    most.changes = changes_;
  }
  return gang.ask.units <= most.units;
}

// ---- for whom it is kept

void Round::keep_awaited(const Gang& gang, const std::set<std::string>& hosts) {
  is_kept_.resize(static_cast<std::size_t>(ledger_.topology().hosts()), false);
  const placement::Room& room = ledger_.room(gang.shape);
  Reservation kept{.begin = placement::Outlook::kUnknown, .lacking = gang.ask.units};
  for (const std::string& name : hosts) {
    const auto host = ledger_.number_of(name);
    if (!host) continue;
    kept.hosts.push_back(*host);
    kept.lacking -= room.units_on(*host);
    is_kept_[static_cast<std::size_t>(*host)] = true;
  }
  kept.lacking = std::max(kept.lacking, 0);
  std::ranges::sort(kept.hosts);
  kept_.push_back({&gang, std::move(kept), true});
  ++changes_;
}

// It has got its room.
void Round::release(const Gang& gang) {
  const auto found = std::ranges::find(kept_, &gang, &Kept::gang);
  for (const int host : found->reservation.hosts) is_kept_[static_cast<std::size_t>(host)] = false;
  kept_.erase(found);
  ++changes_;
}

// It will have ended before that gang begins. Who has begun, and lacks a member, takes its place
// back where others are about to make room.
bool Round::may_use(const Gang& gang, const Kept& kept) const {
  if (kept.is_awaited && gang.is_underway) return true;
  const TimePoint begin = kept.reservation.begin;
  return gang.run_max && begin != placement::Outlook::kUnknown && now_ + *gang.run_max <= begin;
}

// Of how many reservations it may use the hosts: those that begin last.
std::size_t Round::level_of(const Gang& gang) const {
  const auto usable =
      std::ranges::count_if(kept_, [&](const Kept& one) { return may_use(gang, one); });
  return std::cmp_equal(usable, kept_.size()) ? kAll : static_cast<std::size_t>(usable);
}

const placement::Room& Round::without_kept(const Gang& gang) {
  rest_ = ledger_.room(gang.shape);
  for (const Kept& kept : kept_) {
    if (kept.gang == &gang || may_use(gang, kept)) continue;
    for (const int host : kept.reservation.hosts) rest_.close(ledger_.topology(), host);
  }
  return rest_;
}

bool Round::is_possible(const Gang& gang) {
  const placement::Topology& topology = ledger_.topology();
  const auto emptied = placement::Room::emptied(topology, ledger_.outlook(gang.shape).units);
  const auto most = placement::largest(topology, emptied, gang.ask);
  return gang.ask.units <= most.units;
}

bool Round::keep_for(const Gang& gang) {
  if (kept_for(gang) != nullptr) return true;
  is_kept_.resize(static_cast<std::size_t>(ledger_.topology().hosts()), false);
  const placement::Ask ask = ask_of(ledger_, gang);
  Prospect prospect{ledger_.topology(), ledger_.room(gang.shape), ledger_.outlook(gang.shape)};
  for (const std::string& host : gang.own.empty() ? gang.beside : gang.own) {
    if (const auto number = ledger_.number_of(host)) prospect.own.push_back(*number);
  }
  auto found = reserve(prospect, ask, is_kept_, now_);
  if (!found) return false;
  std::size_t hosts = found->hosts.size();
  bool is_first = true;
  for (const Kept& kept : kept_) {
    if (kept.is_awaited) continue;
    hosts += kept.reservation.hosts.size();
    is_first = false;
  }
  const bool is_too_much =
      hosts * static_cast<std::size_t>(patience_.part_of_hosts) > is_kept_.size();
  is_all_kept_ = is_too_much || kept_.size() + 1 == Patience::kGangsMax;
  if (is_too_much && !is_first) return true;
  for (const int host : found->hosts) is_kept_[static_cast<std::size_t>(host)] = true;
  kept_.push_back({&gang, std::move(*found)});
  ++changes_;
  return true;
}

const Reservation* Round::kept_for(const Gang& gang) const {
  const auto found = std::ranges::find(kept_, &gang, &Kept::gang);
  return found == kept_.end() ? nullptr : &found->reservation;
}

std::map<std::string, std::set<std::string>> Round::kept_hosts() const {
  std::map<std::string, std::set<std::string>> hosts;
  for (const Kept& kept : kept_) {
    for (const int host : kept.reservation.hosts)
      hosts[kept.gang->id].insert(ledger_.topology().host(host));
  }
  return hosts;
}

}  // namespace pawl::admission
