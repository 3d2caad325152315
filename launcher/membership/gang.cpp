#include "launcher/membership/gang.h"

#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "launcher/membership/lineage.h"

namespace pawl::membership {
namespace {

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

// MASTER_ADDR takes an IPv6 address as it is.
std::string without_brackets(const std::string& host) {
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

Gang::Gang(Context& ctx, RecordWriter& writer)
    : ctx_(ctx), writer_(writer), gathers_since_(ctx.now.steady) {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  tally_.begin(status.tally, ctx_.id.attempt);
  const bool has_run = status.generation > 0 && !status.lineage.empty() &&
                       status.lineage.back().attempt == ctx_.id.attempt;
  if (has_run) take_over();
}

void Gang::send(PeerId peer, Message message) {
  if (peer == kSelfPeer) {
    ctx_.to_own_member.push_back(std::move(message));
    return;
  }
  if (Joiner* joiner = roster_.find(peer)) joiner->last_sent = ctx_.now.steady;
  ctx_.act(Send{peer, std::move(message)});
}

void Gang::broadcast(const Message& message) {
  for (const auto& [peer, joiner] : roster_.joiners) {
    if (!joiner.is_lost && !joiner.has_left) send(peer, message);
  }
}

void Gang::on_message(PeerId peer, const Message& message) {
  if (const auto* join = std::get_if<Join>(&message)) return on_join(peer, *join);
  Joiner* joiner = roster_.find(peer);
  if (joiner == nullptr) return;  // it never joined, or was refused
  joiner->last_heard = ctx_.now.steady;
  on_member_message(*joiner, message);
}

void Gang::on_member_message(Joiner& joiner, const Message& message) {
  if (const auto* ready = std::get_if<Ready>(&message)) {
    if (!joiner.ready) joiner.prepared_at = ctx_.now.steady;
    joiner.ready = *ready;
    joiner.holds_part = ready->holds_part;
  } else if (!roster_.is_ours(joiner)) {
    // Its place may be given to it with the next decision.
    joiner.is_leaving = joiner.is_leaving || std::holds_alternative<Leaving>(message);
    joiner.is_finished = joiner.is_finished || std::holds_alternative<Finished>(message);
    if (std::holds_alternative<Left>(message)) end_without_leader(joiner);
    if (std::holds_alternative<ProcessLost>(message)) joiner.ready.reset();
  } else if (const auto* progress = std::get_if<Progress>(&message)) {
    if (joiner.member_rank != 0) return;
    progress_.add(progress->report, ctx_.now, roster_.straggler_of(progress->report));
    saves_.confirm(progress->report.step);
    if (stage_ == Stage::kRunning) note_step(progress->report.step);
  } else if (const auto* shard = std::get_if<ShardDone>(&message)) {
    if (roster_.owns_rank(joiner, shard->rank) && shard->generation == roster_.generation)
      saves_.on_shard(*shard);
  } else if (const auto* failed = std::get_if<ShardFailed>(&message)) {
    if (!roster_.owns_rank(joiner, failed->rank) || failed->generation != roster_.generation)
      return;
    saves_.on_shard_failed(*failed, joiner);
  } else if (const auto* exit = std::get_if<Exit>(&message)) {
    fail_gang(roster_.failure_of(joiner, exit->failure));
  } else if (const auto* lost = std::get_if<ProcessLost>(&message)) {
    on_process_lost(joiner, roster_.failure_of(joiner, lost->failure));
  } else if (const auto* broken = std::get_if<Broken>(&message)) {
    on_broken(joiner, *broken);
  } else if (const auto* parked = std::get_if<Parked>(&message)) {
    if (stage_ != Stage::kReforming || parked->generation != roster_.generation) return;
    if (!joiner.parked) joiner.parked_at = ctx_.now.steady;
    joiner.parked = *parked;
  } else if (std::holds_alternative<HasApi>(message)) {
    on_api_reached(joiner);
  } else if (std::holds_alternative<Finished>(message)) {
    joiner.is_finished = true;
  } else if (std::holds_alternative<Left>(message)) {
    on_left(joiner);
  } else if (std::holds_alternative<Leaving>(message)) {
    on_leaving(joiner);
  }
}

// ---- the commit

std::vector<PeerId> Gang::full_gang() const {
  const auto target = static_cast<std::size_t>(std::max(ctx_.record->spec.target_members, 1));
  std::map<int, PeerId> by_slot;
  for (const auto& [peer, joiner] : roster_.joiners) {
    const api::EligiblePod* pod = ctx_.find_pod(joiner.join.self.uid);
    const bool is_going = joiner.is_leaving || joiner.has_left;
    if (pod != nullptr && pod->slot == joiner.join.slot && roster_.is_wanted(joiner) && !is_going)
      by_slot[pod->slot] = peer;
  }
  const bool is_enough = by_slot.size() == target || may_begin_with(by_slot);
  if (!is_enough || !ctx_.is_leader()) return {};
  keep_first(by_slot);
  std::vector<PeerId> gang;
  for (const auto& [slot, peer] : by_slot) gang.push_back(peer);
  return gang;
}

void Gang::prepare_commit() {
  if (ctx_.record->spec.is_stopping) {
    end(StopReason::kSuspended, false, "the job is suspended");
    return;
  }
  const bool is_selected = start_.select();
  const std::vector<PeerId> gang = full_gang();
  if (gang.empty() || !is_selected || !writer_.is_free()) return;
  roster_.members = gang;
  propose({Source::kStorage, 0, start_.chosen().step});
}

// What the gang has to say goes with it: one write for a change.
void Gang::propose(const NextStart& start) {
  tally_.on_proposal(ctx_.now.steady);
  roster_.deal_ranks();
  api::WorkerGroupStatus next = roster_.generation > 0 ? desired() : ctx_.record->status;
  const std::vector<api::Member> before = std::exchange(next.members, {});
  for (std::size_t rank = 0; rank < roster_.members.size(); ++rank) {
    const Join& join = roster_.joiners.at(roster_.members[rank]).join;
    next.members.push_back({join.self, join.address, static_cast<int>(rank), join.slot});
  }
  const GenerationStart newest{next.generation, next.base_generation, next.start_step};
  const BaseMembers kind = base_members_after(newest, start);
  if (kind != BaseMembers::kUnchanged) next.base_members.clear();
  if (kind == BaseMembers::kMembers) {
    for (const api::Member& member : before) next.base_members.push_back(member.ref);
  } else if (kind == BaseMembers::kHolders) {
    const Holding wanted{start.base, start.step};
    for (const PeerId peer : roster_.members) {
      const Joiner& joiner = roster_.joiners.at(peer);
      if (std::ranges::find(joiner.parked->held, wanted) != joiner.parked->held.end())
        next.base_members.push_back(joiner.join.self);
    }
  }
  next.base_generation = start.base;
  // Steps behind the start are on no line any more. Where another framework goes on is its own.
  if (ctx_.keeps_processes() && next.progress) cut(*next.progress, start.step);
  next.start_step = start.step;
  next.generation += 1;
  if (roster_.generation > 0) tally_.count(next.tally.recoveries);
  if (!tells_steps()) {  // its programs run from then on
    api::GangTime& time = next.tally.time;
    raise(time,
          api::GangTime{
              .attempt = ctx_.id.attempt, .since = ctx_.now.wall, .counted_seconds = sum_of(time)});
  }
  next.lineage = extend_lineage(next.lineage, {next.attempt, next.generation, start.step},
                                start.base, next.checkpoint ? next.checkpoint->step : 0);
  next_ = start;
  const bool was_last = is_last_ && roster_.heard_members() < roster_.least_members();
  is_last_ = was_last || (roster_.generation > 0 && roster_.has_to_end() && is_too_small());
  proposal_ = next;
  ctx_.note("commit_proposed",
            "generation " + std::to_string(next.generation) + " of " +
                std::to_string(roster_.members.size()) + " members from step " +
                std::to_string(start.step) +
                (start.base > 0 ? " of generation " + std::to_string(start.base) : ""));
  writer_.write(std::move(next));
}

bool Gang::is_committed() const {
  const api::WorkerGroupStatus& status = ctx_.record->status;
  return proposal_ && ctx_.is_leader() && status.generation == proposal_->generation &&
         status.members == proposal_->members && status.start_step == proposal_->start_step &&
         status.base_generation == proposal_->base_generation &&
         status.base_members == proposal_->base_members;
}

void Gang::enter_running() {
  stage_ = Stage::kRunning;
  roster_.generation = ctx_.record->status.generation;
  last_write_ = running_since_ = ctx_.now.steady;
  saves_.begin_generation(next_.step);
  saves_.forget_retry();
  are_peers_sent_ = false;
  proposal_.reset();
  failures_.forget_told(roster_.generation, ctx_.record->status.failures);
  const bool has_more = progress_.value() && progress_.value()->step > next_.step;
  if (!ctx_.keeps_processes() || has_more) progress_ = ProgressView{};
  failures_.forget_program_ends();
  tally_.on_commit(roster_.generation, next_.step);
  if (!tells_steps()) tally_.on_programs_start(ctx_.now.steady);
  for (std::size_t rank = 0; rank < roster_.members.size(); ++rank) {
    Joiner* joiner = roster_.find(roster_.members[rank]);
    if (joiner == nullptr) {  // lost while the commit was under way
      const api::MemberRef& ref = ctx_.record->status.members[rank].ref;
      const api::EligiblePod* pod = ctx_.find_pod(ref.uid);
      return fail_gang(api::Failure{.rank = static_cast<int>(rank) * ctx_.id.processes,
                                    .pod = pod != nullptr ? pod->name : "",
                                    .pod_uid = ref.uid,
                                    .cause = api::kCauseUnknown,
                                    .message = "lost the launcher of this pod at the commit",
                                    .attempt = ctx_.id.attempt,
                                    .time = ctx_.now.wall});
    }
    if (joiner->has_left) {  // while the commit was under way
      mark_lost(*joiner);
      joiner->rejoin_by = ctx_.now.steady;
    }
    joiner->member_rank = static_cast<int>(rank);
    joiner->is_new = std::exchange(joiner->is_newcomer, false) || joiner->is_new;
  }
  const int source = roster_.source_rank(next_);
  // Whoever reported the state lost it while the commit was under way: nobody enters it.
  if (next_.base > 0 && source < 0)
    return begin_reform("the state to go on from was lost while the generation was committed",
                        Change::kWorkerLost);
  if (!roster_.are_members([](const Joiner& joiner) { return !joiner.is_lost; }))
    return begin_reform("a member was lost while the generation was committed",
                        Change::kWorkerLost);
  const Join& first = roster_.joiners.at(roster_.members.front()).join;
  const Commit commit{.group = *ctx_.record,
                      .master_address = without_brackets(host_of(first.address)),
                      .master_port = first.master_port,
                      .key = ctx_.id.data_key,
                      .load_uri = next_.base == 0 ? start_.chosen().load_uri : "",
                      .source_rank = source,
                      .addresses = roster_.program_addresses()};
  for (const PeerId peer : roster_.members) send(peer, commit);
  for (auto& [peer, joiner] : roster_.joiners) {
    if (std::exchange(joiner.is_left_out, false) && joiner.member_rank < 0) send(peer, commit);
  }
  if (ctx_.id.has_checkpoints) ctx_.act(CleanUpCheckpoints{ctx_.id.attempt, roster_.generation});
  for (const PeerId peer : roster_.members) roster_.joiners.at(peer).parked.reset();
}

void Gang::send_peers() {
  if (!ctx_.keeps_processes()) return note_programs_start();  // they find each other
  if (are_peers_sent_) return;
  if (!roster_.are_members([](const Joiner& joiner) { return joiner.ready.has_value(); })) return;
  are_peers_sent_ = true;
  reform_deadline_.reset();
  Peers peers;
  const std::string& config_hash = roster_.joiners.at(roster_.members.front()).ready->config_hash;
  for (const PeerId peer : roster_.members) {
    const Joiner& joiner = roster_.joiners.at(peer);
    if (joiner.ready->config_hash != config_hash) {
      fail_gang(roster_.failure_of(
          joiner, {.cause = api::kCauseError,
                   .message = "its trainer has another configuration or other data than rank 0: "
                              "give all workers the same runtime.config and the same text"}));
      return;
    }
    for (const std::uint16_t port : joiner.ready->data_ports) {
      peers.addresses.push_back(host_of(joiner.join.address) + ":" + std::to_string(port));
    }
  }
  for (const PeerId peer : roster_.members) send(peer, peers);
}

}  // namespace pawl::membership
