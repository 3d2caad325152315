// One job in one market: who it is, how it trains, and what came of it.
#include <algorithm>

#include "common/api/contract.h"
#include "tests/sim/market.h"

namespace pawl::sim {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::minutes;

constexpr int kWorkers = 16;
constexpr seconds kStep{20};  // of all workers
constexpr char kJob[] = "job-0";

// docs/spot.md says where each of these comes from.
Pace pace_of_a_large_model() {
  Pace pace;
  pace.full_size = kWorkers;
  pace.process_start = seconds{60};
  pace.restore = seconds{60};
  pace.feed = seconds{15};
  pace.rewire = seconds{5};
  pace.save_stall = seconds{6};
  pace.busy_tick = seconds{1};
  pace.calm_tick = seconds{10};
  pace.report_seconds = 300;
  return pace;
}

Knobs market_knobs() {
  Knobs knobs;
  knobs.jobs = 1;
  knobs.nodes = 0;  // all are bought
  knobs.pods_per_node = 1;
  knobs.pace = pace_of_a_large_model();
  return knobs;
}

// Young: the square root of twice the stall times the time between losses.
std::int64_t steps_between_saves(const MarketRun& run) {
  constexpr std::int64_t kSecondsMax = 1'800;
  const int spot = kWorkers - run.on_demand_min();
  const std::int64_t between = std::int64_t{run.terms->minutes_between_losses(spot)} * 60;
  const std::int64_t stall = pace_of_a_large_model().save_stall / seconds{1};
  std::int64_t interval = 1;
  while (interval < kSecondsMax && interval * interval < 2 * stall * between) ++interval;
  if (between == 0) interval = kSecondsMax;
  return std::max<std::int64_t>((interval + kStep.count() / 2) / kStep.count(), 1);
}

Course course_of(const MarketRun& run) {
  return {.steps = hours{24 * run.days} * 2 / 3 / kStep,
          .save_every = steps_between_saves(run),
          .step_time = kStep};
}

json spec_of(const MarketRun& run) {
  const json container = {{"name", "worker"}, {"image", "i"}, {"command", {"/train"}}};
  const int least = run.on_demand_min();
  json spec = {{"replicas", kWorkers},
               {"runtime", {{"kind", "Native"}}},
               {"template", {{"spec", {{"containers", json::array({container})}}}}},
               {"failurePolicy", {{"podTerminationTimeoutSeconds", 60}}},
               {"checkpoint", {{"uri", "file:///store"}}}};
  spec["capacity"] =
      least < kWorkers ? json{{"spot", "Prefer"}, {"onDemandMin", least}} : json{{"spot", "Never"}};
  if (run.policy == MarketPolicy::kRestartAll) {
    spec["failurePolicy"]["strategy"] = "RecreateAll";
  } else {
    spec["elastic"] = {{"minReplicas", least},
                       {"stabilizationSeconds", 30},
                       {"onShortage", "Shrink"},
                       {"shortageSeconds", 900}};
  }
  return spec;
}

double number_at(const json& object, const char* pointer) {
  const json::json_pointer at{pointer};
  if (!object.contains(at)) return 0;
  const json& value = object.at(at);
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

double in_hours(milliseconds time) { return static_cast<double>(time.count()) / 3.6e6; }

// What a cluster does each hour: it forgets events, and how it came to its present revision.
void tidy(ApiServer& api) {
  using kube::resources::kEvents;
  for (const local::Object& event : api.all(kEvents)) {
    api.handle(Actor::kCluster,
               kube::delete_request(kEvents, kNamespace, event->at("metadata").at("name"),
                                    {.uid = event->at("metadata").at("uid")}));
  }
  api.compact();
}

struct End {
  json job;
  MarketBill bill;
  milliseconds time{0};
  std::int64_t steps = 0;
};

json report(const MarketRun& run, const Course& course, const End& end, const Market& market) {
  const double productive = number_at(end.job, "/status/goodput/productiveSeconds");
  return {{"market", run.terms->name},
          {"share", run.share},
          {"policy", run.policy == MarketPolicy::kElastic ? "elastic" : "restart-all"},
          {"falls_back", run.falls_back},
          {"seed", run.seed},
          {"is_complete", text_at_pointer(end.job, "/status/phase") == "Complete"},
          {"done", static_cast<double>(end.steps) / static_cast<double>(course.steps)},
          {"hours", in_hours(end.time)},
          {"hours_undisturbed", in_hours(course.steps * course.step_time)},
          {"on_demand_hours", in_hours(end.bill.on_demand)},
          {"spot_hours", in_hours(end.bill.spot)},
          {"goodput", productive * 1000 / static_cast<double>(end.time.count())},
          {"save_every_steps", course.save_every},
          {"machines", end.bill.bought},
          {"interruptions", end.bill.interrupted},
          {"zones_shut", market.zones_shut()},
          {"attempts", number_at(end.job, "/status/attempt")},
          {"counted", number_at(end.job, "/status/restarts/counted")},
          {"status_goodput", end.job.value(json::json_pointer{"/status/goodput"}, json::object())},
          {"recoveries", end.job.value(json::json_pointer{"/status/recoveries"}, json::object())},
          {"capacity", end.job.value(json::json_pointer{"/status/capacity"}, json::object())}};
}

}  // namespace

int MarketRun::on_demand_min() const {
  return std::max(kWorkers - kWorkers * share / 100, 1);  // the leader is one
}

bool parse_market(const std::string& text, MarketRun& out) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() < 3 || words.size() > 4) return false;
  out.terms = find_market(words[0]);
  constexpr const char* kShares[] = {"0", "25", "50", "75", "100"};
  const auto* const share = std::ranges::find(kShares, words[1]);
  if (out.terms == nullptr || share == std::end(kShares)) return false;
  out.share = static_cast<int>(share - kShares) * 25;
  if (words[2] != "elastic" && words[2] != "restart-all") return false;
  out.policy = words[2] == "elastic" ? MarketPolicy::kElastic : MarketPolicy::kRestartAll;
  out.falls_back = words.size() == 4;
  return !out.falls_back || words[3] == "fallback";
}

MarketResult run_market(const MarketRun& run) {
  World world(run.seed, market_knobs(), false);
  const Course course = course_of(run);
  world.training.fixed = course;
  world.nodes.may_fail = true;
  world.operator_process.start();
  Market market(world, run);
  world.people.create_job(kJob, spec_of(run));
  market.begin();
  const milliseconds limit = hours{24 * run.days};
  End end;
  while (world.engine.elapsed() < limit && !world.oracles.failure()) {
    world.pass(minutes{1});
    if (world.engine.elapsed() % hours{1} == milliseconds{0}) {
      tidy(world.api);
      world.oracles.forget_view(&world.operator_process);  // else they compare ever more
    }
    end.job = *world.api.find(kube::resources::kTrainingJobs, kJob);
    if (is_over(end.job)) break;
  }
  end.bill = market.bill();
  end.time = world.engine.elapsed();
  end.steps = world.truth.jobs[end.job["metadata"]["uid"]].highest_step;
  MarketResult result{world.oracles.failure(), report(run, course, end, market).dump()};
  return result;
}

}  // namespace pawl::sim
