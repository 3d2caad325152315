#include "launcher/membership/generations.h"

#include <algorithm>
#include <optional>

#include "common/base/mutant.h"

namespace pawl::membership {
namespace {

// The highest step among the reports that `counts`.
template <typename Predicate>
std::optional<Holding> best(std::span<const ParkedReport> reports, Predicate counts) {
  std::optional<Holding> found;
  for (const ParkedReport& report : reports) {
    if (report.held.generation == 0 || !counts(report)) continue;
    if (!found || report.held.step > found->step) found = report.held;
  }
  return found;
}

}  // namespace

void Standing::promise(std::int64_t generation) {
  if (is_mutant(Mutant::kB36NoPromise)) return;
  promised_ = std::max(promised_, generation);
}

bool Standing::may_enter(std::int64_t generation) const {
  return generation > promised_ && generation > entered_;
}

bool has_surely_never_held(std::int64_t generation, const Holding& held, bool may_have_held) {
  return held.generation != generation && !may_have_held;
}

bool is_on_line(const Holding& held, std::span<const api::LineageEntry> line) {
  return std::ranges::all_of(line, [&](const api::LineageEntry& entry) {
    return entry.generation <= held.generation || held.step <= entry.start_step;
  });
}

NextStart next_start(const GenerationStart& newest, std::span<const ParkedReport> reports,
                     bool is_all_accounted) {
  const auto newest_held = best(reports, [&](const ParkedReport& report) {
    return report.is_member && report.held.generation == newest.generation;
  });
  if (is_mutant(Mutant::kB36HighestStep)) {
    const auto highest = best(reports, [](const ParkedReport&) { return true; });
    if (highest) return {Source::kMemory, highest->generation, highest->step};
  }
  if (newest_held) return {Source::kMemory, newest.generation, newest_held->step};
  // Not one step was made in it, for certain: what it started from is still the newest.
  const bool is_hollow = std::ranges::any_of(reports, [](const ParkedReport& report) {
    return report.is_member && report.has_never_held;
  });
  if (is_hollow && newest.base == 0) return {Source::kStorage, 0, newest.step};
  if (is_hollow || is_mutant(Mutant::kB36HollowUnproven)) {
    const auto base_held = best(reports, [&](const ParkedReport& report) {
      return report.is_base_member && report.held.generation == newest.base;
    });
    if (base_held) return {Source::kMemory, newest.base, base_held->step};
  }
  if (!is_all_accounted && !is_mutant(Mutant::kB36SilentIsEmpty)) return {};
  const auto older = best(reports, [](const ParkedReport& report) { return report.is_on_line; });
  return older ? NextStart{Source::kStorage, older->generation, older->step}
               : NextStart{Source::kStorage, 0, 0};
}

BaseMembers base_members_after(const GenerationStart& newest, const NextStart& start) {
  if (start.base == 0) return BaseMembers::kNobody;
  if (start.base == newest.generation) return BaseMembers::kMembers;
  // Where the newest generation is void, so is what those hold who are not heard.
  return start.source == Source::kMemory ? BaseMembers::kUnchanged : BaseMembers::kHolders;
}

}  // namespace pawl::membership
