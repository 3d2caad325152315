// Plans on their way to the API server: each is sent, action by action, and what has become of it
// decides when its job is looked at again.
#include <algorithm>
#include <utility>

#include "common/api/codec.h"
#include "common/base/json.h"
#include "common/kube/requests.h"
#include "operator/controller/loop.h"

namespace pawl::controller {
namespace {

using nlohmann::json;

// A Status object (of a deletion) has no metadata.
Result<Reply> read_answer(const kube::HttpRequest& request,
                          const Result<kube::HttpResponse>& response) {
  if (!response) return tl::make_unexpected(response.error());
  PAWL_TRY(body, kube::read_response(request, *response));
  if (!body.is_object() || !body.contains("metadata")) return Reply{};
  PAWL_TRY(meta, api::decode_meta(body));
  const std::string kind = body.value("kind", "");
  const json::json_pointer least{kind == "PodGroup" ? "/spec/schedulingPolicy/gang/minCount"
                                                    : "/spec/minAvailable"};
  const bool has_least = kind == "PodGroup" || kind == "PodDisruptionBudget";
  if (has_least && body.contains(least) && body.at(least).is_number_integer())
    return Reply{std::move(meta), std::nullopt, body.at(least).get<int>()};
  if (kind != "TrainingJob") return Reply{std::move(meta), std::nullopt};
  PAWL_TRY(job, api::decode_training_job(body));
  return Reply{std::move(meta), std::move(job.status)};
}

}  // namespace

void ControllerLoop::start(const JobKey& key, const JobEntry& entry, core::Plan plan) {
  const std::uint64_t id = next_run_++;
  const auto attempt = entry.job ? entry.job->status.attempt : 0;
  log_.info("plan", {{"namespace", key.ns},
                     {"job", key.name},
                     {"uid", entry.job ? entry.job->meta.uid : ""},
                     {"attempt", attempt},
                     {"rv", entry.job ? entry.job->meta.resource_version : ""},
                     {"plan", id},
                     {"actions", plan.actions.size()},
                     {"first", core::describe(plan.actions.front())},
                     {"why", plan.why}});
  metrics_.count_plan();
  for (const core::Action& action : plan.actions) metrics_.count_action(action);
  ExchangeContext context{key.ns, key.name, entry.job, options_.policy.children, clock_.now()};
  Flight& flight = flights_[id];
  flight.run =
      std::make_unique<PlanRun>(key, std::move(plan), std::move(context), options_.wave_max);
  keyed_[key].run = id;
  send_ready(id, flight);
  if (flight.run->is_over()) finish(id);
}

void ControllerLoop::send_ready(std::uint64_t id, Flight& flight) {
  for (PlanRun::Outgoing& out : flight.run->take_requests()) {
    // Looked at before each: planning takes time, and a process can be stopped anywhere.
    if (clock_.steady_now() >= lead_until_) is_leading_ = false;
    if (!is_leading_) return;
    // The callback may outlive this object: it holds on to the inbox alone.
    auto done = [inbox = inbox_, id, action = out.action,
                 request = out.request](const Result<kube::HttpResponse>& response) {
      inbox->post(Answer{id, action, read_answer(request, response)});
    };
    Flight::Sent& sent = flight.sent[out.action];
    sent.at = clock_.steady_now();
    sent.handle = transport_.send(std::move(out.request), std::move(done));
  }
}

void ControllerLoop::finish(std::uint64_t id) {
  const auto node = flights_.extract(id);
  const PlanRun& run = *node.mapped().run;
  const JobKey key = run.key();
  Keyed& keyed = keyed_[key];
  keyed.run = 0;
  keyed.is_marked = false;
  for (const Written& written : run.written()) {
    if (written.deleted_uid.empty()) {
      gate_.wrote(key, written.kind, written.resource_version);
      std::string& newest = written_[static_cast<std::size_t>(written.kind)];
      if (kube::is_at_least(written.resource_version, newest)) newest = written.resource_version;
    } else {
      gate_.deleted(key, written.deleted_uid);
    }
  }
  if (run.has_written_status()) keyed.status_written_at = clock_.now();
  bool has_created = false;
  for (const core::Action& action : run.plan().actions) {
    has_created = has_created || core::is_creation(action);
    const auto* patch = std::get_if<core::PatchStatus>(&action);
    if (patch == nullptr || !run.has_written_status()) continue;
    metrics_.count_status(patch->before, patch->after);
    if (patch->before.attempt != patch->after.attempt) keyed.refusal.reset();
  }
  if (run.error()) {
    on_error(key, keyed, *run.error());
  } else if (run.is_partial()) {
    on_partial(key, keyed);
  } else {
    keyed.errors = 0;
  }
  if (!run.error()) node_requests_.note(key, run.plan(), run.job_uid(), clock_.now());
  if (!run.error() && has_created) {
    keyed.refusal.reset();
    keyed.refusals = 0;
  }
  mark(key);  // look again once the gate is open: there may be a next step
}

}  // namespace pawl::controller
