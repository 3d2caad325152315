#include "operator/placement/ledger.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace pawl::placement {
namespace {

constexpr std::size_t kRoomsMax = 64;
constexpr int kUnknownUnits = -1;

std::int64_t at(const std::vector<std::int64_t>& quantities, std::size_t column) {
  return column < quantities.size() ? quantities[column] : 0;
}

}  // namespace

Ledger::Ledger(std::vector<std::string> labels) : labels_(std::move(labels)) {}

std::size_t Ledger::column_of(const std::string& resource) {
  return columns_.try_emplace(resource, columns_.size()).first->second;
}

// ---- what changes

bool Ledger::set_host(Host host) {
  Row& row = rows_[host.name];
  if (row.host == host) return false;
  const Resources nothing;
  const Resources& before = row.host ? row.host->allocatable : nothing;
  for (const auto& [resource, quantity] : before) row.free[column_of(resource)] -= quantity;
  for (const auto& [resource, quantity] : host.allocatable) {
    const std::size_t column = column_of(resource);
    if (row.free.size() <= column) row.free.resize(column + 1, 0);
    row.free[column] += quantity;
    if (row.most.size() <= column) row.most.resize(column + 1, 0);
    row.most[column] = std::max(row.most[column], quantity);
  }
  row.host = std::move(host);
  topology_.reset();
  ++changes_ever_;
  return true;
}

bool Ledger::drop_host(const std::string& name) {
  const auto found = rows_.find(name);
  if (found == rows_.end() || !found->second.host) return false;
  Row& row = found->second;
  for (const auto& [resource, quantity] : row.host->allocatable)
    row.free[column_of(resource)] -= quantity;
  row.host.reset();
  row.most.clear();
  topology_.reset();
  ++changes_ever_;
  if (row.bookings == 0) rows_.erase(found);
  return true;
}

void Ledger::book(const std::string& key, Pod& pod, int sign) {
  const Booking& booking = *pod.counted();
  Row& row = rows_[booking.host];
  note_owner(key, pod, sign);
  if (sign > 0) {
    pod.row = &row;
    pod.takes.clear();
    for (const auto& [resource, quantity] : booking.requests)
      pod.takes.emplace_back(column_of(resource), quantity);
  }
  for (const auto& [column, quantity] : pod.takes) {
    if (row.free.size() <= column) row.free.resize(column + 1, 0);
    if (row.taken.size() <= column) row.taken.resize(column + 1, 0);
    if (row.fixed.size() <= column) row.fixed.resize(column + 1, 0);
    row.free[column] -= sign * quantity;
    if (!booking.is_fixture && !booking.is_lasting) row.taken[column] += sign * quantity;
    if (booking.is_fixture) row.fixed[column] += sign * quantity;
  }
  if (booking.is_fixture) ++changes_ever_;
  row.bookings += sign;
  if (!booking.is_fixture) {
    if (sign > 0) {
      row.pods.push_back(&pod);
    } else {
      std::erase(row.pods, &pod);
    }
  }
  if (topology_ && row.number >= 0) {
    note_change(row.number);
    note_end(row);
  }
  if (row.bookings == 0 && !row.host) rows_.erase(booking.host);
}

void Ledger::note_owner(const std::string& key, Pod& pod, int sign) {
  const std::string& name = pod.counted()->owner;
  if (name.empty()) return;
  Owner& owner = owners_[name];
  if (sign > 0) {
    owner.pods.emplace_back(&key, &pod);
  } else {
    std::erase_if(owner.pods, [&](const auto& entry) { return entry.second == &pod; });
  }
  if (owner.pods.empty() && !owner.end) owners_.erase(name);
}

// When it would take longer to follow what has changed than to count anew, all is counted anew.
void Ledger::note_change(int host) {
  changed_.push_back(host);
  if (changed_.size() <= 2 * by_number_.size()) return;
  changed_.clear();
  rooms_.clear();
}

template <typename Change>
void Ledger::change_pod(const std::string& pod, Change&& change) {
  const auto at = pods_.try_emplace(pod).first;
  Pod& entry = at->second;
  if (entry.counted() != nullptr) book(at->first, entry, -1);
  change(entry);
  if (const Booking* after = entry.counted()) {
    entry.end = end_of(*after);
    book(at->first, entry, 1);
  } else {
    pods_.erase(pod);
  }
}

bool Ledger::see_pod(const std::string& pod, Booking booking) {
  const auto found = pods_.find(pod);
  const Booking* before = found == pods_.end() ? nullptr : found->second.counted();
  const bool is_freed =
      before != nullptr && (before->host != booking.host || before->requests != booking.requests ||
                            before->is_fixture != booking.is_fixture);
  if (found != pods_.end() && found->second.seen == booking) return false;
  change_pod(pod, [&](Pod& entry) { entry.seen = std::move(booking); });
  return is_freed;
}

bool Ledger::drop_pod(const std::string& pod) {
  const auto found = pods_.find(pod);
  if (found == pods_.end() || !found->second.seen) return false;
  change_pod(pod, [](Pod& entry) { entry.seen.reset(); });
  return true;
}

void Ledger::promise(const std::string& pod, Booking booking) {
  const auto found = pods_.find(pod);
  if (found != pods_.end() && found->second.promised == booking) return;
  change_pod(pod, [&](Pod& entry) { entry.promised = std::move(booking); });
}

void Ledger::withdraw(const std::string& pod) {
  const auto found = pods_.find(pod);
  if (found == pods_.end() || !found->second.promised) return;
  change_pod(pod, [](Pod& entry) { entry.promised.reset(); });
}

TimePoint Ledger::end_of(const Booking& booking) const {
  const auto owner = owners_.find(booking.owner);
  const auto known = owner == owners_.end() ? std::nullopt : owner->second.end;
  return std::min(known.value_or(Outlook::kUnknown), booking.end.value_or(Outlook::kUnknown));
}

void Ledger::expect_end(const std::string& name, std::optional<TimePoint> end) {
  const auto known = owners_.find(name);
  if (known == owners_.end() ? !end : end == known->second.end) return;
  Owner& owner = owners_[name];
  owner.end = end;
  for (const auto& [key, pod] : owner.pods) {
    pod->end = end_of(*pod->counted());
    if (topology_ && pod->row->number >= 0) note_end(*pod->row);
  }
  if (owner.pods.empty() && !owner.end) owners_.erase(name);
}

// ---- what is asked

const Host* Ledger::find(const std::string& name) const {
  const auto found = rows_.find(name);
  return found == rows_.end() || !found->second.host ? nullptr : &*found->second.host;
}

std::optional<int> Ledger::number_of(const std::string& host) const {
  const auto found = rows_.find(host);
  if (found == rows_.end() || !found->second.host || found->second.number < 0) return std::nullopt;
  return found->second.number;
}

bool Ledger::is_overbooked(const std::string& host, const Resources& requests) const {
  const auto row = rows_.find(host);
  if (row == rows_.end()) return false;
  return std::ranges::any_of(requests, [&](const auto& request) {
    const auto column = columns_.find(request.first);
    const std::vector<std::int64_t>& free = row->second.free;
    return request.second > 0 && column != columns_.end() && column->second < free.size() &&
           free[column->second] < 0;
  });
}

const Topology& Ledger::topology() {
  if (!topology_) rebuild();
  return *topology_;
}

void Ledger::rebuild() {
  std::vector<Machine> machines;
  for (auto& [name, row] : rows_) {
    row.number = -1;
    if (row.host) machines.push_back({name, row.host->labels});
  }
  topology_.emplace(std::move(machines), labels_);
  by_number_.clear();
  for (int number = 0; number < topology_->hosts(); ++number) {
    Row& row = rows_.at(topology_->host(number));
    row.number = number;
    by_number_.push_back(&row);
  }
  end_by_number_.resize(by_number_.size());
  for (const Row* row : by_number_) note_end(*row);
  changed_.clear();
  rooms_.clear();
}

// `is_emptied`: as if all had ended that will.
int Ledger::units_of(const Row& row, const Needs& needs, bool is_emptied) {
  std::int64_t fit = std::numeric_limits<std::int64_t>::max();
  for (const auto& [column, need] : needs) {
    const std::int64_t free = at(row.free, column) + (is_emptied ? at(row.taken, column) : 0);
    fit = std::min(fit, free / need);
  }
  return bounded_units(fit);
}

void Ledger::count(const Row& row, Known& known) const {
  const auto number = static_cast<std::size_t>(row.number);
  const bool may_host = known.may_host[number];
  const int units = may_host ? units_of(row, known.needs, false) : 0;
  known.room.set(*topology_, row.number, units, row.pods.empty());
  if (may_host) known.units_after[number] = units_of(row, known.needs, true);
}

Ledger::Known& Ledger::known_room(const Shape& shape) {
  const auto found = std::ranges::find(rooms_, shape, &Known::shape);
  if (found != rooms_.end()) {
    rooms_.splice(rooms_.begin(), rooms_, found);
    return rooms_.front();
  }
  if (rooms_.size() >= kRoomsMax) rooms_.pop_back();
  Known& known = rooms_.emplace_front(Known{.shape = shape});
  for (const auto& [resource, quantity] : shape.requests) {
    if (quantity > 0) known.needs.emplace_back(column_of(resource), quantity);
  }
  std::vector<int> units;
  std::vector<bool> is_pristine;
  for (const Row* row : by_number_) {
    const bool may_host = shape.demands.allow(*row->host);
    known.may_host.push_back(may_host);
    units.push_back(may_host ? units_of(*row, known.needs, false) : 0);
    known.units_after.push_back(may_host ? units_of(*row, known.needs, true) : 0);
    is_pristine.push_back(row->pods.empty());
  }
  known.room = Room(*topology_, std::move(units), std::move(is_pristine));
  known.changes = changed_.size();
  return known;
}

Ledger::Known& Ledger::counted(const Shape& shape) {
  topology();
  Known& known = known_room(shape);
  for (; known.changes < changed_.size(); ++known.changes)
    count(*by_number_[static_cast<std::size_t>(changed_[known.changes])], known);
  return known;
}

const Room& Ledger::room(const Shape& shape) { return counted(shape).room; }

void Ledger::note_end(const Row& row) {
  TimePoint& end = end_by_number_[static_cast<std::size_t>(row.number)];
  end = TimePoint::min();
  for (const Pod* pod : row.pods) {
    if (!pod->counted()->is_lasting) end = std::max(end, pod->end);
  }
}

Clearing Ledger::clearing(const Shape& shape, std::span<const Leaver> leavers) {
  const Known& known = counted(shape);
  Clearing::Start start{.units = known.room.units(), .may_host = known.may_host};
  for (const Row* row : by_number_) start.is_pristine.push_back(row->pods.empty());
  for (const auto& [column, need] : known.needs) start.needs.push_back(need);
  start.free.reserve(by_number_.size() * known.needs.size());
  for (const Row* row : by_number_) {
    for (const auto& [column, need] : known.needs) start.free.push_back(at(row->free, column));
  }
  for (const Leaver& leaver : leavers) {
    std::vector<Clearing::Use> spare, rest;
    const auto owner = owners_.find(leaver.owner);
    if (owner != owners_.end()) {
      const std::set<std::string_view> spares(leaver.spare.begin(), leaver.spare.end());
      for (const auto& [key, pod] : owner->second.pods) {
        if (!pod->row->host || pod->counted()->is_fixture) continue;
        const bool is_spare = !spares.empty() && spares.contains(*key);
        (is_spare ? spare : rest).push_back({pod->row->number, start.amounts.size()});
        for (const auto& [column, need] : known.needs) {
          const auto taken = std::ranges::find(pod->takes, column, &Needs::value_type::first);
          start.amounts.push_back(taken == pod->takes.end() ? 0 : taken->second);
        }
      }
    }
    for (auto* uses : {&spare, &rest}) {
      std::ranges::stable_sort(*uses, {}, &Clearing::Use::host);
      start.groups.push_back(std::move(*uses));
    }
  }
  return Clearing(std::move(start));
}

Outlook Ledger::outlook(const Shape& shape) { return {counted(shape).units_after, end_by_number_}; }

const std::vector<int>& Ledger::units_ever(const Shape& shape) {
  Known& known = counted(shape);
  if (known.ever_as_of == changes_ever_) return known.units_ever;
  known.units_ever.assign(by_number_.size(), 0);
  for (std::size_t number = 0; number < by_number_.size(); ++number) {
    const Row& row = *by_number_[number];
    if (!shape.demands.allow_one_day(*row.host)) continue;
    std::int64_t fit = std::numeric_limits<std::int64_t>::max();
    for (const auto& [column, need] : known.needs)
      fit = std::min(fit, (at(row.most, column) - at(row.fixed, column)) / need);
    known.units_ever[number] = bounded_units(fit);
  }
  known.most_ever.clear();
  known.ever_as_of = changes_ever_;
  return known.units_ever;
}

// Each of many gangs of one kind asks.
int Ledger::most_ever(const Shape& shape, const Ask& ask) {
  units_ever(shape);
  Known& known = known_room(shape);
  const auto [known_most, is_new] =
      known.most_ever.try_emplace({ask.required_depth, ask.slices.size, ask.slices.depth}, 0);
  if (is_new)
    known_most->second =
        largest(*topology_, Room::emptied(*topology_, known.units_ever), ask).units;
  return known_most->second;
}

Ledger::Extent Ledger::extent_of(const Shape& shape) {
  topology();
  Extent extent;
  for (const Row* row : by_number_) {
    if (!shape.demands.allow_one_day(*row->host)) continue;
    ++extent.hosts;
    for (const auto& [resource, quantity] : shape.requests) {
      const std::size_t column = column_of(resource);
      std::int64_t& most = extent.most[resource];
      most = std::max(most, at(row->most, column) - at(row->fixed, column));
    }
  }
  return extent;
}

}  // namespace pawl::placement
