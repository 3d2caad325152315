#include "tests/sim/stories.h"

namespace pawl::sim {
namespace {

using nlohmann::json;

json spec_of(int replicas, const char* kind = "Native") {
  const json container = {{"name", "worker"}, {"image", "i"}, {"command", {"/train"}}};
  json spec = {{"replicas", replicas},
               {"runtime", {{"kind", kind}}},
               {"failurePolicy", {{"podTerminationTimeoutSeconds", 30}, {"maxRestarts", 20}}},
               {"template", {{"spec", {{"containers", json::array({container})}}}}}};
  if (std::string(kind) == "Native") spec["checkpoint"] = {{"uri", "file:///store"}};
  return spec;
}

constexpr char kJob[] = "job-0";

// Until it runs, however long the blow keeps it from that; then a little longer.
bool comes_to(World& world, const char* name, const std::string& phase) {
  for (int i = 0; i < 300; ++i) {
    world.pass(seconds{1});
    const local::Object job = world.api.find(kube::resources::kTrainingJobs, name);
    if (job != nullptr && text_at_pointer(*job, "/status/phase") == phase) return true;
  }
  return false;
}

void start(World& world, const json& spec) {
  world.people.create_job(kJob, spec);
  for (int i = 0; i < 120; ++i) {
    world.pass(seconds{1});
    const local::Object job = world.api.find(kube::resources::kTrainingJobs, kJob);
    if (job == nullptr || text_at_pointer(*job, "/status/phase") == "Running") break;
  }
  world.pass(seconds{3});
}

void start(World& world, int replicas = 2, int least = 0) {
  json spec = spec_of(replicas);
  if (least > 0) spec["elastic"] = {{"minReplicas", least}, {"stabilizationSeconds", 2}};
  start(world, spec);
}

// An urgent job of the same queue comes to one that runs, and has no quota beside it.
void crowd(World& world, int least = 3) {
  json running = spec_of(3), urgent = spec_of(4);
  if (least < 3) running["elastic"] = {{"minReplicas", least}};
  running["scheduling"] = {{"queueName", "first"}};
  urgent["scheduling"] = {{"queueName", "first"}, {"priorityClassName", kUrgent}};
  world.people.create_job(kJob, running);
  world.pass(seconds{15});
  world.people.create_job("urgent", urgent);
}

std::vector<Story> all_stories() {
  return {
      {"complete", [](World& world) { start(world); }},
      {"custom",
       [](World& world) {
         world.people.create_job(kJob, spec_of(3, "Custom"));
         world.pass(seconds{6});
         world.training.kill_one();
         world.pass(seconds{40});
       }},
      {"evict",
       [](World& world) {
         start(world, 3);
         world.nodes.evict_pod("EvictionByEvictionAPI");
         world.pass(seconds{40});
       }},
      {"announced",  // a machine goes, and says so a minute before
       [](World& world) {
         start(world, 3);
         world.nodes.announce_one(seconds{60}, Nodes::Told::kNode);
         world.pass(seconds{50});
         world.oracles.i36_nobody_stays(world.nodes);
         world.pass(seconds{30});
       }},
      {"straggler",  // a rule moves it to another machine
       [](World& world) {
         world.training.fixed = Course{120, 5, seconds{1}};
         json spec = spec_of(3);
         spec["failurePolicy"]["rules"] = json::array(
             {{{"name", "slow"}, {"action", "ReplaceNode"}, {"onCauses", {"Straggler"}}}});
         world.people.create_job(kJob, spec);
         for (int i = 0; i < 60 && !world.training.slow_down_one(std::chrono::hours{1}); ++i)
           world.pass(seconds{1});
         world.pass(seconds{100});
         world.oracles.i42_slow_one_has_left();
       }},
      {"elastic",  // the others go on without it
       [](World& world) {
         start(world, 3, 1);
         world.nodes.evict_pod("EvictionByEvictionAPI");
         world.pass(seconds{40});
       }},
      {"spot",  // fails again and again, is avoided, and used again
       [](World& world) {
         json spec = spec_of(2);
         spec["capacity"] = {{"spot", "Prefer"}};
         world.training.fixed = Course{400, 50, seconds{1}};
         world.people.create_job(kJob, spec);
         world.pass(seconds{15});
         for (int i = 0; i < 4; ++i) {
           world.nodes.evict_pod("EvictionByEvictionAPI");
           world.pass(seconds{20});
         }
         world.pass(seconds{330});
       }},
      {"delete-pod",
       [](World& world) {
         start(world);
         world.nodes.evict_pod("Deleted");
         world.pass(seconds{40});
       }},
      {"killed",  // a training process, which is replaced in place
       [](World& world) {
         start(world);
         for (int i = 0; i < 60 && !world.training.kill_one(); ++i) world.pass(seconds{1});
         world.pass(seconds{40});
       }},
      {"hung",  // and killed by its launcher
       [](World& world) {
         start(world);
         for (int i = 0; i < 60 && !world.training.hang_one(); ++i) world.pass(seconds{1});
         world.pass(seconds{100});
       }},
      {"killed-then-ended",  // what the gang has outlived is not why it ends
       [](World& world) {
         start(world);
         for (int i = 0; i < 60 && !world.training.kill_one(); ++i) world.pass(seconds{1});
         for (int i = 0; i < 60 && !world.training.give_up_one(); ++i) world.pass(seconds{1});
         world.pass(seconds{40});
       }},
      {"apart",  // two ranks do not reach each other: one is replaced, in its attempt
       [](World& world) {
         world.training.fixed = Course{120, 5, seconds{1}};
         start(world, 3);
         for (int i = 0; i < 60 && !world.training.cut_pair(std::chrono::hours{1}); ++i)
           world.pass(seconds{1});
         world.pass(seconds{100});
         world.oracles.i33_cut_pairs_are_parted(world.training);
       }},
      {"deputy",  // the leader does not reach the API server: another one leads, from memory
       [](World& world) {
         world.training.fixed = Course{120, 5, seconds{1}};
         start(world, 3);
         world.net.blind_one(std::chrono::hours{1});
         world.pass(seconds{60});
         world.oracles.i33_leader_can_write(world.net);
         world.pass(seconds{40});
       }},
      {"suspend",
       [](World& world) {
         start(world);
         world.people.set_suspended(kJob, true);
         world.pass(seconds{60});
         world.people.set_suspended(kJob, false);
         world.pass(seconds{30});
       }},
      {"suspend-and-back",
       [](World& world) {
         start(world);
         world.people.set_suspended(kJob, true);
         world.pass(seconds{1});
         world.people.set_suspended(kJob, false);
         world.pass(seconds{60});
       }},
      {"scale",
       [](World& world) {
         start(world);
         world.people.set_replicas(kJob, 1);
         world.pass(seconds{45});
         world.people.set_replicas(kJob, 3);
         world.pass(seconds{60});
       }},
      {"resize",  // of a gang that runs
       [](World& world) {
         start(world, 2);
         world.people.set_replicas(kJob, 4);
         world.pass(seconds{15});
         world.people.set_replicas(kJob, 1);
         world.pass(seconds{30});
       }},
      {"recreate",
       [](World& world) {
         start(world);
         world.people.delete_job(kJob, "Background");
         world.pass(seconds{1});
         start(world, 3);
       }},
      {"foreground",
       [](World& world) {
         start(world);
         world.people.delete_job(kJob, "Foreground");
         world.pass(seconds{40});
       }},
      {"orphan",
       [](World& world) {
         start(world);
         world.people.delete_job(kJob, "Orphan");
         world.pass(seconds{5});
         start(world, 1);
       }},
      {"lost-record",
       [](World& world) {
         start(world);
         world.people.delete_group();
         world.pass(seconds{40});
       }},
      {"stripped",  // a pod that looks like an orphan to whoever does not see the job yet
       [](World& world) {
         json old = spec_of(1);  // so that there is a past without the job
         old["suspend"] = true;
         world.people.create_job(kJob, old);
         world.pass(seconds{5});
         world.people.delete_job(kJob, "Background");
         world.pass(seconds{30});
         start(world);
         world.people.strip_owner();
         show_past(world, "trainingjobs", seconds{10});
         world.operator_process.crash_for(milliseconds{500});
         world.pass(seconds{60});
       }},
      {"stranded",  // its node comes back when all is over
       [](World& world) {
         start(world, 3);
         world.nodes.strand_one(std::chrono::hours{1});
         world.pass(seconds{200});
       }},
      {"crash-loop",
       [](World& world) {
         world.training.starts_to_fail = 5;
         world.people.create_job(kJob, spec_of(1, "Custom"));
         world.pass(seconds{120});
       }},
      {"ttl",
       [](World& world) {
         json spec = spec_of(1);
         spec["ttlSecondsAfterFinished"] = 0;
         world.people.create_job(kJob, spec);
         world.pass(seconds{60});
       }},
      {"preempted",
       [](World& world) {
         crowd(world);
         world.pass(seconds{60});
       },
       true},
      {"shrunk",  // it goes on with one worker meanwhile
       [](World& world) {
         crowd(world, 1);
         world.pass(seconds{60});
       },
       true},
      {"dealt-anew",  // who comes in the first one's place is beside the third
       [](World& world) {
         world.knobs.pods_per_node = 1;
         for (const char* name : {"more-0", "more-1"}) world.nodes.add_machine(name, false);
         start(world, 3);
         const local::Object pod = world.api.find(kube::resources::kPods, "job-0-1-0-0");
         if (pod != nullptr)
           world.nodes.interrupt(text_at_pointer(*pod, "/spec/nodeName"), milliseconds{0});
         world.pass(seconds{60});
         world.oracles.i51_ring_leaves_racks_once(world.nodes);
       },
       true},
      {"torn-slice",  // no machine of its rack is left, and others have room for all of it
       [](World& world) {
         world.knobs.pods_per_node = 1;
         for (int i = 2; i < 6; ++i) world.nodes.add_machine("node-" + std::to_string(i), false);
         json spec = spec_of(4);
         spec["scheduling"]["slices"] = {{"size", 2}, {"level", "rack"}};
         start(world, spec);
         const local::Object pod = world.api.find(kube::resources::kPods, "job-0-1-1-0");
         if (pod != nullptr)
           world.nodes.interrupt(text_at_pointer(*pod, "/spec/nodeName"), milliseconds{0});
         world.pass(seconds{120});
       },
       true},
      {"by-pods",  // a machine comes for the third of them, and another one for who took its place
       [](World& world) {
         world.knobs.pods_per_node = 1;
         world.people.create_job(kJob, spec_of(3));
         world.pass(seconds{20});
         world.nodes.add_machine("more-0", false);
         world.pass(seconds{30});
         world.nodes.interrupt("more-0", milliseconds{0});
         world.pass(seconds{60});
         world.nodes.add_machine("more-1", false);
         world.pass(seconds{60});
         world.oracles.i51_ring_leaves_racks_once(world.nodes);
       },
       true, true},
      {"by-pods-too-late",  // it gives up, and another one has room
       [](World& world) {
         world.knobs.pods_per_node = 1;
         world.people.create_job(kJob, spec_of(4));
         world.pass(seconds{20});
         world.people.create_job("other", spec_of(2));
         if (!comes_to(world, "other", "Complete")) return;
         for (const char* name : {"more-0", "more-1"}) world.nodes.add_machine(name, false);
         world.pass(seconds{100});
       },
       true, true},
      {"preempted-for-nobody",  // any more: it leaves all the same; one worker less was no help
       [](World& world) {
         crowd(world, 2);
         world.pass(seconds{2});
         world.people.delete_job("urgent", "Background");
         world.pass(seconds{60});
       },
       true},
  };
}

}  // namespace

void show_past(World& world, const std::string& plural, seconds time) {
  world.api.extra_lag = seconds{20};
  world.api.extra_lag_plural = plural;
  world.knobs.may_list_stale = world.api.is_faulty = true;
  world.engine.after(time, [&world] {
    world.api.extra_lag = milliseconds{0};
    world.api.is_faulty = false;
    if (Link* link = world.operator_process.link()) {
      link->may_list_stale = false;
      link->drop_streams();
    }
  });
}

const std::vector<Story>& stories() {
  static const std::vector<Story> kStories = all_stories();
  return kStories;
}

RunResult run_hours(std::uint64_t seed, int hours, bool is_recording) {
  World world(seed, churn_knobs(), is_recording);
  return world.run([hours](World& w) {
    using std::chrono::minutes;
    w.begin_faults();
    w.respawn();
    w.every(minutes{1}, [&w] { w.respawn(); });
    w.every(minutes{20}, [&w] { w.nodes.kill_one(); });
    w.every(minutes{15},
            [&w] { w.nodes.blip_one(w.engine.between(milliseconds{500}, milliseconds{60'000})); });
    w.every(minutes{60}, [&w] {  // a spot storm
      for (int i = 0; i < 3; ++i) {
        w.engine.after(w.engine.between(milliseconds{0}, seconds{20}),
                       [&w] { w.nodes.kill_one(); });
      }
    });
    w.every(minutes{10}, [&w] { w.nodes.evict_pod("PreemptionByScheduler"); });
    w.every(minutes{30}, [&w] { w.nodes.drain_one(); });
    w.every(minutes{20}, [&w] {
      const auto told = static_cast<Nodes::Told>(w.engine.random().below(3));
      w.nodes.announce_one(w.engine.between(seconds{5}, seconds{120}), told);
    });
    w.every(minutes{10}, [&w] {
      w.training.slow_down_one(w.engine.between(milliseconds{20'000}, milliseconds{600'000}));
    });
    w.every(minutes{30}, [&w] {
      w.training.cut_pair(w.engine.between(milliseconds{1'000}, milliseconds{300'000}));
    });
    w.every(minutes{15}, [&w] {
      w.net.blind_one(w.engine.between(milliseconds{1'000}, milliseconds{300'000}));
    });
    w.every(minutes{45}, [&w] {
      w.api.count_fault("API outage");
      w.make_noise();
      w.api.outage_until = w.engine.elapsed() + w.engine.between(seconds{1}, seconds{120});
    });
    w.every(minutes{30}, [&w] { w.operator_process.crash_for(seconds{2}); });
    w.every(minutes{70}, [&w] { w.second_operator.hand_over_for(seconds{2}); });
    w.every(minutes{50}, [&w] { w.operator_process.pause(seconds{30}); });
    w.every(minutes{40}, [&w] {
      w.api.count_fault("compaction");
      w.api.compact();
    });
    w.every(minutes{25}, [&w] { w.people.toggle_suspend(); });
    w.every(minutes{25}, [&w] { w.people.scale(); });
    w.engine.run_until(std::chrono::hours{hours});
  });
}

}  // namespace pawl::sim
