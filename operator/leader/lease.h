// Decides who of several operators leads, by one Lease of coordination.k8s.io: answers, what a
// watch shows and the time in; requests and "leads until" out. Pure; one thread at a time; the
// Elector drives it, the simulator may. It asks for one request at a time.
//
//   read ──┬─ absent ────────── create ─┐                    ┌─ renew every `renew_every`
//          ├─ released ──────── take ───┼─ leads until sent ─┤
//          └─ another's, unchanged ─────┘   + `deadline`     └─ late, stolen, deleted: follows
//          again
//             for its duration
//
// What it promises: no two machines lead at one time while their clocks run at one speed. Each
// write carries the resourceVersion and the UID that were read. A leader counts from the moment
// BEFORE its last acknowledged write was sent; a follower from the moment AFTER it saw the lease
// change, both on their own steady clocks; wall clocks are written for people and never compared.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/kube/transport.h"

namespace pawl::leader {

struct LeaseOptions {
  std::string ns, name;
  std::string identity;                          // of this process and of no other, ever
  std::string version;                           // of this program, for people
  std::chrono::seconds duration{15};             // others wait this long without a change
  std::chrono::milliseconds deadline{10'000};    // less: a leader stops acting after this
  std::chrono::milliseconds renew_every{4'000};  // two tries fit below the deadline
  std::chrono::milliseconds request_timeout{3'000};
  std::chrono::milliseconds retry_first{250};  // doubles up to retry_max; a fifth of jitter
  std::chrono::milliseconds retry_max{4'000};
};

// One state of the lease, as far as we look at it.
struct LeaseRecord {
  std::string uid, resource_version;
  std::string holder;                    // empty: released
  std::string version;                   // of the holder's program
  std::string handover;                  // what a leader left for its successor when it released
  std::string acquire_time, renew_time;  // of the holder's wall clock
  std::chrono::seconds duration{0};
  std::int64_t transitions = 0;
};
LeaseRecord decode_lease(const nlohmann::json& object);

class LeaseMachine {
 public:
  LeaseMachine(LeaseOptions options, Random random);

  // What is to be sent now, if anything. `wall` is only written down.
  std::optional<kube::HttpRequest> next(TimePoint wall, SteadyPoint now);
  // When next() may have something new to ask, if no answer and nothing seen comes before.
  SteadyPoint due() const;

  void on_answer(const Result<kube::HttpResponse>& answer, SteadyPoint now);
  // A watch makes the machine faster, not safer: without one it tries when the lease looks
  // expired, is refused, and reads.
  void on_seen(const LeaseRecord& record, SteadyPoint now);
  void on_gone(const std::string& uid, SteadyPoint now);

  // Stops leading at once; the next requests give the lease back, with a word for the successor.
  void release(std::string handover);
  bool is_released() const { return is_released_; }

  // The past (SteadyPoint::min()) while another leads.
  SteadyPoint leads_until() const { return leads_until_; }
  bool is_leading() const { return leads_until_ != SteadyPoint::min(); }
  std::uint64_t terms() const { return terms_; }    // times that it began to lead
  std::uint64_t losses() const { return losses_; }  // times that it stopped, releases too
  // Of the lease that the present term began with, if it was released; else empty.
  const std::string& inherited() const { return inherited_; }
  // Why it began or stopped to lead the last time; the last refusal or lost reply, "" when all is
  // well.
  const std::string& why() const { return why_; }
  const std::string& trouble() const { return trouble_; }
  const std::optional<LeaseRecord>& record() const { return record_; }

 private:
  enum class Ask { kNone, kRead, kCreate, kTake, kRenew, kRelease };
  struct Begin {
    std::string why, handover;
  };

  Ask choose(SteadyPoint now) const;
  SteadyPoint takeable_at() const;
  Begin describe_begin() const;
  TimePoint rising(TimePoint wall) const;
  kube::HttpRequest build(Ask ask, TimePoint wall) const;
  void on_record(LeaseRecord record, SteadyPoint now);
  void on_absent();
  void on_written(Ask ask, LeaseRecord record, SteadyPoint now);
  void on_error(Ask ask, const Error& error, SteadyPoint now);
  void back_off(const Error& error, SteadyPoint now);
  void settle();
  void lead(LeaseRecord record, SteadyPoint until);
  void lose(std::string why);
  void expire(SteadyPoint now);
  bool is_mine() const { return record_ && record_->holder == options_.identity; }

  const LeaseOptions options_;
  Random random_;
  std::optional<LeaseRecord> record_;  // the newest known; none: absent, or not read yet
  SteadyPoint changed_at_{};           // when record_ was seen to change
  bool must_read_ = true;
  Ask asked_ = Ask::kNone;
  SteadyPoint asked_at_{};
  SteadyPoint renew_at_{}, retry_at_{SteadyPoint::min()};
  int errors_ = 0;  // in a row
  SteadyPoint leads_until_ = SteadyPoint::min();
  std::uint64_t terms_ = 0, losses_ = 0;
  bool may_hold_ = false;  // a write of ours may have put our name into the lease
  bool is_releasing_ = false, is_released_ = false;
  Begin begin_;  // what the write under way would begin
  std::string handover_, inherited_, why_, trouble_;
};

}  // namespace pawl::leader
