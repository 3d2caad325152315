// What one seed draws before it begins: how large the world is, how slow and how faulty each part.
// Swarm testing: every rate is drawn anew for each seed, and many are wholly off, so that some runs
// meet one kind of trouble often and others meet combinations. Rates are in ten-thousandths.
#pragma once

#include <string>

#include "tests/sim/engine.h"

namespace pawl::sim {

// How a large model trains, and how seldom launchers that hear nothing new look around, where a run
// lasts for weeks (market.h). As it stands here, nothing is added.
struct Pace {
  int full_size = 0;              // a step of fewer members takes as much longer; 0: it does not
  milliseconds process_start{0};  // of a training process, before it can say anything
  milliseconds restore{0};        // of a checkpoint into every rank
  milliseconds feed{0};           // of the state of one rank into those that come in
  milliseconds rewire{0};         // a new communicator, with each generation
  milliseconds save_stall{0};     // of the step after a checkpoint
  milliseconds busy_tick{0}, calm_tick{0};  // 0: they turn as ever
  int report_seconds = 0;                   // of the operator's policy; 0: its own
};

// Of a gang whose pods were made without nodes, before it gives up (policy.anywhere_max).
inline constexpr seconds kAnywhereMax{60};

struct Knobs {
  // size
  int jobs = 1, nodes = 2, pods_per_node = 8, api_servers = 1;
  int operators = 1;                // two elect a leader
  milliseconds faulty_for{60'000};  // the safety phase

  // the way to the API server
  milliseconds latency_max{20};
  int lose_request = 0, lose_reply = 0, answer_5xx = 0, answer_429 = 0, answer_409 = 0;
  milliseconds lag_max{0};  // of a watch cache, drawn per server and kind
  bool may_list_stale = false;
  bool one_byte_chunks = false, small_pages = false, narrow_plans = false;

  // events a minute of virtual time, each at random times
  int crash_operator = 0, pause_operator = 0, drop_streams = 0, freeze_stream = 0, compact = 0;
  int api_outage = 0;
  int kill_node = 0, blip_node = 0, strand_node = 0, evict = 0, preempt = 0, drain = 0;
  int announce = 0;    // the end of a machine, before it comes
  int spot_nodes = 0;  // of `nodes`; the first is on demand
  bool taints_spot = false;
  int reclaim_spot = 0;
  seconds spot_avoided{300};  // at first, when they keep failing
  int break_gpu = 0;          // of a machine: what runs there and what comes there fails
  int hold_start = 0;         // a minute: a machine on which nothing starts for a while
  int delete_pod = 0, delete_group = 0, delete_status = 0, foreign_pod = 0, foreign_field = 0;
  int refuse_pods = 0, break_peers = 0, clock_step = 0, chatty_writer = 0, cut_status = 0;
  bool prunes = false;    // the definition of TrainingJob is older than the operator
  bool chats_on = false;  // a writer touches every job all the time, in the liveness phase too
  int user_suspends = 0, user_scales = 0, user_deletes = 0, user_edits = 0;

  // trainers
  int crash_per_step = 0;      // of a whole gang and step
  int crash_at_start = 0;      // of one process
  int wrong_exit = 0;          // how often a crash is exit 75 (a victim without a culprit) or 93
  bool recreates_all = false;  // the strategy of all jobs
  bool are_elastic = false;    // … of kind Native, unless they recreate all
  int slow = 0;                // a minute: a rank that holds up its gang for a while
  int blind_worker = 0;       // a minute: a launcher that does not reach the API server for a while
  int cut_pair = 0;           // a minute: two ranks that do not reach each other for a while
  bool holds_parts = false;   // each process of kind Native has a part of the state alone
  bool is_restless = false;   // one long-lived gang, and machines that come and go
  int hang = 0;               // how often a crash is none: the process neither goes on nor ends
  bool places = false;        // the operator decides on nodes
  bool asks_by_pods = false;  // who waits for room gets pods without nodes
  bool has_spares = false;    // jobs have workers that wait for a lost one's place
  bool has_slices = false;    // the workers of some lie together by twos
  seconds reserve_after{300};  // of waiting: room is kept for who waits
  bool has_queues = false;     // and their quotas
  bool is_crowded = false;     // the others are urgent, and one can do with fewer workers
  milliseconds step_max{1'000};
  milliseconds exit_max{2'000};  // how long a process takes to obey
  Pace pace;

  std::string describe() const;
};

Knobs draw_knobs(Random& random);
Knobs calm_knobs();   // one job, no faults, no lag: the reference, and the base of scenarios
Knobs churn_knobs();  // 24 hours of cluster life

}  // namespace pawl::sim
