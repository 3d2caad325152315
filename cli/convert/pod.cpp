// The pod template of a manifest as the template of a TrainingJob.
#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <set>

#include "cli/convert/draft.h"
#include "cli/convert/torchrun.h"
#include "common/api/contract.h"
#include "common/base/json.h"

namespace pawl::cli::convert {
namespace {

constexpr char kWorker[] = "worker";
constexpr char kCompletionIndex[] = "JOB_COMPLETION_INDEX";
constexpr char kCompletionIndexLabel[] = "batch.kubernetes.io/job-completion-index";
constexpr char kSlot[] = "$(PAWL_SLOT)";
// Kubernetes puts these into a command only where the pod's own environment has them; here the
// launcher sets them.
constexpr std::array kSetByLauncher = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK",
                                       "LOCAL_RANK"};
constexpr std::array kForeignLabels = {"jobset.sigs.k8s.io/", "training.kubeflow.org/",
                                       "trainer.kubeflow.org/", "batch.kubernetes.io/"};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> words_of(const json& container, const char* key) {
  std::vector<std::string> words;
  if (!container.contains(key) || !container[key].is_array()) return words;
  for (const json& word : container[key]) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

// The container that trains: by the other operator's name for it, else `worker`, else the first.
std::size_t worker_index(const json& containers, const std::string& name) {
  for (const std::string& wanted : {name, std::string(kWorker)}) {
    for (std::size_t i = 0; i < containers.size(); ++i) {
      if (!wanted.empty() && text_at(containers[i], "name") == wanted) return i;
    }
  }
  return 0;
}

void each_text(json& value, const std::function<void(std::string&)>& use) {
  if (value.is_string()) use(value.get_ref<std::string&>());
  if (value.is_structured()) {
    for (json& child : value) each_text(child, use);
  }
}

// Resource references name the container that they are about.
void rename_references(json& value, const std::string& before) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.contains("resourceFieldRef") &&
      text_at(value["resourceFieldRef"], "containerName") == before) {
    value["resourceFieldRef"]["containerName"] = kWorker;
  }
  for (json& child : value) rename_references(child, before);
}

// One pod's worth of work: the container in the draft, and where it stood in the manifest.
struct Pod {
  Draft& draft;
  const PodRules& rules;
  json& spec;
  json& container;
  std::string path;  // of the container in the manifest
};

void set_processes(Pod& pod, const json& value, const std::string& field) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text == "auto" || text == "gpu") {
    pod.draft.spec["processesPerWorker"] = "auto";
    return;
  }
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && stop == end && number >= 1 && number <= api::kProcessesMax) {
    pod.draft.spec["processesPerWorker"] = number;
    return;
  }
  pod.draft.leave_out(field, "\"" + text + "\" is not a number from 1 to 64, auto or gpu",
                      "set spec.processesPerWorker to the number of processes of a pod");
}

// As torchrun decides: its option, then what the other operator told it.
void set_torchrun_processes(Pod& pod, const std::string& option) {
  const std::string field = pod.path + ".command";
  if (!option.empty()) return set_processes(pod, option, field);
  const PodRules& rules = pod.rules;
  if (!rules.processes.is_null()) return set_processes(pod, rules.processes, rules.processes_field);
  if (!rules.torchrun_default.is_null()) set_processes(pod, rules.torchrun_default, field);
}

// The processes that the script's torchrun starts, where that can be told from the script.
void carry_script_processes(Pod& pod, const std::vector<std::string>& words) {
  const std::string field = pod.path + ".command";
  const auto leave_out = [&](const std::string& why) {
    pod.draft.spec["processesPerWorker"] = 1;
    pod.draft.leave_out(
        field, why, "set spec.processesPerWorker to the number of processes of a pod; it is 1 now");
  };
  std::set<std::string> options;
  bool is_clear = true;
  for (const std::string& word : words) {
    if (!mentions_torchrun(word)) continue;
    const std::vector<Torchrun> found = torchruns_in(word);
    is_clear &= !found.empty();
    for (const Torchrun& torchrun : found) {
      is_clear &= torchrun.unknown.empty();
      options.insert(torchrun.processes);
    }
  }
  // What the other operator sets by nprocPerNode.
  for (const char* name : {"$PET_NPROC_PER_NODE", "${PET_NPROC_PER_NODE}"}) {
    if (options.erase(name) > 0) options.insert("");
  }
  const bool has_option = std::ranges::any_of(words, [](const std::string& word) {
    return contains(word, "nproc-per-node") || contains(word, "nproc_per_node");
  });
  if (has_option && (!is_clear || options.size() > 1)) {
    return leave_out("how many processes the script's torchrun starts cannot be told for certain");
  }
  const std::string option = has_option && !options.empty() ? *options.begin() : "";
  if (option.find_first_of("$`") != std::string::npos) {
    return leave_out("the value of --nproc-per-node=" + option +
                     " in the script is known only when it runs");
  }
  set_torchrun_processes(pod, option);
  if (option.empty() || !pod.draft.spec.contains("processesPerWorker")) return;
  const json& carried = pod.draft.spec["processesPerWorker"];
  pod.draft.change(field, "the script's torchrun has --nproc-per-node=" + option,
                   "processesPerWorker is " +
                       (carried.is_string() ? carried.get<std::string>() : carried.dump()));
}

void say_script(Pod& pod) {
  pod.draft.leave_out(
      pod.path + ".command",
      "a script in it starts torchrun, which would form a gang of its own in each pod",
      "write `python3 SCRIPT` where it says `torchrun OPTIONS SCRIPT`: the launcher starts the "
      "processes and sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}

void take_out_torchrun(Pod& pod, const Torchrun& torchrun) {
  const std::string field = pod.path + ".command";
  if (!torchrun.unknown.empty()) {
    return pod.draft.leave_out(field,
                               "torchrun's option " + torchrun.unknown + " is not known here",
                               "take torchrun out of the command: the launcher is in its place");
  }
  std::string options;
  for (const std::string& option : torchrun.options) options += " " + option;
  pod.container["command"] = torchrun.command;
  pod.container.erase("args");
  pod.draft.change(
      field,
      "the launcher is in the place of torchrun" + (options.empty() ? "" : " and its" + options),
      "the command starts the program itself");
  if (torchrun.gives_local_rank) {
    pod.draft.leave_out(field, "torch.distributed.launch gave the program --local-rank",
                        "read LOCAL_RANK from the environment");
  }
  set_torchrun_processes(pod, torchrun.processes);
}

void fit_command(Pod& pod) {
  std::vector<std::string> words = words_of(pod.container, "command");
  if (words.empty()) {
    return pod.draft.fail(
        pod.path + ".command",
        "is not set, and the launcher, which starts it, cannot see the image's entry point: write "
        "the command into the manifest and convert it again");
  }
  const std::vector<std::string> arguments = words_of(pod.container, "args");
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (const auto torchrun = take_apart(words)) return take_out_torchrun(pod, *torchrun);
  if (std::ranges::any_of(words, mentions_torchrun)) {
    say_script(pod);
    return carry_script_processes(pod, words);
  }
  // Where nobody starts more, the command is one process of the gang, however many GPUs it uses.
  pod.draft.spec["processesPerWorker"] = 1;
  const json& processes = pod.rules.processes;
  if (processes.is_null() || processes == 1 || processes == "1") return;
  pod.draft.change(pod.rules.processes_field, "the command starts one process and no torchrun",
                   "processesPerWorker is 1; raise it if the launcher is to start more");
}

// What the command and the environment expect of the other operator.
void say_expectations(Pod& pod) {
  std::set<std::string> own;
  const json env = pod.container.value("env", json::array());
  for (const json& variable : env) own.insert(text_at(variable, "name"));
  std::set<std::string> unset, hosts;
  bool has_pet = false;
  const auto look = [&](std::string& text) {
    for (const char* name : kSetByLauncher) {
      if (!own.contains(name) && contains(text, "$(" + std::string(name) + ")")) unset.insert(name);
    }
    has_pet |= contains(text, "PET_");
    for (const std::string& prefix : pod.rules.host_prefixes) {
      if (contains(text, prefix)) hosts.insert(prefix);
    }
  };
  for (const char* key : {"command", "args", "env"}) {
    if (pod.container.contains(key)) each_text(pod.container[key], look);
  }
  for (const std::string& name : unset) {
    pod.draft.leave_out(pod.path, "$(" + name + ") is filled in before the launcher knows it",
                        "read " + name + " in the program, or write ${" + name + "} in a shell");
  }
  if (has_pet) {
    pod.draft.leave_out(pod.path, "variables that begin with PET_ are not set",
                        "use RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  }
  for (const std::string& prefix : hosts) {
    pod.draft.leave_out(pod.path, "host names like " + prefix + "0 do not exist",
                        "use MASTER_ADDR, which the launcher sets");
  }
}

// Indices that a batch Job gives its pods become the worker's slot; other labels of other operators
// are not there.
void fit_references(Pod& pod) {
  bool needs_index = false, has_index = false;
  each_text(pod.container,
            [&](std::string& text) { needs_index |= contains(text, kCompletionIndex); });
  for (json& variable : pod.container["env"]) {
    has_index |= text_at(variable, "name") == kCompletionIndex;
    const json::json_pointer field{"/valueFrom/fieldRef/fieldPath"};
    if (!variable.is_object() || !variable.contains(field) || !variable[field].is_string())
      continue;
    const std::string path = variable[field].get<std::string>();
    if (contains(path, kCompletionIndexLabel)) {
      variable = {{"name", text_at(variable, "name")}, {"value", kSlot}};
      pod.draft.change(pod.path + ".env", path + " is a batch Job's",
                       "it is the worker's slot, PAWL_SLOT");
    } else if (std::ranges::any_of(kForeignLabels,
                                   [&](const char* label) { return contains(path, label); })) {
      pod.draft.leave_out(pod.path + ".env", "the pods have no " + path,
                          "use PAWL_SLOT, PAWL_JOB_NAME or RANK");
    }
  }
  if (needs_index && !has_index) {
    pod.container["env"].push_back({{"name", kCompletionIndex}, {"value", kSlot}});
    pod.draft.change(pod.path, std::string(kCompletionIndex) + " is a batch Job's",
                     "it is set to the worker's slot");
  }
  if (pod.container["env"].empty()) pod.container.erase("env");
}

void name_container(Pod& pod, const json& containers) {
  const std::string before = text_at(pod.container, "name");
  const bool is_taken = std::ranges::any_of(
      containers, [](const json& container) { return text_at(container, "name") == kWorker; });
  if (is_taken) return;
  pod.container["name"] = kWorker;
  rename_references(pod.spec, before);
}

}  // namespace

void carry_template(Draft& draft, const json& pod_template, const std::string& path,
                    const PodRules& rules) {
  json copy = pod_template;
  const bool has_containers = copy.is_object() && copy.contains("spec") &&
                              copy["spec"].is_object() && copy["spec"].contains("containers") &&
                              copy["spec"]["containers"].is_array() &&
                              !copy["spec"]["containers"].empty();
  if (!has_containers) return draft.fail(path + ".spec.containers", "must have a container");
  json& spec = copy["spec"];
  const json containers = spec["containers"];
  const std::size_t index = worker_index(containers, rules.container);
  if (!containers[index].is_object())
    return draft.fail(path + ".spec.containers", "must be objects");
  spec.erase("restartPolicy");  // what it meant is for the caller to say
  if (copy.contains("metadata") && copy["metadata"].is_object())
    copy["metadata"].erase("creationTimestamp");
  if (copy.contains("metadata") && copy["metadata"].empty()) copy.erase("metadata");
  const bool has_template = rules.worker_path.empty();
  if (has_template) draft.template_path = path;
  Pod pod{
      draft, rules, spec, spec["containers"][index],
      has_template ? path + ".spec.containers[" + std::to_string(index) + "]" : rules.worker_path};
  if (pod.container.contains("env") && !pod.container["env"].is_array()) {
    return draft.fail(pod.path + ".env", "must be a list");
  }
  name_container(pod, containers);
  fit_command(pod);
  fit_references(pod);
  say_expectations(pod);
  draft.spec["runtime"]["kind"] = rules.is_torch ? "Torch" : "Custom";
  draft.spec["template"] = std::move(copy);
}

}  // namespace pawl::cli::convert
