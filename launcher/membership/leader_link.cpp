#include "launcher/membership/leader_link.h"

#include <algorithm>
#include <utility>

#include "common/api/contract.h"

namespace pawl::membership {

void LeaderLink::retarget() {
  const api::Leader* leader = ctx_.leader();
  if (leader == nullptr || (target_ && *target_ == *leader)) return;
  const bool is_elsewhere = target_ && target_->ref != ctx_.id.self;
  // It may not be able to read that for itself.
  if (is_elsewhere && step_ == Step::kJoined) send(Leads{*ctx_.record});
  if (is_elsewhere && step_ == Step::kJoined && ctx_.is_leader()) {
    hang_up_at_ = ctx_.now.steady + ctx_.timings.leads_wait;
  } else if (is_elsewhere && step_ != Step::kIdle) {
    ctx_.act(HangUp{kLeaderPeer});
  }
  target_ = *leader;
  step_ = Step::kIdle;
  failing_since_.reset();
  backoff_ = {};
  is_refused_ = false;  // by the one before; to lose this one is a loss
  dial();
}

void LeaderLink::dial() {
  dial_at_.reset();
  if (target_->ref == ctx_.id.self) {
    join();
    return;
  }
  hang_up_at_.reset();  // the new connection replaces that one
  step_ = Step::kDialing;
  ctx_.act(Dial{target_->address, target_->fingerprint});
}

void LeaderLink::on_up() {
  if (step_ == Step::kDialing) join();
}

void LeaderLink::join() {
  step_ = Step::kJoined;
  last_heard_ = ctx_.now.steady;
  ++joins_;
  send(Join{.version = api::kContractVersion,
            .self = ctx_.id.self,
            .attempt = ctx_.id.attempt,
            .slot = ctx_.id.slot,
            .pod = ctx_.id.pod,
            .node = ctx_.id.node,
            .token = "",  // launcher.cpp puts the current one in when it sends
            .address = ctx_.id.address,
            .master_port = ctx_.id.ports.empty() ? std::uint16_t{0} : ctx_.id.ports.front(),
            .ports = ctx_.id.ports,
            .processes = ctx_.id.processes,
            .fingerprint = ctx_.id.fingerprint,
            .is_leaving = ctx_.is_leaving});
}

void LeaderLink::send(Message message) {
  if (step_ != Step::kJoined) return;
  if (target_->ref == ctx_.id.self) {
    ctx_.to_own_gang.push_back(std::move(message));
    return;
  }
  last_sent_ = ctx_.now.steady;
  ctx_.act(Send{kLeaderPeer, std::move(message)});
}

void LeaderLink::on_down(const std::string& why) {
  if (target_ && target_->ref == ctx_.id.self) return;  // of a dial before we led
  if (step_ == Step::kJoined && !is_refused_) loss_ = why;
  retry_later(why);
}

void LeaderLink::on_refused(const std::string& why) {
  is_refused_ = true;
  ctx_.act(HangUp{kLeaderPeer});
  retry_later(why);
}

void LeaderLink::retry_later(const std::string& why) {
  step_ = Step::kIdle;
  why_ = why;
  if (!failing_since_) failing_since_ = ctx_.now.steady;
  backoff_ = std::clamp(backoff_ * 2, ctx_.timings.redial_first, ctx_.timings.redial_max);
  dial_at_ = ctx_.now.steady + backoff_;
}

void LeaderLink::on_tick() {
  if (hang_up_at_ && ctx_.now.steady >= *hang_up_at_) {
    hang_up_at_.reset();
    ctx_.act(HangUp{kLeaderPeer});
  }
  if (dial_at_ && ctx_.now.steady >= *dial_at_ && target_) {
    is_refused_ = false;
    dial();
  }
  if (step_ != Step::kJoined || target_->ref == ctx_.id.self) return;
  if (ctx_.now.steady - last_heard_ > ctx_.timings.dead) {
    ctx_.act(HangUp{kLeaderPeer});
    failing_since_ = last_heard_;
    on_down("nothing heard from the leader for " + std::to_string(ctx_.timings.dead.count()) +
            " ms");
    return;
  }
  if (ctx_.now.steady - last_sent_ >= ctx_.timings.heartbeat) send(Heartbeat{});
}

void LeaderLink::close() {
  step_ = Step::kIdle;
  dial_at_.reset();
}

std::optional<std::string> LeaderLink::take_loss() { return std::exchange(loss_, std::nullopt); }

}  // namespace pawl::membership
