#include "operator/admission/reservation.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

namespace pawl::admission {
namespace {

// Room for so many members, from then on.
struct Room {
  TimePoint at;
  int units = 0, host = 0;
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
      : room_(prospect.room),
        outlook_(prospect.outlook),
        is_kept_(is_kept),
        units_(ask.units),
        now_(now) {
    for (const int host : ask.beside) ++own_[host];
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
    std::ranges::sort(found.hosts);
    const auto twice = std::ranges::unique(found.hosts);
    found.hosts.erase(twice.begin(), twice.end());
    return found;
  }

 private:
  void look_at(int host) {
    const auto number = static_cast<std::size_t>(host);
    if (is_kept_[number]) return;
    const auto own = own_.find(host);
    const int now = room_.units_on(host);
    // What its own members take does not become free for it, and may be what ends last.
    const int later = outlook_.units[number] - (own == own_.end() ? 0 : own->second);
    const TimePoint at = own == own_.end() ? end_on(number) : placement::Outlook::kUnknown;
    if (now > 0) rooms_.push_back({now_, now, host});
    if (later > now) rooms_.push_back({at, later - now, host});
    free_ += now;
    all_ += std::max(now, later);
  }

  TimePoint end_on(std::size_t host) const {
    const TimePoint end = outlook_.at[host];
    if (end >= now_ || end == TimePoint::min()) return std::max(end, now_);
    return now_ - end <= kOverdueMax ? now_ : placement::Outlook::kUnknown;
  }

  const placement::Room& room_;
  const placement::Outlook& outlook_;
  const std::vector<bool>& is_kept_;
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
    auto found = search.within(domain);
    const bool is_better = found && (!best || std::tie(found->begin, found->lacking) <
                                                  std::tie(best->begin, best->lacking));
    if (is_better) best = std::move(found);
  }
  if (best) best->depth = ask.required_depth;
  return best;
}

}  // namespace pawl::admission
