// TrainJob (trainer.kubeflow.org/v1alpha1): what the job itself says; its runtime is in the cluster
// and is not read.
#include "cli/convert/draft.h"

namespace pawl::cli::convert {
namespace {

constexpr char kNode[] =
    "node";  // the trainer's replicatedJob and container in Kubeflow's runtimes

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// What the runtime is, as far as its name tells.
bool take_runtime(Draft& draft, Source& spec) {
  Source reference = spec.take_object("runtimeRef");
  const std::string name = reference.take_text("name").value_or("");
  const std::string kind = reference.take_text("kind").value_or("ClusterTrainingRuntime");
  reference.take("apiGroup");
  reference.finish();
  draft.leave_out(reference.path(),
                  "what " + kind + " " + (name.empty() ? "of this job" : name) +
                      " adds to the pods (volumes, sidecars, environment, policies) is in the "
                      "cluster, not in this file",
                  "compare with `kubectl get " + kind + " " + name +
                      " -o yaml` and add what the job needs to spec.template");
  for (const char* part : {"mpi", "deepspeed", "mlx"}) {
    if (!contains(name, part)) continue;
    draft.leave_out(reference.path_of("name"),
                    name + " starts its processes by mpirun, which Pawl does not",
                    "start the program by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  }
  return !contains(name, "jax");
}

json container_of(Source& trainer) {
  json container = {{"name", "worker"}};
  for (const char* name : {"image", "command", "args", "env"}) {
    if (trainer.has(name)) container[name] = trainer.take(name);
  }
  if (trainer.has("resourcesPerNode")) container["resources"] = trainer.take("resourcesPerNode");
  return container;
}

// The parts of an override that mean the same in a pod template.
void apply_override(Draft& draft, Source& part, json& pod) {
  Source spec = part.take_object("spec");
  for (const char* name : {"serviceAccountName", "nodeSelector", "affinity", "tolerations",
                           "volumes", "imagePullSecrets", "schedulingGates", "initContainers"}) {
    if (spec.has(name)) pod["spec"][name] = spec.take(name);
  }
  const json containers = spec.take_list("containers");
  for (std::size_t i = 0; i < containers.size(); ++i) {
    Source container{draft, containers[i].is_object() ? containers[i] : json::object(),
                     spec.path_of("containers[" + std::to_string(i) + "]")};
    const std::string name = container.take_text("name").value_or("");
    if (name != kNode && name != "trainer") {
      draft.leave_out(container.path(), "the container " + name + " is the runtime's",
                      "add it to spec.template");
      continue;
    }
    for (const char* list : {"env", "volumeMounts"}) {
      for (const json& item : container.take_list(list))
        pod["spec"]["containers"][0][list].push_back(item);
    }
    container.finish();
  }
  Source metadata = part.take_object("metadata");
  for (const char* name : {"labels", "annotations"}) {
    const json map = metadata.take(name);
    if (map.is_object()) pod["metadata"][name].update(map);
  }
  metadata.finish();
  spec.finish();
}

void apply_overrides(Draft& draft, Source& spec, json& pod) {
  const json overrides = spec.take_list("podTemplateOverrides");
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    Source part{draft, overrides[i].is_object() ? overrides[i] : json::object(),
                spec.path_of("podTemplateOverrides[" + std::to_string(i) + "]")};
    bool is_for_trainer = false;
    for (const json& target : part.take_list("targetJobs")) {
      is_for_trainer |= target.is_object() && target.value("name", json()) == kNode;
    }
    if (!is_for_trainer) {
      draft.leave_out(part.path(), "it is for another job of the runtime",
                      "see whether the workers need it");
      continue;
    }
    apply_override(draft, part, pod);
    part.finish();
  }
}

void carry_labels(Source& spec, json& pod) {
  for (const char* name : {"labels", "annotations"}) {
    const json map = spec.take(name);
    if (map.is_object() && !map.empty()) pod["metadata"][name].update(map);
  }
}

}  // namespace

void convert_train_job(Draft& draft, Source& manifest) {
  Source spec = manifest.take_object("spec");
  const bool is_torch = take_runtime(draft, spec);
  Source trainer = spec.take_object("trainer");
  set_replicas(draft, trainer.take_number("numNodes").value_or(1), trainer.path_of("numNodes"));
  PodRules rules{.is_torch = is_torch, .torchrun_default = "auto"};
  rules.processes_field = trainer.path_of("numProcPerNode");
  rules.processes = trainer.take("numProcPerNode");
  rules.worker_path = trainer.path();
  json pod = {{"spec", {{"containers", json::array({container_of(trainer)})}}}};
  trainer.finish();
  const json& container = pod["spec"]["containers"][0];
  if (!container.contains("image")) {
    draft.fail(trainer.path_of("image"),
               "is not set, so it comes from the runtime: write it into the manifest and convert "
               "it again");
  }
  carry_labels(spec, pod);
  apply_overrides(draft, spec, pod);
  if (!container.contains("command")) {
    draft.fail(trainer.path_of("command"),
               "is not set, so it comes from the runtime: write it into the manifest and convert "
               "it again");
  } else {
    carry_template(draft, pod, trainer.path(), rules);
  }
  spec.leave_out("initializer", "a TrainingJob has no initializers",
                 "fetch the model and the data in an init container of spec.template, or once by a "
                 "Job of its own");
  spec.leave_out("runtimePatches", "they change the runtime, which is not read",
                 "make the change in spec.template");
  carry_suspend(draft, spec);
  carry_managed_by(draft, spec, "trainer.kubeflow.org/trainjob-controller");
  carry_active_deadline(draft, spec);
  carry_ttl(draft, spec, "ttlSecondsAfterFinished");
  spec.finish();
}

}  // namespace pawl::cli::convert
