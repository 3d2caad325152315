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

void Clearing::close(int host) {
  now_.units[static_cast<std::size_t>(host)] = 0;
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
    const int before = std::exchange(now_.units[host], fitting(host));
    more += now_.units[host] - before;
  }
  return more;
}

}  // namespace pawl::placement
