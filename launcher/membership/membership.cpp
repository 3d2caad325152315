#include "launcher/membership/membership.h"

#include <utility>

namespace pawl::membership {

bool is_older(const std::string& resource_version, const std::string& other) {
  if (resource_version.size() != other.size()) return resource_version.size() < other.size();
  return resource_version < other;
}

Membership::Membership(Identity identity, Timings timings)
    : ctx_(std::move(identity), timings), writer_(ctx_), claim_(ctx_, writer_), member_(ctx_) {}

std::vector<Action> Membership::start(Now now) {
  ctx_.now = now;
  ctx_.now.wall = std::chrono::floor<std::chrono::seconds>(now.wall);
  member_.start();
  return std::exchange(ctx_.actions, {});
}

std::vector<Action> Membership::step(const Input& input, Now now) {
  if (has_left_) return {};
  const SteadyPoint before = ctx_.now.steady;
  ctx_.now = now;
  // The record holds whole seconds; finer ones would never compare equal to what was written.
  ctx_.now.wall = std::chrono::floor<std::chrono::seconds>(now.wall);
  if (now.steady - before > ctx_.timings.heartbeat * 2) notice_pause();
  std::visit([this](const auto& value) { on(value); }, input);
  settle();
  return std::exchange(ctx_.actions, {});
}

// Ticks come ten times a second. If none came for long, this launcher itself was stopped or
// starved, and the silence of the others is our own.
void Membership::notice_pause() {
  member_.forgive_silence();
  if (gang_) gang_->forgive_silence();
}

void Membership::on(const RecordSeen& seen) {
  const bool is_stale =
      ctx_.record && is_older(seen.group.meta.resource_version, ctx_.record->meta.resource_version);
  if (!is_stale) ctx_.record = seen.group;
  writer_.on_record(seen.read_id);
  if (asked_read_ && seen.read_id >= *asked_read_) {
    asked_read_.reset();
    member_.say_api_reached();
  }
  if (is_stale && seen.read_id == 0) return;
  take_or_give_up_lead();
  if (gang_) gang_->on_record(seen.read_id);
  member_.on_record();
}

void Membership::take_or_give_up_lead() {
  if (ctx_.is_leader() && !gang_ && !member_.is_stopping()) {
    ctx_.note("leading", "term " + std::to_string(ctx_.record->status.term));
    // It may have given up its watch as a member in the same moment.
    ctx_.act(WatchRecord{true});
    gang_ = std::make_unique<Gang>(ctx_, writer_);
  }
  if (!gang_) return;
  if (ctx_.leader() != nullptr && !ctx_.is_leader()) {
    gang_->dissolve();
    give_up_lead("another launcher leads");
  } else if (gang_->lives() && ctx_.is_replaced()) {
    gang_->dissolve();
    give_up_lead("another pod has this one's place");
  }
}

void Membership::give_up_lead(const std::string& why) {
  ctx_.note("lead_lost", why, true);
  claim_.on_deposed(ctx_.record->status.generation);
  gang_.reset();
  ctx_.to_own_gang.clear();
}

void Membership::on(const RecordGone& gone) {
  is_gone_ = true;
  if (gang_) gang_->on_record_gone(gone.why);
  member_.on_record_gone(gone.why);
}

void Membership::on(const PeerDown& down) {
  if (down.peer == kLeaderPeer) {
    member_.on_peer_down(down.why);
  } else if (gang_) {
    gang_->on_peer_down(down.peer, down.why);
  }
}

// What a leader says that does not reach the API server.
void Membership::on_leader_said(const Message& message) {
  if (ctx_.is_leader()) return;  // of the one before us
  if (const auto* leads = std::get_if<Leads>(&message)) {
    on_leads(kLeaderPeer, leads->group);
  } else if (const auto* stand = std::get_if<Stand>(&message)) {
    if (!member_.is_stopping()) claim_.stand(stand->term);
  } else if (std::holds_alternative<AskApi>(message)) {
    if (!asked_read_) asked_read_ = writer_.ask_for_record();
  }
  member_.on_message(message);
}

void Membership::on_leads(PeerId peer, const api::WorkerGroup& group) {
  const bool is_newer =
      ctx_.record && is_older(ctx_.record->meta.resource_version, group.meta.resource_version);
  if (!is_newer || group.status.attempt != ctx_.id.attempt || !group.status.leader) return;
  if (gang_ && !gang_->is_deposed_by(peer, group)) return;
  ctx_.note("leader_told", "term " + std::to_string(group.status.term));
  ctx_.record = group;
  if (gang_) {
    gang_->follow(peer);
    give_up_lead("a member has read that another launcher leads");
  }
  take_or_give_up_lead();  // it may be this one
  member_.on_record();
}

void Membership::on(const PeerSaid& said) {
  if (said.peer == kLeaderPeer) {
    on_leader_said(said.message);
  } else if (const auto* leads = std::get_if<Leads>(&said.message)) {
    if (gang_) on_leads(said.peer, leads->group);
  } else if (gang_) {
    gang_->on_message(said.peer, said.message);
  } else if (std::holds_alternative<Join>(said.message)) {
    // It has seen a newer record than we have, or an older one.
    ctx_.act(Send{said.peer, Refused{"this launcher does not lead", false}});
  }
}

void Membership::on(const CheckpointSelected& selected) {
  if (gang_) gang_->on_selected(selected);
}

void Membership::on(const PublishDone& done) {
  if (gang_) gang_->on_published(done);
}

void Membership::on(const Tick& tick) {
  member_.on_tick();
  member_.on_pulses(tick.pulses);
  if (gang_) gang_->on_tick();
}

// Member and gang of one launcher talk through the two queues until nothing is left to say.
void Membership::settle() {
  do {
    while (!ctx_.to_own_gang.empty() && gang_) {
      const Message message = std::move(ctx_.to_own_gang.front());
      ctx_.to_own_gang.pop_front();
      gang_->on_message(kSelfPeer, message);
    }
    if (gang_) gang_->decide();
    while (!ctx_.to_own_member.empty()) {
      const Message message = std::move(ctx_.to_own_member.front());
      ctx_.to_own_member.pop_front();
      member_.on_message(message);
    }
    if (!is_gone_ && !member_.is_stopping() && member_.is_fit())
      claim_.decide(member_.leader_lost_since());
    member_.decide();
  } while ((!ctx_.to_own_gang.empty() && gang_) || !ctx_.to_own_member.empty());
  // A launcher that leads stays until the gang has ended.
  if (member_.exit_code() && (!gang_ || gang_->is_done()) && !has_left_) {
    has_left_ = true;
    ctx_.act(Leave{*member_.exit_code()});
  }
}

}  // namespace pawl::membership
