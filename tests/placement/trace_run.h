// 10,000 jobs that come and go, placed by each strategy on a cluster of its own: who lies closer,
// job by job, when today's choice has made tomorrow's state.
#pragma once

#include <string>
#include <vector>

#include "tests/placement/peers.h"

namespace pawl::placement {

struct TraceResult {
  std::string trace, peer;
  peers::Tally all, wide;  // of all jobs; of those on more than one host
  double wait_ratio = 1;   // their mean wait for room, of ours; 1 where nobody waited
};
// Each trace beside each peer.
std::vector<TraceResult> run_traces(int hosts, int jobs);

}  // namespace pawl::placement
