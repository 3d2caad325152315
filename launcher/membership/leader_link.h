// A member's way to the leader: dials what the record names, joins, keeps the connection alive, and
// says when the leader is lost. Where the leader is in this launcher the messages go straight to
// it. Pure; owned by Member.
#pragma once

#include <optional>
#include <string>

#include "launcher/membership/context.h"

namespace pawl::membership {

class LeaderLink {
 public:
  explicit LeaderLink(Context& ctx) : ctx_(ctx) {}

  // The record may name a leader, or another one.
  void retarget();
  void on_up();
  void on_down(const std::string& why);
  // Anything but a refusal: the leader is there, and has let us in.
  void on_heard() {
    last_heard_ = ctx_.now.steady;
    failing_since_.reset();
    backoff_ = {};
  }
  void on_refused(const std::string& why);
  void on_tick();
  // We were stopped ourselves for a while: silence until now says nothing about the leader.
  void forgive_silence() { last_heard_ = ctx_.now.steady; }
  void close();

  bool is_joined() const { return step_ == Step::kJoined; }
  // Counts up with each Join, so that the member knows what the present leader was told.
  int joins() const { return joins_; }
  // Dropped unless joined.
  void send(Message message);
  // Why the connection that we had joined on is gone; asked once.
  std::optional<std::string> take_loss();
  // Since when no Join has gone through, and the newest reason.
  std::optional<SteadyPoint> failing_since() const { return failing_since_; }
  bool is_refused() const { return is_refused_; }
  const std::string& why() const { return why_; }

 private:
  enum class Step { kIdle, kDialing, kJoined };
  void dial();
  void join();
  void retry_later(const std::string& why);

  Context& ctx_;
  Step step_ = Step::kIdle;
  std::optional<api::Leader> target_;
  std::optional<SteadyPoint> dial_at_, failing_since_;
  std::chrono::milliseconds backoff_{0};
  std::optional<SteadyPoint> hang_up_at_;  // on the leader before us, which has to read who leads
  SteadyPoint last_heard_{}, last_sent_{};
  std::optional<std::string> loss_;
  std::string why_;
  bool is_refused_ = false;
  int joins_ = 0;
};

}  // namespace pawl::membership
