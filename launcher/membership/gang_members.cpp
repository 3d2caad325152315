// Who comes and who goes: launchers join, fall silent, connect anew, are told to leave, and are
// replaced by the pod that the operator puts into their slot.
#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "launcher/membership/gang.h"

namespace pawl::membership {

// While it gathers; later for whoever takes a lost member's place.
bool Gang::is_open() const {
  return stage_ == Stage::kGathering || (lives() && ctx_.record->spec.has_successors);
}

std::optional<Refused> Gang::refusal_of(const Join& join) const {
  if (join.version != api::kContractVersion) {
    return Refused{"this launcher speaks version " + std::to_string(join.version) +
                       " of the contract, the leader " + std::to_string(api::kContractVersion),
                   true};
  }
  if (join.attempt != ctx_.id.attempt) {
    return Refused{"attempt " + std::to_string(join.attempt) + " is not the one that runs (" +
                       std::to_string(ctx_.id.attempt) + ")",
                   join.attempt < ctx_.id.attempt};
  }
  if (join.processes != ctx_.id.processes) {
    return Refused{"it starts " + std::to_string(join.processes) + " processes, the leader " +
                       std::to_string(ctx_.id.processes),
                   true};
  }
  const api::EligiblePod* pod = ctx_.find_pod(join.self.uid);
  if (pod != nullptr && pod->slot != join.slot) {
    return Refused{
        "the pod has slot " + std::to_string(pod->slot) + ", it said " + std::to_string(join.slot),
        true};
  }
  if (!is_open()) return Refused{"the gang of this attempt is complete", false};
  return std::nullopt;
}

void Gang::on_join(PeerId peer, const Join& join) {
  if (auto refused = refusal_of(join)) {
    ctx_.note("join_refused", join.pod + ": " + refused->why, true);
    ctx_.act(Send{peer, std::move(*refused)});
    return;
  }
  drop_older_connections(peer, join.self.uid);
  Joiner joiner;
  joiner.join = join;
  joiner.last_heard = ctx_.now.steady;
  joiner.is_leaving = join.is_leaving;
  joiner.is_parted = apart_.is_parted(join.self.uid);
  roster_.joiners[peer] = std::move(joiner);
  joined_at_ = ctx_.now.steady;
  // One that was lost and is back, and waits to be let in.
  std::erase_if(strayed_, [&](const Joiner& one) { return one.join.self.uid == join.self.uid; });
  if (roster_.generation > 0 && !apart_.is_parted(join.self.uid))
    failures_.forget_silence(join.self.uid);
  const auto there = std::ranges::count_if(roster_.joiners,
                                           [](const auto& entry) { return !entry.second.is_lost; });
  ctx_.note("member_joined", join.pod + ", slot " + std::to_string(join.slot) + ", " +
                                 std::to_string(there) + " of " +
                                 std::to_string(ctx_.record->spec.target_members));
}

// The same launcher on a new connection: the old one is dead, whether or not we have noticed.
void Gang::drop_older_connections(PeerId peer, const std::string& uid) {
  std::vector<PeerId> older;
  for (const auto& [other, joiner] : roster_.joiners) {
    if (other != peer && joiner.join.self.uid == uid && !joiner.is_lost) older.push_back(other);
  }
  for (const PeerId other : older) {
    ctx_.act(HangUp{other});
    lose(other, "it has connected anew");
  }
}

// ---- going

void Gang::on_peer_down(PeerId peer, const std::string& why) {
  if (roster_.find(peer) != nullptr) lose(peer, why);
}

void Gang::lose(PeerId peer, const std::string& why) {
  Joiner& joiner = roster_.joiners.at(peer);
  if (joiner.is_lost) return;
  ctx_.note("member_lost", joiner.join.pod + ": " + why, true);
  if (stage_ == Stage::kGathering || !roster_.is_ours(joiner)) {
    const bool may_come = lives() && !joiner.is_released && !joiner.is_leaving;
    joiner.lost_since = ctx_.now.steady;
    if (may_come) strayed_.push_back(std::move(joiner));
    roster_.joiners.erase(peer);
    return;
  }
  mark_lost(joiner);
  if (!lives() || joiner.is_finished || joiner.has_left) return;
  const api::Failure failure = roster_.failure_of(
      joiner, {.cause = api::kCauseUnknown, .message = "lost the launcher of this pod: " + why});
  if (!ctx_.record->spec.has_successors) return fail_gang(failure);
  const bool is_to_go = joiner.is_leaving || joiner.is_newcomer || !roster_.is_wanted(joiner);
  joiner.is_told = joiner.is_leaving || !is_to_go;
  if (!is_to_go) remember(failure);
  const Change of_those = joiner.is_leaving ? Change::kWorkerLeft : Change::kResized;
  begin_reform(joiner.join.pod + ": " + why, is_to_go ? of_those : Change::kWorkerLost);
}

void Gang::mark_lost(Joiner& joiner) {
  joiner.is_lost = true;
  joiner.lost_since = ctx_.now.steady;
  joiner.rejoin_by = ctx_.now.steady + ctx_.timings.rejoin_wait;
  joiner.ready.reset();
  joiner.parked.reset();  // what it holds cannot be fetched from it
}

void Gang::on_tick() {
  seek_deputy();
  std::vector<PeerId> silent;
  for (auto& [peer, joiner] : roster_.joiners) {
    if (peer == kSelfPeer || joiner.is_lost || joiner.has_left) continue;
    if (ctx_.now.steady - joiner.last_heard > ctx_.timings.dead) {
      silent.push_back(peer);
    } else if (ctx_.now.steady - joiner.last_sent >= ctx_.timings.heartbeat) {
      send(peer, Heartbeat{});
    }
  }
  for (const PeerId peer : silent) {
    ctx_.act(HangUp{peer});
    lose(peer, "nothing heard for " + std::to_string(ctx_.timings.dead.count()) + " ms");
    if (Joiner* joiner = roster_.find(peer))
      joiner->rejoin_by = ctx_.now.steady;  // it had its time
  }
}

void Gang::forgive_silence() {
  for (auto& [peer, joiner] : roster_.joiners) joiner.last_heard = ctx_.now.steady;
}

void Gang::dissolve() {
  for (const auto& [peer, joiner] : roster_.joiners) {
    if (peer != kSelfPeer) ctx_.act(HangUp{peer});
  }
}

// What a member holds the others hold too, so that it may go at once; unless nobody may take its
// place. A leader names its successor first.
void Gang::on_leaving(Joiner& joiner) {
  const bool is_leader = joiner.join.self == ctx_.id.self;
  const std::string why = joiner.join.pod + " was told to terminate";
  if (lives() && !ctx_.record->spec.has_successors) {
    end(StopReason::kDrained, true, why);
  } else if (lives()) {
    joiner.is_leaving = true;
    is_explained_ = true;
    // Who has trained to the end will be through before long.
    if (is_leader || is_almost_through()) return;
    const bool may_save = stage_ == Stage::kRunning && has_started();
    if (!may_save || save_before_change()) begin_reform(why, Change::kWorkerLeft);
  } else if (stage_ == Stage::kGathering && is_leader) {
    end(StopReason::kDrained, false, "the leading launcher was told to terminate");
  } else if (stage_ == Stage::kGathering) {
    joiner.is_leaving = true;  // another member's replacement may still come
  }
}

// A launcher stays as long as its gang lives, and would wait for its own place to be filled. Where
// others are there one of them takes over.
void Gang::end_without_leader(const Joiner& joiner) {
  if (!lives() || joiner.join.self != ctx_.id.self) return;
  const std::string why = "the processes of the leading launcher have ended";
  if (is_last_) return end(StopReason::kDrained, false, why);
  const bool has_heirs = ctx_.record->spec.has_successors && !roster_.has_trained_to_end() &&
                         roster_.has_others_to_lead();
  if (!has_heirs) return end(StopReason::kFailed, false, why);
  ctx_.note("lead_dropped", why, true);
  dissolve();
  stage_ = Stage::kDone;
}

void Gang::on_left(Joiner& joiner) {
  joiner.has_left = true;
  end_without_leader(joiner);
  if (!lives() || !ctx_.record->spec.has_successors) return;
  mark_lost(joiner);
  joiner.rejoin_by = ctx_.now.steady;
  begin_reform(joiner.join.pod + " has left", Change::kWorkerLeft);
}

// Once all others are at rest, and one of them holds what it holds. A step that it alone has made
// is not confirmed, and may be made again.
void Gang::release_leaving() {
  for (const PeerId peer : roster_.members) {
    Joiner& joiner = roster_.joiners.at(peer);
    const bool can_go = joiner.is_leaving && peer != kSelfPeer && !joiner.is_lost && joiner.parked;
    if (!can_go || joiner.is_released || !roster_.is_held_by_others(joiner, true)) continue;
    joiner.is_released = true;
    send(peer, StopGang{StopReason::kDrained, false, "another pod takes its place"});
  }
}

// ---- the places of those who are gone

// The operator has given their place to another pod: what they hold is void. A launcher that was
// parted from hears nothing else of it.
void Gang::drop_replaced() {
  if (ctx_.record->spec.attempt != ctx_.id.attempt) return;
  for (const auto& [peer, joiner] : roster_.joiners) {
    if (joiner.is_parted && !joiner.is_lost && ctx_.find_pod(joiner.join.self.uid) == nullptr)
      ctx_.act(HangUp{peer});
  }
  for (const PeerId peer : roster_.members) {
    const Joiner& joiner = roster_.joiners.at(peer);
    if (joiner.is_lost || ctx_.find_pod(joiner.join.self.uid) != nullptr) continue;
    ctx_.act(HangUp{peer});
    lose(peer, "another pod has its place");
  }
}

// The gang has run under another leader. Its members are waited for like those that were lost: each
// comes by itself when it reads who leads, and says what it holds.
void Gang::take_over() {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  for (const api::Member& member : status.members) {
    const api::EligiblePod* pod = ctx_.find_pod(member.ref.uid);
    Joiner joiner;
    joiner.join.self = member.ref;
    joiner.join.address = member.address;
    joiner.join.pod = pod != nullptr ? pod->name : "pod " + member.ref.uid;
    joiner.join.slot = member.slot;
    joiner.member_rank = member.rank;
    joiner.is_lost = true;
    joiner.lost_since = ctx_.now.steady;
    joiner.rejoin_by = ctx_.now.steady + ctx_.timings.rejoin_takeover_wait;
    const PeerId place = kVacant + vacancies_++;
    roster_.joiners[place] = std::move(joiner);
    roster_.members.push_back(place);
  }
  for (const api::Failure& failure : status.failures) {
    const bool is_of_now = failure.attempt == ctx_.id.attempt;
    // Who leads is not parted from, but the other one.
    const bool is_ours = failure.pod_uid == ctx_.id.self.uid;
    if (failure.cause == api::kCauseUnreached && is_of_now && !is_ours)
      apart_.part(failure.pod_uid);
  }
  roster_.generation = status.generation;
  stage_ = Stage::kReforming;
  reforms_ = 1;
  reform_why_ = "the leading launcher was lost";
  is_blameless_ = is_explained_ = true;  // as far as we know
  reform_deadline_ = ctx_.now.steady + ctx_.timings.reform_max;
  broken_since_ = ctx_.now.steady;
  if (!tells_steps() && ctx_.programs_generation == roster_.generation)
    tally_.on_programs_ran(roster_.generation, ctx_.programs_since, ctx_.now.steady);
  tally_.on_change(Change::kLeaderChanged, ctx_.now.steady);
  saves_.begin_generation(status.start_step);
  if (status.progress) saves_.confirm(status.progress->step);
  ctx_.note("gang_taken_over", "generation " + std::to_string(roster_.generation) + " of " +
                                   std::to_string(roster_.members.size()) + " members");
}

// By the same launcher on a new connection, or by the one that is in its slot now.
void Gang::fill_places() {
  for (PeerId& place : roster_.members) {
    if (!roster_.joiners.at(place).is_awaited()) continue;
    const Joiner lost = roster_.joiners.at(place);  // outlives its entry
    const auto next = std::ranges::find_if(roster_.joiners, [&](const auto& entry) {
      const Joiner& one = entry.second;
      const api::EligiblePod* pod = ctx_.find_pod(one.join.self.uid);
      return !one.is_lost && !one.is_parted && one.member_rank < 0 &&
             one.join.slot == lost.join.slot && pod != nullptr && pod->slot == lost.join.slot;
    });
    if (next == roster_.joiners.end()) continue;
    roster_.joiners.erase(place);
    proposal_.reset();  // was of another one
    place = next->first;
    Joiner& joiner = next->second;
    joiner.member_rank = lost.member_rank;
    joiner.losses = lost.losses;
    joiner.lost_in = lost.lost_in;
    joiner.lost_at = lost.lost_at;
    joiner.stored_then = lost.stored_then;
    if (joiner.join.self == lost.join.self) failures_.forget_silence(joiner.join.self.uid);
    ctx_.note("place_filled", joiner.join.pod + " is member " + std::to_string(joiner.member_rank) +
                                  " from now on");
    send(place, Park{roster_.generation});
  }
}

// Nobody waits for them when all are to stop: those who are there save what they hold. A leader
// that has to go waits for them where somebody else is there that may lead after it.
void Gang::close_places() {
  const bool has_successors = !ctx_.record->spec.is_stopping && roster_.has_others_to_lead();
  const auto& timings = ctx_.timings;
  const auto wait = has_successors ? timings.successors_wait : timings.loss_told_wait;
  const auto closed = std::erase_if(roster_.members, [&](PeerId peer) {
    const Joiner& joiner = roster_.joiners.at(peer);
    const bool is_expected = has_successors || (!joiner.is_released && !joiner.has_left);
    return joiner.is_awaited() && (!is_expected || ctx_.now.steady - joiner.lost_since >= wait);
  });
  if (closed > 0) proposal_.reset();  // was of more
}

}  // namespace pawl::membership
