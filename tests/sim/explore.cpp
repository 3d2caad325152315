// A story with one fault at one of the operator's writes, and all of those.
#include "tests/sim/stories.h"

namespace pawl::sim {
namespace {

// What every crash and every hidden event must leave the same. Whether a lost pod is replaced or
// its gang begins again depends on when it is lost; neither is counted.
std::string end_state(World& world) {
  std::string text;
  for (const local::Object& job : world.api.all(kube::resources::kTrainingJobs)) {
    const auto& status = job->at("status");
    text += text_at_pointer(*job, "/metadata/name") + " " + status.value("phase", "") + " " +
            std::to_string(status.at("restarts").value("counted", 0)) + " counted\n";
  }
  return text;
}

// Deals one blow to the operator.
class Striker {
 public:
  Striker(World& world, const Experiment& experiment) : world_(world), experiment_(experiment) {
    world.operator_process.on_start = [this](Link& link) { arm(link); };
  }

 private:
  void arm(Link& link) {
    link.before_apply = [this](const kube::HttpRequest& request) { return before(request); };
    link.loses_reply = [this](const kube::HttpRequest& request) {
      return is_now(request) && experiment_.blow == Blow::kLoseReply;
    };
    link.after_apply = [this, &link](const kube::HttpRequest& request) { after(request, link); };
  }

  bool is_now(const kube::HttpRequest& request) const {
    return request.method != kube::Method::kGet && count_ == experiment_.at;
  }

  bool before(const kube::HttpRequest& request) {
    if (request.method == kube::Method::kGet) return true;
    ++count_;
    if (!is_now(request)) return true;
    if (experiment_.blow == Blow::kCrashBefore) {
      world_.operator_process.crash_for(seconds{1});
      return false;
    }
    if (experiment_.blow == Blow::kTimeTravel && request.method == kube::Method::kDelete) {
      return travel();
    }
    return true;
  }

  bool travel() {
    world_.api.count_fault("time travel");
    show_past(world_, "", seconds{10});
    world_.operator_process.crash_for(milliseconds{500});
    return false;
  }

  void after(const kube::HttpRequest& request, Link& link) {
    if (!is_now(request)) return;
    if (experiment_.blow == Blow::kCrashAfter) world_.operator_process.crash_for(seconds{1});
    if (experiment_.blow == Blow::kStalePods && path_of(request).plural == "workergroups") {
      world_.api.count_fault("stale pods");
      show_past(world_, "pods", seconds{10});
      world_.operator_process.crash_for(milliseconds{500});
    }
    if (experiment_.blow != Blow::kHideEvents) return;
    world_.api.count_fault("hidden events");
    link.freeze_streams();
    world_.engine.after(seconds{5}, [this] {
      world_.api.compact();
      if (Link* now = world_.operator_process.link()) now->drop_streams();
    });
  }

  World& world_;
  const Experiment experiment_;
  std::uint64_t count_ = 0;
};

struct Run {
  RunResult result;
  std::string end;
};

Run perform(const Experiment& experiment, bool is_recording) {
  for (const Story& story : stories()) {
    if (story.name != experiment.story) continue;
    Knobs knobs = calm_knobs();
    knobs.lag_max = milliseconds{200};
    knobs.places = knobs.has_queues = story.has_queues;
    knobs.asks_by_pods = story.asks_by_pods;
    World world(7, knobs, is_recording);
    world.training.fixed = Course{60, 5, seconds{1}};
    const Striker striker(world, experiment);
    Run run;
    run.result = world.run(story.run);
    run.end = end_state(world);
    return run;
  }
  return {};
}

}  // namespace

const char* blow_name(Blow blow) {
  constexpr const char* kNames[] = {"none",        "crash-before", "crash-after", "lose-reply",
                                    "hide-events", "stale-pods",   "time-travel"};
  return kNames[static_cast<int>(blow)];
}

std::string Experiment::text() const {
  return story + ":" + blow_name(blow) + ":" + std::to_string(at);
}

bool parse_experiment(const std::string& text, Experiment& out) {
  out = Experiment{};
  const auto first = text.find(':');
  const auto second = text.find(':', first + 1);
  out.story = text.substr(0, first);
  if (first == std::string::npos || second == std::string::npos) return true;
  const std::string name = text.substr(first + 1, second - first - 1);
  for (const Blow blow : {Blow::kCrashBefore, Blow::kCrashAfter, Blow::kLoseReply,
                          Blow::kHideEvents, Blow::kStalePods, Blow::kTimeTravel}) {
    if (name == blow_name(blow)) out.blow = blow;
  }
  out.at = std::strtoull(text.c_str() + second + 1, nullptr, 10);
  return out.blow != Blow::kNone && out.at > 0;
}

RunResult run_experiment(const Experiment& experiment, bool is_recording) {
  Run run = perform(experiment, is_recording);
  if (run.result.failure || experiment.blow == Blow::kNone) return run.result;
  const Run reference = perform({experiment.story, Blow::kNone, 0}, false);
  if (run.end != reference.end) {
    run.result.failure = Failure{"O1", "ends as " + run.end + "instead of " + reference.end};
  }
  return run.result;
}

Exploration explore(const std::string& only, bool goes_on) {
  Exploration all;
  for (const Story& story : stories()) {
    if (!only.empty() && story.name != only) continue;
    const Run reference = perform({story.name, Blow::kNone, 0}, false);
    ++all.runs;
    if (reference.result.failure) {
      all.failures.push_back({{story.name, Blow::kNone, 0}, *reference.result.failure});
      if (!goes_on) return all;
      continue;
    }
    for (const Blow blow : {Blow::kCrashBefore, Blow::kCrashAfter, Blow::kLoseReply,
                            Blow::kHideEvents, Blow::kStalePods, Blow::kTimeTravel}) {
      for (std::uint64_t at = 1; at <= reference.result.operator_writes; ++at) {
        const Experiment experiment{story.name, blow, at};
        Run run = perform(experiment, false);
        ++all.runs;
        all.hash = mix64(all.hash ^ run.result.hash);
        for (const auto& [name, count] : run.result.faults) all.faults += count;
        if (!run.result.failure && run.end != reference.end) {
          run.result.failure = Failure{"O1", "ends as " + run.end + "instead of " + reference.end};
        }
        if (!run.result.failure) continue;
        all.failures.push_back({experiment, *run.result.failure});
        if (!goes_on) return all;
      }
    }
  }
  return all;
}

}  // namespace pawl::sim
