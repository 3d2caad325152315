#include "operator/admission/reservation.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace pawl::admission {
namespace {

// Room for so many members, from then on.
struct Room {
  TimePoint at;
  int units = 0, host = 0;
  bool is_free = false;  // it is there now
};

// The soonest first, of these the largest: what comes first is the top of a heap.
bool is_behind(const Room& a, const Room& b) {
  return std::tie(b.at, a.units, b.host) < std::tie(a.at, b.units, a.host);
}

bool contains(const placement::Domain& domain, int host) {
  return domain.first_host <= host && host < domain.end_host;
}

class Search {
 public:
  Search(const Prospect& prospect, const placement::Ask& ask, const std::vector<bool>& is_kept,
         TimePoint now)
      : topology_(prospect.topology),
        room_(prospect.room),
        outlook_(prospect.outlook),
        is_kept_(is_kept),
        slices_(ask.has_slices() ? ask.slices : placement::Slices{}),
        units_(ask.units),
        now_(now) {
    for (const int host : prospect.own) ++own_[host];
  }

  std::optional<Reservation> within(const placement::Domain& domain) {
    rooms_.clear();
    free_ = all_ = 0;
    for (int host = domain.first_host; host < domain.end_host; ++host) look_at(host);
    if (all_ < units_) return std::nullopt;
    std::ranges::make_heap(rooms_, is_behind);
    Reservation found{.begin = now_, .domain = &domain, .lacking = std::max(units_ - free_, 0)};
    for (int left = units_; left > 0; rooms_.pop_back()) {
      std::ranges::pop_heap(rooms_, is_behind);
      const Room& one = rooms_.back();
      left -= one.units;
      found.begin = std::max(found.begin, one.at);
      found.hosts.push_back(one.host);
    }
    drop_twice(found.hosts);
    return found;
  }

  // The slices that can be there soonest: of each of their domains the first so many members, then
  // the next.
  std::optional<Reservation> within_in_slices(const placement::Domain& domain) {
    std::vector<Slice> slices;
    for (const placement::Domain& one : topology_.domains(slices_.depth)) {
      if (contains(domain, one.first_host)) cut(one, slices);
    }
    const auto wanted = static_cast<std::size_t>(units_ / slices_.size);
    if (slices.size() < wanted) return std::nullopt;
    std::ranges::stable_sort(slices, {}, &Slice::at);
    Reservation found{.begin = now_, .domain = &domain};
    for (std::size_t i = 0; i < wanted; ++i) {
      found.begin = std::max(found.begin, slices[i].at);
      found.lacking += slices[i].lacking;
      found.hosts.insert(found.hosts.end(), slices[i].hosts.begin(), slices[i].hosts.end());
    }
    drop_twice(found.hosts);
    return found;
  }

 private:
  struct Slice {
    TimePoint at;
    int lacking = 0;
    std::vector<int> hosts;
  };

  static void drop_twice(std::vector<int>& hosts) {
    std::ranges::sort(hosts);
    const auto twice = std::ranges::unique(hosts);
    hosts.erase(twice.begin(), twice.end());
  }

  void cut(const placement::Domain& domain, std::vector<Slice>& slices) {
    rooms_.clear();
    for (int host = domain.first_host; host < domain.end_host; ++host) look_at(host);
    std::ranges::sort(rooms_, [](const Room& a, const Room& b) { return is_behind(b, a); });
    Slice next{.at = now_};
    int units = 0;
    for (const Room& room : rooms_) {
      for (int left = room.units; left > 0;) {
        const int taken = std::min(left, slices_.size - units);
        left -= taken;
        units += taken;
        next.at = std::max(next.at, room.at);
        next.lacking += room.is_free ? 0 : taken;
        next.hosts.push_back(room.host);
        if (units < slices_.size) continue;
        slices.push_back(std::exchange(next, Slice{.at = now_}));
        units = 0;
      }
    }
  }

  void look_at(int host) {
    const auto number = static_cast<std::size_t>(host);
    if (is_kept_[number]) return;
    const auto own = own_.find(host);
    const int now = room_.units_on(host);
    // What its own members take does not become free for it, and may be what ends last.
    const int later = outlook_.units[number] - (own == own_.end() ? 0 : own->second);
    const TimePoint at = own == own_.end() ? end_on(number) : placement::Outlook::kUnknown;
    if (now > 0) rooms_.push_back({now_, now, host, true});
    if (later > now) rooms_.push_back({at, later - now, host});
    free_ += now;
    all_ += std::max(now, later);
  }

  TimePoint end_on(std::size_t host) const {
    const TimePoint end = outlook_.at[host];
    if (end >= now_ || end == TimePoint::min()) return std::max(end, now_);
    return now_ - end <= kOverdueMax ? now_ : placement::Outlook::kUnknown;
  }

  const placement::Topology& topology_;
  const placement::Room& room_;
  const placement::Outlook& outlook_;
  const std::vector<bool>& is_kept_;
  const placement::Slices slices_;
  const int units_;
  const TimePoint now_;
  std::map<int, int> own_;   // members that stay, by host
  std::vector<Room> rooms_;  // of the domain that is looked at
  int free_ = 0, all_ = 0;   // members that it has room for: now, in the end
};

}  // namespace

std::optional<Reservation> reserve(const Prospect& prospect, const placement::Ask& ask,
                                   const std::vector<bool>& is_kept, TimePoint now) {
  Search search(prospect, ask, is_kept, now);
  std::optional<Reservation> best;
  for (const placement::Domain& domain : prospect.topology.domains(ask.required_depth)) {
    if (!ask.beside.empty() && !contains(domain, ask.beside.front())) continue;
    auto found = ask.has_slices() ? search.within_in_slices(domain) : search.within(domain);
    const bool is_better = found && (!best || std::tie(found->begin, found->lacking) <
                                                  std::tie(best->begin, best->lacking));
    if (is_better) best = std::move(found);
  }
  if (best) best->depth = ask.required_depth;
  return best;
}

}  // namespace pawl::admission
