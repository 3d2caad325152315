#include <algorithm>
#include <string_view>

#include "common/api/children.h"
#include "common/api/codec.h"
#include "common/api/contract.h"
#include "common/api/json_fields.h"
#include "common/api/native_batch.h"
#include "common/api/pod_scheduling.h"
#include "common/api/worker_facts.h"
#include "common/base/json.h"

namespace pawl::api {

using nlohmann::json;

namespace {

constexpr char kTokenVolume[] = "pawl-token";
constexpr char kLauncherVolume[] = "pawl-launcher";
constexpr char kScratchVolume[] = "pawl-tmp";
constexpr char kInjectContainer[] = "pawl-inject";
constexpr int kGraceSecondsMin = 30;         // a checkpoint must fit in
constexpr int kTokenLifetimeSeconds = 3600;  // the kubelet renews at 80 %
constexpr int kNativeUser = 1000, kNativeGroup = 2000;

// Everything that worker_pod_of's steps share about one pod.
struct PodPlan {
  const TrainingJob& job;
  const ChildOptions& options;
  std::int64_t attempt;
  int slot, n;
  bool is_our_image = false;  // Native without an image of the user's
  bool is_injected = false;
};

// Adds the members of `defaults` that `target` lacks, object by object: the user's own values win.
void fill_in(json& target, const json& defaults) {
  for (const auto& [key, value] : defaults.items()) {
    if (!target.contains(key) || target[key].is_null()) {
      target[key] = value;
    } else if (target[key].is_object() && value.is_object()) {
      fill_in(target[key], value);
    }
  }
}

// The container named "worker", else the first; nullptr when there is none.
json* worker_container_of(json& spec) {
  json& containers = list_at(spec, "containers");
  for (json& container : containers) {
    if (container.is_object() && text_at(container, "name") == "worker") return &container;
  }
  return containers.empty() || !containers[0].is_object() ? nullptr : &containers[0];
}

Result<json> template_of(const TrainingJob& job) {
  const bool is_native = job.spec.runtime_kind == RuntimeKind::kNative;
  if (job.spec.template_json.empty()) {
    if (!is_native) return fail(Code::kInvalid, "spec.template: must be set");
    return json{{"spec", {{"containers", json::array({{{"name", "worker"}}})}}}};
  }
  json pod_template = parse_json(job.spec.template_json);
  if (!pod_template.is_object()) return fail(Code::kInvalid, "spec.template: must be an object");
  object_at(pod_template, "spec");
  object_at(pod_template, "metadata");
  return pod_template;
}

int gpus_of(const json& resources, const char* key) {
  if (!resources.is_object() || !resources.contains(key) || !resources[key].is_object()) return 0;
  int count = 0;
  for (const auto& [name, quantity] : resources[key].items()) {
    if (!name.ends_with("/gpu") && !name.starts_with("nvidia.com/mig-")) continue;
    const std::string text = quantity.is_string() ? quantity.get<std::string>() : quantity.dump();
    const bool is_plain = !text.empty() && text.size() <= 4 &&
                          text.find_first_not_of("0123456789") == std::string::npos;
    if (is_plain) count += std::stoi(text);
  }
  return count;
}

// Of the worker container.
int gpus_per_worker(const TrainingJob& job) {
  Result<json> pod_template = template_of(job);
  if (!pod_template) return 0;
  const json* container = worker_container_of(object_at(*pod_template, "spec"));
  if (container == nullptr || !container->contains("resources")) return 0;
  const json& resources = (*container)["resources"];
  const int gpus = std::max(gpus_of(resources, "limits"), gpus_of(resources, "requests"));
  return std::min(gpus, kProcessesMax);
}

json metadata_of(const PodPlan& plan, json metadata) {
  const TrainingJob& job = plan.job;
  metadata.erase("generateName");
  metadata["name"] = pod_name(job, plan.attempt, plan.slot, plan.n);
  metadata["namespace"] = job.meta.ns;
  json& labels = object_at(metadata, "labels");
  labels[kLabelManagedBy] = kManagedBy;
  labels[kLabelJobName] = job.meta.name;
  labels[kLabelJobUid] = job.meta.uid;
  labels[kLabelAttempt] = std::to_string(plan.attempt);
  labels[kLabelSlot] = std::to_string(plan.slot);
  labels[kLabelIncarnation] = std::to_string(plan.n);
  mark_for_kueue(job, plan.attempt, metadata);
  fill_in(object_at(metadata, "annotations"),
          {{kAnnotationClusterAutoscaler, "false"}, {kAnnotationKarpenter, "true"}});
  if (!plan.options.node_request.empty()) {
    metadata["annotations"][kAnnotationNodeRequest] = plan.options.node_request;
    metadata["annotations"][kAnnotationNodeRequestClass] = plan.options.provisioning_class;
  }
  metadata["ownerReferences"] = json::array({owner_reference_of(job)});
  return metadata;
}

json field_env(const char* name, const char* field) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}};
}

json value_env(const char* name, const std::string& value) {
  return {{"name", name}, {"value", value}};
}

// The kubelet resolves $(NAME) in values; "$$" is a dollar.
std::string unexpanded(std::string text) {
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 2)) {
    text.insert(at, 1, '$');
  }
  return text;
}

WorkerFacts facts_of(const PodPlan& plan) {
  const TrainingJobSpec& spec = plan.job.spec;
  WorkerFacts facts{.job_name = plan.job.meta.name,
                    .job_uid = plan.job.meta.uid,
                    .ns = plan.job.meta.ns,
                    .pod = pod_name(plan.job, plan.attempt, plan.slot, plan.n),
                    .attempt = plan.attempt,
                    .slot = plan.slot,
                    .processes = processes_per_worker(plan.job),
                    .slots = spec.runtime_kind == RuntimeKind::kMpi ? mpi_slots(plan.job) : 1,
                    .parameter_servers = spec.parameter_servers,
                    .runtime = spec.runtime_kind,
                    .is_in_place = spec.is_in_place};
  if (spec.runtime_kind == RuntimeKind::kRay) {
    facts.cpus = spec.processes_per_worker.value_or(0);
    facts.gpus = gpus_per_worker(plan.job);
  }
  if (spec.checkpoint) {
    facts.checkpoint = {spec.checkpoint->uri, spec.checkpoint->every_seconds.value_or(0),
                        spec.checkpoint->keep};
  }
  return facts;
}

json job_env(const PodPlan& plan) {
  json env =
      json::array({value_env(kEnvWorker, unexpanded(encode_worker_facts(facts_of(plan)))),
                   field_env(kEnvPodUid, "metadata.uid"), field_env(kEnvPodIp, "status.podIP"),
                   field_env(kEnvNodeName, "spec.nodeName")});
  // Only where the template refers to them: $(NAME) is resolved from what stands in the pod.
  const auto add_if_used = [&](const char* name, const std::string& value) {
    const std::string reference = std::string("$(") + name + ")";
    if (plan.job.spec.template_json.find(reference) == std::string::npos) return;
    env.push_back(value_env(name, value));
  };
  add_if_used(kEnvSlot, std::to_string(plan.slot));
  add_if_used(kEnvAttempt, std::to_string(plan.attempt));
  add_if_used(kEnvJobName, plan.job.meta.name);
  add_if_used(kEnvJobUid, plan.job.meta.uid);
  if (!plan.job.spec.runtime_config_json.empty()) {
    env.push_back(value_env(kEnvTrainerConfig, unexpanded(trainer_config(plan.job))));
  }
  return env;
}

// Ours first, so that the user's own variables may refer to them as $(PAWL_SLOT); the schema
// refuses the user's PAWL_*.
void set_env(const PodPlan& plan, json& container) {
  json env = job_env(plan);
  const std::string termination_path = text_at(container, "terminationMessagePath");
  if (!termination_path.empty()) env.push_back(value_env(kEnvTerminationLog, termination_path));
  if (!plan.options.metadata.empty()) env.push_back(value_env(kEnvMetadata, plan.options.metadata));
  const json users_env = list_at(container, "env");
  env.insert(env.end(), users_env.begin(), users_env.end());
  container["env"] = std::move(env);
}

std::vector<std::string> launcher_prefix(const PodPlan& plan) {
  if (plan.options.is_local) return {plan.options.launcher_path, "--"};
  if (!plan.is_injected) return {"pawl-launch", "--"};
  const std::string root = std::string(kInjectMountPath) + "/";
  return {root + kLoaderFile, "--library-path", root + "lib", root + "bin/pawl-launch", "--"};
}

// `command` and `args` become one command behind the launcher: an image's own entry point is not
// known here, which is why the schema asks for a command.
Status set_command(const PodPlan& plan, json& container) {
  json command = json::array();
  for (const std::string& word : launcher_prefix(plan)) command.push_back(word);
  const json users_command = list_at(container, "command");
  const json users_args = list_at(container, "args");
  if (!users_command.empty()) {
    command.insert(command.end(), users_command.begin(), users_command.end());
  } else if (plan.job.spec.runtime_kind == RuntimeKind::kNative) {
    command.push_back(plan.options.is_local ? plan.options.trainer_path : "pawl-train");
  } else {
    return fail(Code::kInvalid,
                "spec.template.spec.containers: the worker container has no command");
  }
  command.insert(command.end(), users_args.begin(), users_args.end());
  container["command"] = std::move(command);
  container.erase("args");
  return {};
}

void set_probes(json& container) {
  const auto probe = [](const char* path, int period, int failures) -> json {
    return {{"httpGet", {{"path", path}, {"port", kHealthPort}}},
            {"periodSeconds", period},
            {"timeoutSeconds", 2},
            {"failureThreshold", failures}};
  };
  if (!container.contains("readinessProbe")) {
    container["readinessProbe"] = probe("/readyz", 2, 1);
  }
  if (!container.contains("livenessProbe")) container["livenessProbe"] = probe("/healthz", 10, 6);
}

json restricted_container() {
  return {{"runAsNonRoot", true},
          {"allowPrivilegeEscalation", false},
          {"readOnlyRootFilesystem", true},
          {"capabilities", {{"drop", {"ALL"}}}},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

void add_token_volume(json& spec, json& container) {
  json sources = json::array();
  // Without an audience the token is for the API server.
  sources.push_back({{"serviceAccountToken",
                      {{"path", kTokenFileName}, {"expirationSeconds", kTokenLifetimeSeconds}}}});
  sources.push_back({{"serviceAccountToken",
                      {{"path", kPeerTokenFileName},
                       {"audience", kTokenAudience},
                       {"expirationSeconds", kTokenLifetimeSeconds}}}});
  sources.push_back({{"configMap",
                      {{"name", "kube-root-ca.crt"},
                       {"items", json::array({{{"key", "ca.crt"}, {"path", kCaFileName}}})}}}});
  // World-readable inside the pod (0444): the user's container may run under any user id.
  list_at(spec, "volumes")
      .push_back({{"name", kTokenVolume},
                  {"projected", {{"defaultMode", 0444}, {"sources", std::move(sources)}}}});
  list_at(container, "volumeMounts")
      .push_back({{"name", kTokenVolume}, {"mountPath", kTokenMountPath}, {"readOnly", true}});
}

void add_injection(const PodPlan& plan, json& spec, json& container) {
  const std::string root = std::string(kLauncherImageRoot) + "/";
  const json resources = {{"requests", {{"cpu", "10m"}, {"memory", "32Mi"}}},
                          {"limits", {{"cpu", "1"}, {"memory", "64Mi"}}}};
  json init = {{"name", kInjectContainer},
               {"image", plan.options.launcher_image},
               {"command",
                {root + kLoaderFile, "--library-path", root + "lib", root + "bin/pawl-launch",
                 "--install", kInjectMountPath}},
               {"securityContext", restricted_container()},
               {"resources", resources},
               {"volumeMounts",
                json::array({{{"name", kLauncherVolume}, {"mountPath", kInjectMountPath}}})}};
  if (!plan.options.pull_policy.empty()) init["imagePullPolicy"] = plan.options.pull_policy;
  json& init_containers = list_at(spec, "initContainers");
  init_containers.insert(init_containers.begin(), init);
  list_at(spec, "volumes")
      .push_back({{"name", kLauncherVolume}, {"emptyDir", {{"sizeLimit", "128Mi"}}}});
  list_at(container, "volumeMounts")
      .push_back({{"name", kLauncherVolume}, {"mountPath", kInjectMountPath}, {"readOnly", true}});
}

void set_our_image(const ChildOptions& options, json& container) {
  container["image"] = options.native_worker_image;
  if (!options.pull_policy.empty()) {
    fill_in(container, {{"imagePullPolicy", options.pull_policy}});
  }
}

// Our own worker image is known to run under these; a ten-line job passes the restricted profile.
void harden_native(json& spec, json& container) {
  fill_in(object_at(spec, "securityContext"), {{"runAsNonRoot", true},
                                               {"runAsUser", kNativeUser},
                                               {"fsGroup", kNativeGroup},
                                               {"seccompProfile", {{"type", "RuntimeDefault"}}}});
  fill_in(object_at(container, "securityContext"), restricted_container());
  json& mounts = list_at(container, "volumeMounts");
  const bool has_tmp = std::ranges::any_of(mounts, [](const json& mount) {
    return mount.is_object() && text_at(mount, "mountPath") == "/tmp";
  });
  if (has_tmp) return;
  mounts.push_back({{"name", kScratchVolume}, {"mountPath", "/tmp"}});
  list_at(spec, "volumes").push_back({{"name", kScratchVolume}, {"emptyDir", json::object()}});
}

void set_pod_fields(const PodPlan& plan, json& spec) {
  spec["restartPolicy"] = "Never";  // the launcher restarts processes, the operator replaces pods
  if (text_at(spec, "serviceAccountName").empty()) {
    spec["serviceAccountName"] = child_name(plan.job);
  }
  fill_in(spec, {{"automountServiceAccountToken", false}});
  if (plan.job.spec.has_hostnames) {
    spec["hostname"] = plan.job.meta.name + "-" + std::to_string(plan.slot);
    spec["subdomain"] = plan.job.meta.name;
  }
  json& grace = spec["terminationGracePeriodSeconds"];
  if (!grace.is_number_integer() || grace.get<std::int64_t>() < kGraceSecondsMin) {
    grace = kGraceSecondsMin;
  }
}

}  // namespace

int processes_per_worker(const TrainingJob& job) {
  const RuntimeKind kind = job.spec.runtime_kind;
  if (kind == RuntimeKind::kMpi || kind == RuntimeKind::kRay) return 1;
  if (job.spec.processes_per_worker) return *job.spec.processes_per_worker;
  // One process of theirs works with all GPUs that it finds.
  if (kind == RuntimeKind::kTensorFlow || kind == RuntimeKind::kJax) return 1;
  return std::max(gpus_per_worker(job), 1);
}

int mpi_slots(const TrainingJob& job) {
  return job.spec.processes_per_worker ? *job.spec.processes_per_worker
                                       : std::max(gpus_per_worker(job), 1);
}

Result<json> worker_pod_of(const TrainingJob& job, std::int64_t attempt, int slot, int n,
                           const ChildOptions& options) {
  PAWL_TRY(pod_template, template_of(job));
  json spec = object_at(pod_template, "spec");
  json* container = worker_container_of(spec);
  if (container == nullptr) {
    return fail(Code::kInvalid, "spec.template.spec.containers: must have a container");
  }
  PodPlan plan{job, options, attempt, slot, n};
  plan.is_our_image =
      job.spec.runtime_kind == RuntimeKind::kNative && text_at(*container, "image").empty();
  plan.is_injected = !options.is_local && !options.launcher_image.empty() && !plan.is_our_image;
  if (plan.is_our_image) set_our_image(options, *container);

  PAWL_TRY_VOID(set_command(plan, *container));
  set_env(plan, *container);
  set_probes(*container);
  set_pod_fields(plan, spec);
  avoid_excluded_nodes(job, options.now, spec);
  place_by_capacity(job, slot, options, spec);
  place_on_node(job, attempt, slot, n, spec);
  if (node_of(job.status.placement, attempt, slot, n) == kAnyNode)
    place_near_others(job, attempt, options.levels, spec);
  if (!options.pod_group.empty()) spec["schedulingGroup"] = {{"podGroupName", options.pod_group}};
  if (plan.is_our_image) harden_native(spec, *container);
  if (!options.is_local) add_token_volume(spec, *container);
  if (plan.is_injected) add_injection(plan, spec, *container);
  return json{{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", metadata_of(plan, object_at(pod_template, "metadata"))},
              {"spec", std::move(spec)}};
}

}  // namespace pawl::api
