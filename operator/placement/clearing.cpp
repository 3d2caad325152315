#include "operator/placement/clearing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "operator/placement/resources.h"

namespace pawl::placement {

// So many members fit into what is free.
int Clearing::fitting(std::size_t host) const {
  const std::size_t first = host * now_.needs.size();
  std::int64_t fit = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < now_.needs.size(); ++i)
    fit = std::min(fit, now_.free[first + i] / now_.needs[i]);
  return bounded_units(fit);
}

std::span<const Clearing::Use> Clearing::uses(std::size_t group, HostRange range) const {
  const std::vector<Use>& all = now_.groups[group];
  const auto first = std::ranges::lower_bound(all, range.first, {}, &Use::host);
  const auto end = std::ranges::lower_bound(all, range.end, {}, &Use::host);
  return {first, end};
}

int Clearing::units(HostRange range) const {
  const auto begin = now_.units.begin();
  return std::accumulate(begin + range.first, begin + range.end, 0);
}

Room Clearing::room(const Topology& topology, HostRange range) const {
  std::vector<int> units(now_.units.size(), 0);
  std::copy(now_.units.begin() + range.first, now_.units.begin() + range.end,
            units.begin() + range.first);
  return {topology, std::move(units), now_.is_pristine};
}

void Clearing::set_slices(std::vector<HostRange> domains, int size) {
  slice_domains_ = std::move(domains);
  slice_size_ = size;
  slice_units_.clear();
  slice_domain_of_.assign(now_.units.size(), -1);
  for (const HostRange& range : slice_domains_) {
    const int number = static_cast<int>(slice_units_.size());
    for (int host = range.first; host < range.end; ++host)
      slice_domain_of_[static_cast<std::size_t>(host)] = number;
    slice_units_.push_back(units(range));
  }
  counted_ = {};
}

// A range is one of these domains, or some of them.
bool Clearing::fits_in_slices(HostRange range, int wanted) {
  if (slice_size_ == 1) return true;
  if (range.first != counted_.first || range.end != counted_.end) count_slices(range);
  return counted_units_ >= wanted;
}

void Clearing::count_slices(HostRange range) {
  counted_ = range;
  counted_units_ = 0;
  const auto first = std::ranges::lower_bound(slice_domains_, range.first, {}, &HostRange::first);
  for (auto it = first; it != slice_domains_.end() && it->first < range.end; ++it)
    counted_units_ += in_slices(static_cast<int>(it - slice_domains_.begin()));
}

void Clearing::note(std::size_t host, int units) {
  const int more = units - std::exchange(now_.units[host], units);
  if (slice_size_ == 1 || more == 0 || slice_domain_of_[host] < 0) return;
  const int domain = slice_domain_of_[host];
  const bool is_counted =
      slice_domains_[static_cast<std::size_t>(domain)].first >= counted_.first &&
      static_cast<int>(host) < counted_.end;
  const int before = in_slices(domain);
  slice_units_[static_cast<std::size_t>(domain)] += more;
  if (is_counted) counted_units_ += in_slices(domain) - before;
}

void Clearing::close(int host) {
  note(static_cast<std::size_t>(host), 0);
  now_.may_host[static_cast<std::size_t>(host)] = false;
}

int Clearing::change(std::size_t group, HostRange range, int sign) {
  int more = 0;
  for (const Use& use : uses(group, range)) {
    const auto host = static_cast<std::size_t>(use.host);
    const std::size_t first = host * now_.needs.size();
    for (std::size_t i = 0; i < now_.needs.size(); ++i)
      now_.free[first + i] += sign * now_.amounts[use.amounts + i];
    if (!now_.may_host[host]) continue;
    const int before = now_.units[host];
    note(host, fitting(host));
    more += now_.units[host] - before;
  }
  return more;
}

}  // namespace pawl::placement
