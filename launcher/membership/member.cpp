#include "launcher/membership/member.h"

#include <algorithm>
#include <utility>

#include "common/api/contract.h"
#include "common/base/mutant.h"

namespace pawl::membership {

namespace channel = api::channel;

Member::Member(Context& ctx)
    : ctx_(ctx), link_(ctx), processes_(static_cast<std::size_t>(ctx.id.processes)) {}

// Native processes only wait for Welcome, so they start at once: loading their libraries and data
// happens beside the joining. Others need their rank in the environment.
void Member::start() {
  if (ctx_.id.is_checked_first) check_by_ = ctx_.now.steady + ctx_.timings.check_max;
  ctx_.act(WatchRecord{true});
  if (is_native()) start_processes(std::nullopt);
}

void Member::start_processes(std::optional<Placement> placement) {
  for (Process& process : processes_) {
    process = Process{};
    process.is_running = true;
  }
  ctx_.act(StartProcesses{std::move(placement)});
}

void Member::on_record() {
  if (is_stopping()) return;
  const api::WorkerGroup& record = *ctx_.record;
  const std::int64_t newest = std::max(record.spec.attempt, record.status.attempt);
  if (newest > ctx_.id.attempt && !is_mutant(Mutant::kB40OldAttemptStays)) {
    begin_stop(api::kExitRetry, false, "attempt " + std::to_string(newest) + " has begun");
    return;
  }
  // Suspended before the commit: there is nothing to save, and perhaps no leader to say it.
  if (record.spec.is_stopping && !commit_) {
    begin_stop(api::kExitDrained, false, "the job is suspended");
    return;
  }
  const bool has_other_leader = commit_ && ctx_.leader() != nullptr &&
                                ctx_.leader()->ref != commit_->group.status.leader->ref;
  if (has_other_leader && !is_replaceable()) {
    end_as_victim("another launcher leads this attempt");
    return;
  }
  if (commit_ && ctx_.is_replaced())
    return begin_stop(api::kExitRetry, false, "another pod has this one's place");
  if (commit_ && record.status.is_finished) end_if_others_have();
  // The gang goes on without it, for now.
  const bool is_member = std::ranges::find(record.status.members, ctx_.id.self,
                                           &api::Member::ref) != record.status.members.end();
  if (is_ready_ && !is_member && record.status.generation > standing_.entered()) set_ready(false);
  if (is_fit()) link_.retarget();
}

void Member::on_record_gone(const std::string& why) {
  begin_stop(is_finished_ ? api::kExitDone : api::kExitDrained, false, "the job is gone: " + why);
}

void Member::on_message(const Message& message) {
  if (const auto* refused = std::get_if<Refused>(&message)) return on_refused(*refused);
  link_.on_heard();
  if (const auto* commit = std::get_if<Commit>(&message)) {
    on_commit(*commit);
  } else if (const auto* peers = std::get_if<Peers>(&message)) {
    peers_ = *peers;
    welcome();
  } else if (const auto* stop = std::get_if<StopGang>(&message)) {
    on_stop_gang(*stop);
  } else if (std::holds_alternative<AskCheckpoint>(message)) {
    if (is_stopping()) return;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i].is_working)
        ctx_.act(TellProcess{static_cast<int>(i), channel::CheckpointNow{}});
    }
  } else if (const auto* park = std::get_if<Park>(&message)) {
    on_park(*park);
  } else if (const auto* published = std::get_if<Published>(&message)) {
    ctx_.note("checkpoint_published", "step " + std::to_string(published->step));
  } else if (std::holds_alternative<Goodbye>(message)) {
    was_goodbye_said_ = true;
    end_if_others_have();
  }
}

void Member::on_refused(const Refused& refused) {
  ctx_.note("join_refused", refused.why, true);
  link_.on_refused(refused.why);
  if (refused.is_final && !is_stopping()) give_up(api::kExitFatal, refused.why);
}

// Never let in. What may pass (an API server that is away) ends with the code for another try.
void Member::give_up(int code, const std::string& why) {
  ctx_.act(WriteTermination{api::Failure{.pod = ctx_.id.pod,
                                         .node = ctx_.id.node,
                                         .pod_uid = ctx_.id.self.uid,
                                         .cause = api::kCauseError,
                                         .message = "refused by the leading launcher: " + why,
                                         .attempt = ctx_.id.attempt,
                                         .time = ctx_.now.wall}});
  begin_stop(code, false, why);
}

// Rules 2 and 4: entered only when it was shown the committed record and finds itself in it, and
// once, and never after a promise not to.
void Member::on_commit(const Commit& commit) {
  const api::WorkerGroupStatus& status = commit.group.status;
  const auto me = std::ranges::find(status.members, ctx_.id.self, &api::Member::ref);
  const bool is_ours = status.attempt == ctx_.id.attempt && status.generation > standing_.entered();
  if (is_ours && is_ready_ && me == status.members.end()) return set_ready(false);
  if (is_stopping() || !standing_.may_enter(status.generation) ||
      status.attempt != ctx_.id.attempt || !status.leader || me == status.members.end()) {
    ctx_.note("commit_ignored", "generation " + std::to_string(status.generation), true);
    return;
  }
  commit_ = commit;
  peers_.reset();
  parking_.reset();
  report_sent_ = {};  // the first step of a generation is told at once
  standing_.enter(status.generation);
  member_rank_ = me->rank;
  set_ready(true);
  ctx_.note("generation_entered", "generation " + std::to_string(status.generation) + ", member " +
                                      std::to_string(me->rank) + " of " +
                                      std::to_string(status.members.size()));
  if (!ctx_.is_leader()) ctx_.act(WatchRecord{false});
  if (is_native()) return welcome();
  own_loss_.reset();
  ctx_.programs_generation = status.generation;
  ctx_.programs_since = ctx_.now.steady;
  const bool has_key =
      ctx_.id.runtime == api::RuntimeKind::kMpi || ctx_.id.runtime == api::RuntimeKind::kRay;
  start_processes(Placement{member_rank_, static_cast<int>(status.members.size()), status.attempt,
                            status.generation, commit.master_address, commit.master_port,
                            commit.addresses, has_key ? commit.key : ""});
}

void Member::set_ready(bool is_ready) {
  is_ready_ = is_ready;
  ctx_.act(SetReady{is_ready});
}

int Member::rank_of(int local_rank) const {
  return std::max(member_rank_, 0) * ctx_.id.processes + local_rank;
}

bool Member::are_all(bool (*predicate)(const Process&)) const {
  return std::ranges::all_of(processes_, predicate);
}

void Member::tell_ready() {
  if (!link_.is_joined() || ready_told_on_ == link_.joins()) return;
  if (!is_native()) {  // what it starts, it starts with the next generation
    ready_told_on_ = link_.joins();
    return link_.send(Ready{});
  }
  if (!are_all([](const Process& process) { return process.hello.has_value(); })) return;
  Ready ready;
  for (const Process& process : processes_) ready.data_ports.push_back(process.hello->data_port);
  ready.config_hash = processes_.front().hello->config_hash;
  for (const Process& process : processes_) {
    if (process.hello->config_hash != ready.config_hash)
      ready.config_hash = "different on one host";
    ready.holds_part = ready.holds_part || process.holds_part;
  }
  ready_told_on_ = link_.joins();
  link_.send(std::move(ready));
}

// A process connects to the ranks beside it in the ring, or all to rank 0, where frameworks meet.
// All addresses of a gang of some thousand ranks would not fit into one packet.
std::vector<channel::PeerAddress> Member::neighbours_of(int rank) const {
  std::vector<channel::PeerAddress> neighbours;
  if (!peers_) return neighbours;
  const auto world = static_cast<int>(peers_->addresses.size());
  for (int peer : {(rank + world - 1) % world, (rank + 1) % world, 0}) {
    const bool is_named =
        std::ranges::find(neighbours, peer, &channel::PeerAddress::rank) != neighbours.end();
    if (peer != rank && !is_named)
      neighbours.push_back({peer, peers_->addresses[static_cast<std::size_t>(peer)]});
  }
  return neighbours;
}

void Member::welcome() {
  if (!commit_ || is_stopping() || !standing_.is_bound() || (is_native() && !peers_)) return;
  const api::WorkerGroupStatus& status = commit_->group.status;
  channel::Welcome welcome{
      .world_size = static_cast<int>(status.members.size()) * ctx_.id.processes,
      .attempt = status.attempt,
      .generation = status.generation,
      .start_step = status.start_step,
      .load_uri = commit_->load_uri,
      .key = commit_->key,
      .checkpoint_seconds = ctx_.id.checkpoint_seconds,
      .base_generation = status.base_generation,
      .source_rank = commit_->source_rank,
      .can_park = is_native()};
  for (int i = 0; i < ctx_.id.processes; ++i) {
    Process& process = processes_[static_cast<std::size_t>(i)];
    if (!process.hello || process.is_working || !process.is_running) continue;
    process.is_working = true;
    own_loss_.reset();
    process.welcomed_in = status.generation;
    welcome.rank = rank_of(i);
    welcome.local_rank = i;
    welcome.peers = neighbours_of(welcome.rank);
    ctx_.act(TellProcess{i, welcome});
  }
}

void Member::on_process_said(const ProcessSaid& said) {
  Process& process = processes_[static_cast<std::size_t>(said.local_rank)];
  if (const auto* hello = std::get_if<channel::Hello>(&said.message)) {
    process.hello = *hello;
    process.holds_part = hello->holds_part;
    // A foreign process that speaks the channel has its place already.
    if (!is_native()) welcome();
  } else if (const auto* sealed = std::get_if<channel::Sealed>(&said.message)) {
    on_sealed(said.local_rank, *sealed);
  } else if (const auto* parked = std::get_if<channel::Parked>(&said.message)) {
    on_parked(said.local_rank, *parked);
  } else if (const auto* step = std::get_if<channel::Report>(&said.message)) {
    if (rank_of(said.local_rank) != 0) return;
    if (!step->note.empty()) ctx_.note("trainer_note", step->note);
    unsent_report_ = *step;
    report(!writes_.empty());
  } else if (const auto* done = std::get_if<channel::Done>(&said.message)) {
    if (rank_of(said.local_rank) != 0) return;
    if (!unsent_report_) return;
    unsent_report_->step = std::max(unsent_report_->step, done->step);
    report(true);
  }
}

// A step may take microseconds: the leader hears the newest report, not each one; at once where a
// shard waits for it.
void Member::report(bool is_urgent) {
  if (!unsent_report_ || !commit_) return;
  if (!is_urgent && ctx_.now.steady - report_sent_ < ctx_.timings.progress_every) return;
  report_sent_ = ctx_.now.steady;
  link_.send(Progress{*unsent_report_});
  unsent_report_.reset();
}

void Member::on_sealed(int local_rank, const channel::Sealed& sealed) {
  if (!commit_ || !ctx_.id.has_checkpoints) {
    ctx_.act(TellProcess{local_rank, channel::Released{sealed.buffer}});
    return;
  }
  const api::WorkerGroupStatus& status = commit_->group.status;
  WriteShard shard{.local_rank = local_rank,
                   .buffer = sealed.buffer,
                   .rank = rank_of(local_rank),
                   .world_size = static_cast<int>(status.members.size()) * ctx_.id.processes,
                   .step = sealed.step,
                   .attempt = status.attempt,
                   .generation = status.generation,
                   .bytes = sealed.bytes,
                   .manifest_json = sealed.manifest_json};
  writes_.push_back({shard, 1, std::nullopt});
  ctx_.act(std::move(shard));
}

// The buffer is ours until the shard is stored or given up: what storage refuses for a moment need
// not be lost.
void Member::retry_writes() {
  for (Write& write : writes_) {
    if (!write.retry_at || ctx_.now.steady < *write.retry_at) continue;
    write.retry_at.reset();
    ++write.tries;
    ctx_.act(write.shard);
  }
}

void Member::on_shard_written(const ShardWritten& written) {
  const auto write = std::ranges::find_if(writes_, [&](const Write& one) {
    return !one.retry_at && one.shard.local_rank == written.local_rank &&
           one.shard.buffer == written.buffer && one.shard.step == written.shard.step &&
           one.shard.generation == written.shard.generation;
  });
  if (write == writes_.end()) return;
  const bool is_orphan = write->is_orphan;
  if (!written.error.empty() && !is_orphan && write->tries < ctx_.timings.save_tries) {
    ctx_.note("shard_write_failed", written.error + "; trying again", true);
    write->retry_at = ctx_.now.steady + ctx_.timings.save_retry_first * (1 << (write->tries - 1));
    return;
  }
  writes_.erase(write);
  const Process& process = processes_[static_cast<std::size_t>(written.local_rank)];
  if (process.is_running && !is_orphan)
    ctx_.act(TellProcess{written.local_rank, channel::Released{written.buffer}});
  report(true);
  if (written.error.empty()) {
    link_.send(written.shard);
    return;
  }
  ctx_.note("shard_write_failed", written.error, true);
  link_.send(
      ShardFailed{written.shard.rank, written.shard.generation, written.shard.step, written.error});
}

}  // namespace pawl::membership
