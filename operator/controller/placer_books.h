// What the placer keeps of each job: what it has, what it asks for, and what it was answered. Plain
// values; owner thread of the controller only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/api/types.h"
#include "operator/core/plan.h"
#include "operator/placement/ledger.h"

namespace pawl::controller {

struct SeatingAnswer {
  core::Seating seating;
  int ahead = 0;  // jobs before it in line
};

struct HeldRoom {
  std::vector<std::string> pods;  // with a promise
  // What each pod takes, of this generation of the job.
  std::int64_t generation = -1;
  placement::Resources requests;
  std::string flavor;
  std::int64_t priority = 0;
  // Slots whose workers need quota, of this attempt: a lost one needs none anew.
  std::int64_t charged_attempt = -1;
  std::set<int> charged;
  int charged_workers = 0;
  std::string queue;
  bool is_empty() const { return pods.empty() && charged_workers == 0; }
  // That it is charged for nothing is known, too, for as long as the job is there.
  bool is_forgotten() const { return is_empty() && charged_attempt < 0; }
};

struct AskedRoom {  // of which job, while it is in line or has an answer
  std::int64_t attempt = 0, generation = 0;
  placement::Ask whole = {};                // of all of it, where nothing of it is there
  std::vector<api::PlacedPod> wanted = {};  // empty: the whole gang
  std::vector<std::string> staying = {};    // in slices: the ledger's keys of its pods that stay
  bool is_elastic = false;                  // it may be smaller than that
  std::optional<SeatingAnswer> answer = std::nullopt;
  std::optional<core::Seating> refusal = std::nullopt;        // the answer that it took last
  std::vector<std::string> offered = {};                      // pods that the answer has nodes for
  std::optional<TimePoint> lacks_nodes_since = std::nullopt;  // as it was told
  std::chrono::seconds asks_by_pods_after{0};                 // from then
};

// That will never be held by the nodes as they are: it asks again when they could hold another
// number of its workers.
struct Hopeless {
  placement::Shape shape;
  placement::Ask ask;
  int units = 0;  // the most that one of the domains that it may be in could hold
};

}  // namespace pawl::controller
