#include "tests/sim/knobs.h"

#include <algorithm>

namespace pawl::sim {
namespace {

// Off half of the time, else between 1 and `most`.
int rate(Random& random, int most) {
  if (random.one_in(2)) return 0;
  return 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most)));
}

bool half(Random& random) { return random.one_in(2); }

milliseconds up_to(Random& random, std::initializer_list<int> choices) {
  return milliseconds{*(choices.begin() + random.below(choices.size()))};
}

void draw_api(Random& random, Knobs& knobs) {
  knobs.latency_max = up_to(random, {2, 20, 200, 1'000});
  knobs.lose_request = rate(random, 300);
  knobs.lose_reply = rate(random, 500);
  knobs.answer_5xx = rate(random, 300);
  knobs.answer_429 = rate(random, 300);
  knobs.answer_409 = rate(random, 300);
  knobs.lag_max = up_to(random, {0, 50, 1'000, 5'000});
  knobs.may_list_stale = half(random);
  knobs.one_byte_chunks = random.one_in(16);
  knobs.small_pages = random.one_in(4);
  knobs.narrow_plans = random.one_in(4);
  knobs.operators = random.one_in(4) ? 2 : 1;
  knobs.crash_operator = rate(random, 10);
  knobs.pause_operator = rate(random, 2);
  knobs.drop_streams = rate(random, 6);
  knobs.freeze_stream = rate(random, 2);
  knobs.compact = rate(random, 4);
  knobs.api_outage = rate(random, 2);
}

void draw_cluster(Random& random, Knobs& knobs) {
  knobs.kill_node = rate(random, 2);
  knobs.blip_node = rate(random, 3);
  knobs.evict = rate(random, 4);
  knobs.preempt = rate(random, 4);
  knobs.drain = rate(random, 2);
  knobs.delete_pod = rate(random, 6);
  knobs.delete_group = rate(random, 2);
  knobs.delete_status = rate(random, 2);
  knobs.foreign_pod = rate(random, 2);
  knobs.foreign_field = rate(random, 4);
  knobs.cut_status = rate(random, 2);
  knobs.refuse_pods = rate(random, 2);
  knobs.break_peers = rate(random, 3);
  knobs.clock_step = rate(random, 2);
  knobs.chatty_writer = rate(random, 2);
  knobs.chats_on = random.one_in(8);
  knobs.prunes = random.one_in(16);
  knobs.strand_node = rate(random, 2);
}

// What its user does, and what befalls its record, would end most gangs before their members come
// and go.
void make_restless(Knobs& knobs) {
  knobs.is_restless = true;
  knobs.recreates_all = false;
  knobs.jobs = 1;
  knobs.nodes = 4;
  knobs.user_deletes = knobs.user_suspends = knobs.user_edits = 0;
  knobs.delete_group = knobs.delete_status = knobs.cut_status = knobs.refuse_pods = 0;
  knobs.foreign_pod = knobs.prunes = 0;
  knobs.lag_max = std::min(knobs.lag_max, milliseconds{1'000});
  knobs.latency_max = std::min(knobs.latency_max, milliseconds{200});
  for (int* rate : {&knobs.lose_request, &knobs.lose_reply, &knobs.answer_5xx, &knobs.answer_429,
                    &knobs.answer_409})
    *rate = std::min(*rate, 50);
  knobs.crash_operator = std::min(knobs.crash_operator, 2);
  knobs.freeze_stream = knobs.pause_operator = knobs.strand_node = 0;
  knobs.faulty_for = std::max(knobs.faulty_for, milliseconds{120'000});
  knobs.crash_at_start = 0;
  knobs.evict += 2;
  knobs.delete_pod += 2;
  knobs.blip_node += 2;
  knobs.break_peers += 2;
}

void draw_spot(Random& random, Knobs& knobs) {
  knobs.nodes = std::max(knobs.nodes, 2);
  knobs.spot_nodes =
      1 + static_cast<int>(random.below(static_cast<std::uint64_t>(knobs.nodes - 1)));
  knobs.taints_spot = half(random);
  knobs.reclaim_spot = 1 + static_cast<int>(random.below(4));
  knobs.spot_avoided = seconds{60};
}

}  // namespace

Knobs draw_knobs(Random& random) {
  Knobs knobs;
  knobs.jobs = 1 + static_cast<int>(random.below(3));
  knobs.nodes = 1 + static_cast<int>(random.below(4));
  knobs.pods_per_node = 14;
  knobs.api_servers = 1 + static_cast<int>(random.below(3));
  knobs.faulty_for = up_to(random, {20'000, 60'000, 120'000, 240'000});
  draw_api(random, knobs);
  draw_cluster(random, knobs);
  knobs.user_suspends = rate(random, 4);
  knobs.user_scales = rate(random, 3);
  knobs.user_deletes = rate(random, 2);
  knobs.user_edits = rate(random, 3);
  knobs.crash_per_step = rate(random, 1'000);
  knobs.crash_at_start = random.one_in(10) ? 5'000 : rate(random, 500);
  knobs.wrong_exit = rate(random, 2'000);
  knobs.step_max = up_to(random, {300, 1'000, 3'000});
  knobs.exit_max = up_to(random, {50, 2'000, 40'000});
  // Last: the worlds of older seeds stay as they are.
  knobs.hang = rate(random, 5'000);
  knobs.recreates_all = random.one_in(8);
  knobs.are_elastic = random.one_in(2);
  if (knobs.are_elastic && random.one_in(2)) make_restless(knobs);
  knobs.announce = rate(random, 3);
  if (knobs.is_restless) knobs.slow = rate(random, 3);  // the others end before it is told
  knobs.break_gpu = random.one_in(4) ? 1 + static_cast<int>(random.below(3)) : 0;
  if (random.one_in(4)) draw_spot(random, knobs);
  knobs.cut_pair = rate(random, 3);
  knobs.blind_worker = rate(random, 3);
  // An API server that forgets the decision would be told it for ever.
  knobs.places = random.one_in(4) && !knobs.prunes;
  if (random.one_in(2)) knobs.reserve_after = seconds{random.below(40)};
  knobs.has_queues = knobs.places && knobs.spot_nodes == 0 && random.one_in(2);
  // Room for the largest job on each, so that none waits for ever, and seldom for all. A machine
  // whose GPU stays broken has none.
  constexpr int kLargestJob = 6;
  if (knobs.places && knobs.break_gpu == 0 && random.one_in(2)) knobs.pods_per_node = kLargestJob;
  // One after the other they would try each broken machine for longer than a run lasts.
  const bool may_crowd = knobs.places && knobs.are_elastic && knobs.break_gpu == 0;
  knobs.is_crowded = may_crowd && !knobs.recreates_all && random.one_in(2);
  if (knobs.is_crowded) {
    knobs.jobs = 3;
    if (knobs.pods_per_node == kLargestJob) knobs.nodes = 1;
  }
  knobs.hold_start = random.one_in(4) ? 1 + static_cast<int>(random.below(3)) : 0;
  knobs.has_spares = random.one_in(4);
  knobs.asks_by_pods = knobs.places && random.one_in(3);
  const bool may_be_tight = knobs.places && knobs.break_gpu == 0 && !knobs.is_crowded;
  knobs.has_slices = may_be_tight && random.one_in(2);
  if (knobs.has_slices) {  // two machines for the largest job, so that slices are torn
    knobs.pods_per_node = kLargestJob / 2;
    knobs.nodes += 2;
  }
  knobs.holds_parts = random.one_in(5);
  return knobs;
}

Knobs calm_knobs() { return {}; }

Knobs churn_knobs() {
  Knobs knobs;
  knobs.jobs = 3;
  knobs.nodes = 4;
  knobs.pods_per_node = 14;
  knobs.api_servers = 3;
  knobs.operators = 2;
  knobs.latency_max = milliseconds{50};
  knobs.lag_max = milliseconds{1'000};
  knobs.lose_request = knobs.lose_reply = knobs.answer_5xx = 20;
  knobs.step_max = milliseconds{10'000};
  knobs.crash_per_step = 20;
  knobs.are_elastic = true;
  knobs.slow = knobs.cut_pair = knobs.blind_worker = 1;
  return knobs;
}

std::string Knobs::describe() const {
  std::string text = std::to_string(jobs) + " jobs, " + std::to_string(nodes) + " nodes, " +
                     std::to_string(api_servers) + " API servers, latency " +
                     std::to_string(latency_max.count()) + " ms, lag " +
                     std::to_string(lag_max.count()) + " ms, faults for " +
                     std::to_string(faulty_for.count() / 1000) + " s";
  if (spot_nodes > 0) text += ", " + std::to_string(spot_nodes) + " of them spot";
  if (may_list_stale) text += ", stale lists";
  if (places) text += ", pods are placed";
  if (is_crowded) text += ", crowded";
  if (has_queues) text += ", queues";
  if (hold_start > 0) text += ", late starts";
  if (has_spares) text += ", spares";
  if (asks_by_pods) text += ", an autoscaler";
  if (has_slices) text += ", slices";
  if (holds_parts) text += ", sharded states";
  return text;
}

}  // namespace pawl::sim
