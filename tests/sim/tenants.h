// Tenants that share a cluster, each with a queue and a quota of its own: the operator's line,
// quotas, ledger and preemptor, and jobs that come, run, save, leave and come back. An oracle looks
// on (O14): whoever is first in the line of a queue, and fits into the quota of that queue beside
// what the queue runs, waits no longer than for one decision, what is protected of those that have
// to leave, and their saving; and of a queue that is FIFO, and lost nothing to others, no job
// begins later than it would in a cluster that is no larger than the quota, where each begins that
// much after it could. Leaves out: topology that is required, growth, pods, machines beyond the
// quotas, other resources, gangs larger than their quota or refused, queues that take nothing back.
// One thread.
#pragma once

#include <cstdint>

#include "tests/sim/world.h"

namespace pawl::sim {

RunResult run_tenants(std::uint64_t seed, bool is_recording);

}  // namespace pawl::sim
