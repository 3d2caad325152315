// What the members hold, and which state the next generation goes on from.
#include <algorithm>

#include "launcher/membership/roster.h"

namespace pawl::membership {

NextStart Roster::start_by_reports() const {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  const GenerationStart newest{status.generation, status.base_generation, status.start_step};
  return next_start(newest, reports(), is_all_accounted());
}

// Without those who are not heard.
bool Roster::is_start_known() const { return start_by_reports().source != Source::kWait; }

// Else all have to stay: that none of them holds it is what makes the stored state the newest.
bool Roster::holds_state() const {
  const Source source = start_by_reports().source;
  const bool goes_on_from_memory = ctx_.keeps_processes() && !holds_parts();
  return goes_on_from_memory ? source == Source::kMemory : source != Source::kWait;
}

bool Roster::holds_parts() const {
  return count_members([](const Joiner& joiner) { return joiner.holds_part; }) > 0;
}

bool Roster::is_dispensable(const Joiner& joiner, bool with_unwanted) const {
  if (!joiner.parked || !holds_state()) return false;
  const bool is_giving = holds_parts() && joiner.parked->is_writing;
  return !is_giving && is_held_by_others(joiner, with_unwanted);
}

int Roster::source_rank(const NextStart& start) const {
  if (start.base == 0) return -1;
  int rank = 0;
  for (const PeerId peer : members) {
    const auto& parked = joiners.at(peer).parked;
    for (std::size_t local = 0; local < static_cast<std::size_t>(ctx_.id.processes); ++local) {
      const bool holds = parked && local < parked->held.size() &&
                         parked->held[local] == Holding{start.base, start.step};
      if (holds) return rank;
      ++rank;
    }
  }
  return -1;
}

// Left out before, when another one held what they hold, who was lost since.
std::vector<PeerId> Roster::dropped() const {
  std::vector<PeerId> found;
  for (const auto& [peer, joiner] : joiners) {
    const bool is_there = joiner.member_rank < 0 && !joiner.is_lost && !joiner.is_released &&
                          !joiner.is_parted && ctx_.find_pod(joiner.join.self.uid) != nullptr;
    if (is_there && may_hold(joiner) && !has_place(joiner.join.slot)) found.push_back(peer);
  }
  return found;
}

// The state of the newest generation, or of the one before it.
bool Roster::may_hold(const Joiner& joiner) const {
  const auto& listed = ctx_.record->status.members;
  const auto& base = ctx_.record->status.base_members;
  return std::ranges::find(listed, joiner.join.self, &api::Member::ref) != listed.end() ||
         std::ranges::find(base, joiner.join.self) != base.end();
}

bool Roster::is_held_by_others(const Joiner& leaving, bool with_unwanted) const {
  const auto newest = [](const Joiner& joiner) {
    std::int64_t found = 0;
    for (const Holding& held : joiner.parked->held) found = std::max(found, held.generation);
    return found;
  };
  bool is_held = false;
  for (const PeerId peer : members) {
    const Joiner& joiner = joiners.at(peer);
    if (&joiner == &leaving || joiner.is_lost || joiner.is_leaving) continue;
    if (!with_unwanted && !is_wanted(joiner)) continue;
    if (!joiner.parked) return false;
    is_held = is_held || newest(joiner) >= newest(leaving);
  }
  return is_held;
}

std::vector<ParkedReport> Roster::reports() const {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  // What the newest generation went on from.
  std::vector<api::LineageEntry> below = status.lineage;
  std::erase_if(
      below, [&](const api::LineageEntry& entry) { return entry.generation == status.generation; });
  std::vector<ParkedReport> found;
  for (const PeerId peer : members) {
    const Joiner& joiner = joiners.at(peer);
    if (!joiner.parked) continue;
    ParkedReport report;
    report.is_member = std::ranges::find(status.members, joiner.join.self, &api::Member::ref) !=
                       status.members.end();
    report.is_base_member =
        std::ranges::find(status.base_members, joiner.join.self) != status.base_members.end();
    report.has_never_held = joiner.parked->has_never_held;
    for (const Holding& held : joiner.parked->held) {
      report.held = held;
      report.is_on_line = is_on_line(held, below);
      found.push_back(report);
    }
  }
  return found;
}

bool Roster::is_all_accounted() const {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  const auto is_accounted = [this](const api::MemberRef& ref) {
    const bool has_reported = std::ranges::any_of(members, [&](PeerId peer) {
      const Joiner& joiner = joiners.at(peer);
      return joiner.join.self == ref && joiner.parked;
    });
    return has_reported || ctx_.find_pod(ref.uid) == nullptr;
  };
  return std::ranges::all_of(status.base_members, is_accounted) &&
         std::ranges::all_of(status.members,
                             [&](const api::Member& one) { return is_accounted(one.ref); });
}

}  // namespace pawl::membership
