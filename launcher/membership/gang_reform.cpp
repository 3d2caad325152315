// The leader when a process is lost or a collective fails: all members park and report, and the
// next generation goes on from the best state that is held (design §5, rules 2, 3 and 6).
#include <algorithm>
#include <utility>

#include "launcher/membership/gang.h"

namespace pawl::membership {

void Gang::on_process_lost(Joiner& joiner, const api::Failure& failure) {
  joiner.ready.reset();
  joiner.parked.reset();  // of what it reported, a part is gone
  remember(failure);
  if (stage_ != Stage::kRunning && stage_ != Stage::kReforming) return;
  if (ledger_.confirmed() > joiner.lost_at) joiner.losses = 0;
  joiner.lost_at = ledger_.confirmed();
  if (++joiner.losses > ctx_.timings.reforms_max) {
    give_up_reform("its processes were killed " + std::to_string(joiner.losses) +
                   " times without a new step");
    return;
  }
  begin_reform(failure.message);
}

void Gang::on_broken(const Joiner& joiner, const Broken& broken) {
  if (stage_ == Stage::kRunning && broken.generation == generation_)
    begin_reform(joiner.join.pod + ": " + broken.why);
}

void Gang::begin_reform(const std::string& why) {
  if (stage_ != Stage::kRunning) return;
  const bool has_new_step = ledger_.confirmed() > reformed_at_;
  reforms_ = has_new_step ? 1 : reforms_ + 1;
  reformed_at_ = std::max(reformed_at_, ledger_.confirmed());
  reform_why_ = why;
  stage_ = Stage::kReforming;
  if (reforms_ > ctx_.timings.reforms_max) {
    give_up_reform(std::to_string(reforms_) + " times in a row without a new step");
    return;
  }
  reform_deadline_ = ctx_.now.steady + ctx_.timings.reform_max;
  proposal_.reset();
  is_selected_ = false;
  start_ = {};
  ctx_.note("gang_parks", why, true);
  for (const PeerId peer : members_) joiners_.at(peer).parked.reset();
  broadcast(Park{generation_});
}

// The failure that began it is the cause of the end then; without one nobody is to blame.
void Gang::give_up_reform(const std::string& why) {
  const std::string text = "the gang was broken (" + reform_why_ + "): " + why;
  if (has_culprit()) return end(StopReason::kFailed, false, text);
  fail_gang(api::Failure{
      .cause = "Unknown", .message = text, .attempt = ctx_.id.attempt, .time = ctx_.now.wall});
}

bool Gang::is_reforming() const {
  return stage_ == Stage::kReforming || (stage_ == Stage::kRunning && reform_deadline_);
}

void Gang::drive_reform() {
  if (ctx_.now.steady >= *reform_deadline_) {
    std::string silent;
    for (const PeerId peer : members_) {
      const Joiner& joiner = joiners_.at(peer);
      const bool is_there =
          stage_ == Stage::kReforming ? joiner.parked.has_value() : joiner.ready.has_value();
      if (!is_there) silent += (silent.empty() ? "" : ", ") + joiner.join.pod;
    }
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(ctx_.timings.reform_max);
    return give_up_reform("it could not go on within " + std::to_string(limit.count()) + " s" +
                          (silent.empty() ? "" : ", and did not hear from " + silent));
  }
  if (stage_ != Stage::kReforming || !writer_.is_free() || !ctx_.is_leader()) return;
  if (!are_members([](const Joiner& joiner) { return joiner.parked.has_value(); })) return;
  const bool has_ended =
      !are_members([](const Joiner& joiner) { return !joiner.parked->has_ended; });
  if (has_ended) return give_up_reform("a rank had trained to the end already");
  if (const auto start = best_start()) propose(*start);
}

// Of what is held and what is stored.
std::optional<NextStart> Gang::best_start() {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  const GenerationStart newest{status.generation, status.base_generation, status.start_step};
  const NextStart start = next_start(newest, reports(), is_all_accounted());
  if (start.source == Source::kMemory) return start;
  // What is being published may be the newest that storage has.
  if (start.source == Source::kWait || is_publishing() || !select_start()) return std::nullopt;
  if (start.base > 0 && start.step > start_.step)
    return NextStart{Source::kMemory, start.base, start.step};
  return NextStart{Source::kStorage, 0, start_.step};
}

std::vector<ParkedReport> Gang::reports() const {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  // What the newest generation went on from.
  std::vector<api::LineageEntry> below = status.lineage;
  std::erase_if(
      below, [&](const api::LineageEntry& entry) { return entry.generation == status.generation; });
  std::vector<ParkedReport> reports;
  for (const PeerId peer : members_) {
    const Joiner& joiner = joiners_.at(peer);
    ParkedReport report;
    report.is_member = true;
    report.is_base_member =
        std::ranges::find(status.base_members, joiner.join.self) != status.base_members.end();
    report.has_never_held = joiner.parked->has_never_held;
    for (const Holding& held : joiner.parked->held) {
      report.held = held;
      report.is_on_line = is_on_line(held, below);
      reports.push_back(report);
    }
  }
  return reports;
}

bool Gang::is_all_accounted() const {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  const auto is_accounted = [this](const api::MemberRef& ref) {
    const bool has_reported = std::ranges::any_of(members_, [&](PeerId peer) {
      const Joiner& joiner = joiners_.at(peer);
      return joiner.join.self == ref && joiner.parked;
    });
    return has_reported || ctx_.find_pod(ref.uid) == nullptr;
  };
  return std::ranges::all_of(status.base_members, is_accounted) &&
         std::ranges::all_of(status.members,
                             [&](const api::Member& one) { return is_accounted(one.ref); });
}

}  // namespace pawl::membership
