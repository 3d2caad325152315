// The one place that gives room away: what is free (operator/placement), what is kept for which
// job, and who waits. Each answer is booked before the next question, so that no room is given
// twice. Owner thread of the controller only; the simulator's too.
//
//  1. A job's view says what its status keeps: hold(), before anything is decided on that view; of
//     all jobs before the first decision of all.
//  2. seat() answers with nodes, which stay booked until the next hold() of this job: not before
//     their write is in its view, or failed. What is not known of (the answer was lost) is offered
//     anew in the same call as it is held.
//  3. Who got none waits, and is asked again when something has become free, the oldest first.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/controller/cache.h"
#include "operator/core/plan.h"
#include "operator/placement/ledger.h"

namespace pawl::controller {

struct PlacementOptions {
  std::vector<std::string> levels;  // label keys of nodes, coarse to fine; empty: nodes only
};

class Placer {
 public:
  Placer(const PlacementOptions& options, api::ChildOptions children);

  void receive(Mail& mail);
  bool is_listed() const { return are_hosts_listed_ && are_bookings_listed_; }

  // False: the scheduler, or Kueue, decides on its nodes.
  static bool decides_for(const api::TrainingJob& job);
  void hold(const JobKey& key, const core::Observed& seen);
  void release(const JobKey& key);  // of a job that is gone
  // Of nodes that are written, and have no pods of it yet: one is gone, takes none of its pods any
  // more, or has been taken by others.
  bool is_void(const core::Observed& seen, TimePoint now);
  core::Seating seat(const JobKey& key, const api::TrainingJob& job, TimePoint now);
  // Those that were told that there is no room, if there may be now.
  std::vector<JobKey> take_hopeful();

 private:
  struct Held {
    std::vector<std::string> pods;  // with a promise
    // What each pod takes, of this generation of the job.
    std::int64_t generation = -1;
    placement::Resources requests;
  };
  struct Waiting {
    TimePoint since;
    JobKey key;
    auto operator<=>(const Waiting&) const = default;
  };
  void promise(const JobKey& key, const std::vector<core::HeldSeat>& seats, Held& held);
  const placement::Resources& requests(const api::TrainingJob& job, Held& held) const;
  std::optional<placement::Placement> place(const api::TrainingJob& job,
                                            const placement::Shape& shape, TimePoint now);
  placement::Demands demands(const api::TrainingJob& job, TimePoint now) const;
  std::string obstacle(const api::TrainingJob& job, const placement::Shape& shape);
  api::PlacementStatus status_of(const placement::Placement& placed, std::int64_t attempt);

  const api::ChildOptions children_;
  placement::Ledger ledger_;
  std::map<JobKey, Held> held_;
  std::map<JobKey, TimePoint> waiting_;
  bool are_hosts_listed_ = false, are_bookings_listed_ = false, is_freed_ = false;
};

}  // namespace pawl::controller
