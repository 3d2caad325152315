// Clusters in some state, by seed: what the benchmark decides on. The same numbers everywhere.
#pragma once

#include <cstdint>
#include <span>

#include "operator/placement/ledger.h"

namespace pawl::placement {

struct State {
  Topology topology;
  Room room;  // of members that take one GPU, unless the host has it all for one member
  Ask ask;
};

// Small and irregular: one to three labels, 16 to 400 hosts, some without a label, racks of any
// size, hosts of which a part is taken; an ask that fits into the cluster.
State random_state(std::uint32_t seed);

// Of the jobs of a mix so many percent ask for so many GPUs.
struct Slice {
  int gpus = 0, percent = 0;
};
// `percent`: 0 to 99, drawn by the caller.
int gpus_at(std::span<const Slice> mix, int percent);

// `hosts` of 8 GPUs: racks of 16, blocks of 16 racks, zones of 15 or 16 blocks.
Topology regular_topology(int hosts);
// Such hosts without zones, labelled "block" and "rack".
void add_hosts(Ledger& ledger, int hosts);
// As if jobs of all sizes had come and gone: racks are full, empty or something between.
Room worn_room(const Topology& topology, std::uint32_t seed);

}  // namespace pawl::placement
