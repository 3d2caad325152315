#include "operator/admission/walk.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace pawl::admission {

Line::Walk::Walk(Line& line, Round& round, Quotas& quotas, bool is_freed)
    : line_(line), round_(round), quotas_(quotas), is_freed_(is_freed) {
  tracks_.reserve(line.lanes_.size());
  for (auto& [key, lane] : line.lanes_) tracks_.push_back(track_of(lane));
}

Line::Walk::Track Line::Walk::track_of(Lane& lane) {
  const Queue* queue = quotas_.find(lane.queue);
  Track track{.lane = &lane, .is_fifo = queue != nullptr && queue->is_fifo};
  // Nobody gets anything of a queue that is gone: whoever names it has to be told.
  const bool is_gone = !lane.queue.empty() && queue == nullptr;
  track.head = lane.order.begin();
  tries_ += track.is_fifo ? 1 : 0;
  track.kinds.reserve(lane.groups.size());
  for (auto& [kind, group] : lane.groups) {
    has_news_ = has_news_ || !group.fresh.empty();
    Order& tried = is_freed_ ? group.all : group.fresh;
    track.kinds.push_back({&group, is_gone ? tried.end() : tried.begin(), tried.end(),
                           is_gone ? group.patient.end() : group.patient.begin(),
                           group.patient.end()});
    tries_ += track.is_fifo || is_gone || tried.empty() ? 0 : 1;
  }
  return track;
}

void Line::Walk::run() {
  if (!is_freed_ && !has_news_) return;
  for (Track& track : tracks_) choose_claimant(track);
  while (Track* track = next()) visit(*track);
}

// Of a kind that can never begin none is.
void Line::Walk::choose_claimant(Track& track) {
  const std::string& queue = track.lane->queue;
  if (quotas_.find(queue) == nullptr) return;
  // Who makes room makes it for these alone: their quota is kept, too, whoever lends it.
  for (const auto& [id, hosts] : line_.awaited_) {
    const Waiting& waiting = line_.waiting_.at(id);
    if (waiting.lane != track.lane) continue;
    track.awaited.insert(&waiting);
    placement::add(track.awaited_quota, charge_of(waiting.gang));
  }
  if (!track.awaited.empty()) return quotas_.set_claim(queue, track.awaited_quota);
  const auto is_first = [&](const Waiting* waiting) {
    if (track.is_fifo) return waiting == *track.head;
    return track.claimant == nullptr || Before{}(waiting, track.claimant);
  };
  for (const Kinds& kind : track.kinds) {
    if (kind.patient == kind.patient_end || !is_first(*kind.patient)) continue;
    const Gang& gang = (*kind.patient)->gang;
    if (gang.keeps_quota) continue;  // it has what it needs
    const auto shortage = shortage_of(track, gang);
    const bool is_for_ever = shortage && shortage->is_for_ever;
    if (!is_for_ever && round_.is_possible(gang)) track.claimant = *kind.patient;
  }
  if (track.claimant == nullptr) return;
  quotas_.set_claim(queue, quotas_.entitled(queue, charge_of(track.claimant->gang)));
}

// ---- whose turn it is

Line::Walk::Track* Line::Walk::next() {
  if (tries_ == 0 && (!has_news_ || round_.is_all_kept())) return nullptr;
  Track* first = nullptr;
  for (Track& track : tracks_) {
    if (std::exchange(track.is_stale, false)) refresh(track);
    if (!track.candidate) continue;
    if (first == nullptr || precedes(*track.candidate, *first->candidate)) first = &track;
  }
  is_complete_ = first == nullptr;
  return first;
}

void Line::Walk::refresh(Track& track) {
  Candidate first;
  const auto offer = [&](Waiting* waiting, Kinds* kind) {
    if (first.waiting == nullptr || Before{}(waiting, first.waiting)) first = {waiting, kind};
  };
  if (track.is_fifo) {
    if (track.head != track.lane->order.end()) offer(*track.head, nullptr);
  } else {
    for (Kinds& kind : track.kinds) {
      if (kind.next != kind.next_end && shortage_of(track, (*kind.next)->gang)) {
        kind.next = kind.next_end;  // quota becomes less and less
        --tries_;
      }
      if (kind.next != kind.next_end) offer(*kind.next, &kind);
      if (kind.patient != kind.patient_end) offer(*kind.patient, &kind);
    }
  }
  track.candidate.reset();
  if (first.waiting == nullptr) return;
  const bool is_asked = track.lane->part == Part::kWaiting && !quotas_.queues().empty();
  if (is_asked) {
    first.borrows = quotas_.borrows(track.lane->queue, charge_of(first.waiting->gang));
    first.share = quotas_.share(track.lane->queue);
  }
  track.candidate = first;
}

bool Line::Walk::precedes(const Candidate& one, const Candidate& other) {
  const auto key = [](const Candidate& candidate) {
    return std::tuple{candidate.waiting->lane->part, candidate.borrows, candidate.share};
  };
  const auto a = key(one), b = key(other);
  return a < b || (a == b && Before{}(one.waiting, other.waiting));
}

// ---- what it gets

void Line::Walk::visit(Track& track) {
  const Candidate candidate = *track.candidate;
  track.is_stale = true;
  Waiting& waiting = *candidate.waiting;
  if (candidate.kind == nullptr) return visit_head(track, waiting);
  Kinds& kind = *candidate.kind;
  bool is_placed = false;
  if (kind.next != kind.next_end && *kind.next == &waiting) {
    const Round::Try tried = try_place(track, waiting);
    is_placed = tried.placement.has_value();
    kind.next = tried.is_hopeless ? kind.next_end : std::next(kind.next);
    tries_ -= kind.next == kind.next_end ? 1 : 0;
  }
  if (kind.patient == kind.patient_end || *kind.patient != &waiting) return;
  const bool may_others = is_placed || keep(track, waiting);
  kind.patient = may_others ? std::next(kind.patient) : kind.patient_end;
}

void Line::Walk::visit_head(Track& track, Waiting& waiting) {
  const Group& group = waiting.group->second;
  const bool may_fit = is_freed_ || group.fresh.contains(&waiting);
  if (may_fit && try_place(track, waiting).placement) {
    ++track.head;
  } else {
    if (group.patient.contains(&waiting)) keep(track, waiting);
    track.head = track.lane->order.end();
    track.stopped_at = &waiting;
  }
  tries_ -= track.head == track.lane->order.end() ? 1 : 0;
}

std::optional<Shortage> Line::Walk::shortage_of(const Track& track, const Gang& gang) const {
  return shortage_of(track, gang, gang.ask.units);
}

std::optional<Shortage> Line::Walk::shortage_of(const Track& track, const Gang& gang,
                                                int units) const {
  if (quotas_.find(gang.queue) == nullptr) return std::nullopt;
  // Of those for whom something is kept nobody waits for what is kept for another: two that both
  // have to borrow would wait for each other for ever.
  const bool has_claim =
      (track.claimant != nullptr && &gang == &track.claimant->gang) ||
      std::ranges::any_of(track.awaited, [&](const Waiting* one) { return &one->gang == &gang; });
  const placement::Resources charge = charge_of(gang, units);
  if (has_claim) return quotas_.shortage(gang.queue, charge, Quotas::Claims::kNone);
  // Who is underway goes before whoever waits in its queue.
  const bool is_before_claim =
      track.lane->part == Part::kUnderway || (track.claimant != nullptr && !track.is_claim_set) ||
      (!track.awaited.empty() && std::ranges::all_of(track.awaited, [&](const Waiting* one) {
        return Line::precedes(gang, one->gang);
      }));
  return quotas_.shortage(gang.queue, charge,
                          is_before_claim ? Quotas::Claims::kOfOthers : Quotas::Claims::kAll);
}

Round::Try Line::Walk::try_place(Track& track, Waiting& waiting) {
  const Gang& gang = waiting.gang;
  if (shortage_of(track, gang)) return {.is_hopeless = true};
  int more = 0;
  for (int half = std::bit_floor(static_cast<unsigned>(gang.more_units)); half > 0; half /= 2) {
    if (more + half <= gang.more_units && !shortage_of(track, gang, gang.ask.units + more + half))
      more += half;
  }
  Round::Try tried = round_.try_place(gang, more, waiting.group->second.room->second.counted);
  if (!tried.placement) return tried;
  placement::Resources all = quotas_.charged(gang.id);
  placement::add(all, charge_of(gang, units_of(*tried.placement)));
  quotas_.charge(gang.id, gang.queue, std::move(all));
  if (&waiting == track.claimant) {
    quotas_.set_claim(gang.queue, {});
    track.is_claim_set = true;
  }
  if (track.awaited.erase(&waiting) > 0) {
    for (const auto& [resource, amount] : charge_of(gang)) track.awaited_quota[resource] -= amount;
    quotas_.set_claim(gang.queue, track.awaited_quota);
  }
  for (Track& other : tracks_) other.is_stale = other.is_stale || other.lane->queue == gang.queue;
  placed_.emplace(&waiting, *tried.placement);
  return tried;
}

// False: neither for others of its kind.
bool Line::Walk::keep(Track& track, Waiting& waiting) {
  const Gang& gang = waiting.gang;
  if (line_.kept_.contains(gang.id)) passed_by_.insert(gang.id);
  const auto shortage = shortage_of(track, gang);
  if (&waiting == track.claimant) {
    claimed_.emplace(&waiting, shortage);
    quotas_.set_claim(gang.queue, charge_of(gang));
    track.is_claim_set = true;
  }
  if (shortage) return false;
  return !round_.is_all_kept() && round_.keep_for(gang);
}

// ---- what they are told

Verdict Line::Walk::verdict_of(const Track& track, const Waiting& waiting) {
  const Gang& gang = waiting.gang;
  Verdict verdict{.id = gang.id};
  if (const Reservation* kept = round_.kept_for(gang)) verdict.kept = *kept;
  const auto claimed = claimed_.find(&waiting);
  verdict.shortage = claimed == claimed_.end() ? shortage_of(track, gang) : claimed->second;
  verdict.is_behind = track.is_fifo && &waiting != track.stopped_at;
  const bool is_asked_of_all = gang.beside.empty() && !verdict.kept && !verdict.shortage;
  verdict.is_passed_over =
      is_asked_of_all && round_.may_fit(gang, waiting.group->second.room->second.counted);
  return verdict;
}

std::vector<Verdict> Line::Walk::verdicts() {
  std::vector<std::pair<const Waiting*, Verdict>> all;
  for (const auto& [waiting, placed] : placed_)
    all.emplace_back(waiting, Verdict{.id = waiting->gang.id, .placement = placed});
  for (const Track& track : tracks_) {
    for (const Kinds& kind : track.kinds) {
      for (const Waiting* waiting : kind.group->fresh) {
        if (!placed_.contains(waiting)) all.emplace_back(waiting, verdict_of(track, *waiting));
      }
    }
  }
  std::ranges::sort(all, Before{}, &std::pair<const Waiting*, Verdict>::first);
  std::vector<Verdict> verdicts;
  for (auto& [waiting, verdict] : all) verdicts.push_back(std::move(verdict));
  return verdicts;
}

// A claim of somebody else may be a smaller one.
bool Line::Walk::note_holders() {
  bool is_less = false;
  if (!is_freed_ && !has_news_) return is_less;
  for (const Track& track : tracks_) {
    const Waiting* claimant = placed_.contains(track.claimant) ? nullptr : track.claimant;
    const Waiting* before = std::exchange(track.lane->claimant, claimant);
    is_less = is_less || (before != nullptr && before != claimant && !placed_.contains(before));
    track.lane->stopped_at = track.stopped_at;
  }
  return is_less;
}

std::map<std::string, std::set<std::string>> Line::Walk::kept() const {
  std::map<std::string, std::set<std::string>> kept = round_.kept_hosts();
  for (const auto& [id, hosts] : line_.kept_) {
    const auto found = line_.waiting_.find(id);
    const bool may_have = found != line_.waiting_.end() &&
                          found->second.group->second.patient.contains(&found->second);
    const bool is_looked_at = is_complete_ || round_.is_all_kept() || passed_by_.contains(id);
    if (!may_have || is_looked_at) kept.try_emplace(id);
  }
  return kept;
}

}  // namespace pawl::admission
