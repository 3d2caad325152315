#include "crd_cases.h"

namespace pawl::conformance {

using nlohmann::json;

namespace {

json torch_job() {
  return parse_json(R"({"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob",
    "metadata": {"name": "rule", "namespace": "default"},
    "spec": {"replicas": 2, "runtime": {"kind": "Torch"}, "template": {"spec": {"containers": [
      {"name": "worker", "image": "busybox", "command": ["true"]}]}}}})");
}

json changed(json object, const char* pointer, const json& value) {
  object[json::json_pointer(pointer)] = value;
  return object;
}

json without(json object, const char* parent, const char* name) {
  object[json::json_pointer(parent)].erase(name);
  return object;
}

CrdCase create(const std::string& name, const json& object) {
  return {"create " + name, "trainingjobs", Write::kCreate, nullptr, object, true};
}

CrdCase update(const std::string& name, const json& before, const json& after) {
  return {"update " + name, "trainingjobs", Write::kPatch, before, after, true};
}

CrdCase update_status(const std::string& name, const json& before, const json& after) {
  return {"status " + name, "trainingjobs", Write::kPatchStatus, before, after, true};
}

std::vector<CrdCase> create_cases() {
  const json job = torch_job();
  const json native = changed(job, "/spec/runtime/kind", "Native");
  std::vector<CrdCase> cases;
  for (const char* name : {"a", "a-1", "1a", "-a", "a-", "a.b", "A", "a_b"}) {
    cases.push_back(create(std::string("name ") + name, changed(job, "/metadata/name", name)));
  }
  for (const std::size_t size : {46U, 47U, 200U}) {
    const std::string name(size, 'a');
    cases.push_back(
        create("name of " + std::to_string(size), changed(job, "/metadata/name", name)));
  }
  const char* container = "/spec/template/spec/containers/0";
  const std::string inside = std::string(container) + "/";
  cases.push_back(create("without template", without(job, "/spec", "template")));
  cases.push_back(create("Native without template", without(native, "/spec", "template")));
  cases.push_back(create("without command", without(job, container, "command")));
  cases.push_back(
      create("with an empty command", changed(job, (inside + "command").c_str(), json::array())));
  cases.push_back(create("Native without command", without(native, container, "command")));
  cases.push_back(create("without image", without(job, container, "image")));
  cases.push_back(create("with an empty image", changed(job, (inside + "image").c_str(), "")));
  cases.push_back(create("Native without image", without(native, container, "image")));
  const json sidecar = {{"name", "sidecar"}, {"image", "s"}};
  const json worker = job["spec"]["template"]["spec"]["containers"][0];
  const json main = changed(worker, "/name", "main");
  const char* containers = "/spec/template/spec/containers";
  cases.push_back(create("the worker second", changed(job, containers, {sidecar, worker})));
  cases.push_back(create("the first without command", changed(job, containers, {sidecar, main})));
  cases.push_back(create("the second without command", changed(job, containers, {main, sidecar})));
  cases.push_back(
      create("a reserved container", changed(job, (inside + "name").c_str(), "pawl-x")));
  cases.push_back(
      create("a reserved init container", changed(job, "/spec/template/spec/initContainers",
                                                  {{{"name", "pawl-inject"}, {"image", "i"}}})));
  cases.push_back(create("a reserved volume",
                         changed(job, "/spec/template/spec/volumes", {{{"name", "pawl-token"}}})));
  cases.push_back(
      create("a reserved variable",
             changed(job, (inside + "env").c_str(), {{{"name", "A"}}, {{"name", "PAWL_SLOT"}}})));
  cases.push_back(create("a variable that only looks reserved",
                         changed(job, (inside + "env").c_str(), {{{"name", "MY_PAWL_SLOT"}}})));
  for (const char* policy : {"Never", "Always", "OnFailure", ""}) {
    cases.push_back(create(std::string("restartPolicy ") + policy,
                           changed(job, "/spec/template/spec/restartPolicy", policy)));
  }
  cases.push_back(create("config of Torch", changed(job, "/spec/runtime/config", {{"a", 1}})));
  cases.push_back(create("config of Native", changed(native, "/spec/runtime/config", {{"a", 1}})));
  for (const char* kind : {"TensorFlow", "Torch", "Ray"}) {
    for (const int servers : {0, 1, 2}) {
      cases.push_back(
          create(std::string(kind) + " with parameter servers " + std::to_string(servers),
                 changed(changed(job, "/spec/replicas", 2), "/spec/runtime",
                         {{"kind", kind}, {"parameterServers", servers}})));
    }
  }
  for (const char* kind : {"Native", "Torch", "TensorFlow", "JAX", "MPI", "Ray", "Custom"}) {
    cases.push_back(create(std::string(kind) + " in place",
                           changed(job, "/spec/runtime", {{"kind", kind}, {"inPlace", true}})));
  }
  cases.push_back(
      create("in place with a parameter server",
             changed(changed(job, "/spec/replicas", 2), "/spec/runtime",
                     {{"kind", "TensorFlow"}, {"inPlace", true}, {"parameterServers", 1}})));
  for (const json& value :
       {json(0), json(1), json(64), json(65), json("auto"), json("8"), json(-1)}) {
    cases.push_back(create("processesPerWorker " + value.dump(),
                           changed(job, "/spec/processesPerWorker", value)));
  }
  for (const json& value :
       {json(0), json(1), json(86'400), json(86'401), json("auto"), json("1m")}) {
    cases.push_back(
        create("everySeconds " + value.dump(),
               changed(job, "/spec/checkpoint", {{"uri", "file:///c"}, {"everySeconds", value}})));
  }
  return cases;
}

std::vector<CrdCase> elastic_cases() {
  const json native = changed(torch_job(), "/spec/runtime/kind", "Native");
  const auto with = [](const json& job, const json& elastic) {
    return changed(job, "/spec/elastic", elastic);
  };
  const json whole = with(native, {{"minReplicas", 2}, {"maxReplicas", 2}});
  return {
      create("elastic", whole),
      create("elastic by default", with(native, json::object())),
      create("elastic, the least above replicas", with(native, {{"minReplicas", 3}})),
      create("elastic, the most below replicas", with(native, {{"maxReplicas", 1}})),
      create("elastic without replicas", without(whole, "/spec", "replicas")),
      create("elastic Torch", with(torch_job(), {{"minReplicas", 1}})),
      create("elastic Torch in place",
             with(changed(torch_job(), "/spec/runtime/inPlace", true), {{"minReplicas", 1}})),
      create("elastic, all recreated",
             changed(whole, "/spec/failurePolicy", {{"strategy", "RecreateAll"}})),
      create("elastic, in place", changed(whole, "/spec/failurePolicy", {{"strategy", "InPlace"}})),
      update("replicas above the most", whole, changed(whole, "/spec/replicas", 3)),
      update("replicas below the least", whole, changed(whole, "/spec/replicas", 1)),
      update("elastic there", native, whole),
      update("elastic away", whole, native),
  };
}

std::vector<CrdCase> capacity_cases() {
  const json job = changed(torch_job(), "/spec/replicas", 2);
  const auto with = [&](const json& capacity) { return changed(job, "/spec/capacity", capacity); };
  const json mixed = with({{"spot", "Prefer"}, {"onDemandMin", 2}});
  return {
      create("capacity", mixed),
      create("capacity, spot allowed", with({{"spot", "Allow"}})),
      create("capacity, never spot", with({{"spot", "Never"}})),
      create("capacity, never spot and an anchor", with({{"spot", "Never"}, {"onDemandMin", 1}})),
      create("capacity, never spot and none", with({{"spot", "Never"}, {"onDemandMin", 0}})),
      create("capacity, more anchors than workers", with({{"spot", "Allow"}, {"onDemandMin", 3}})),
      create("capacity without replicas", without(mixed, "/spec", "replicas")),
      update("replicas below the anchors", mixed, changed(mixed, "/spec/replicas", 1)),
      update("capacity there", job, mixed),
      update("capacity changes", mixed, with({{"spot", "Never"}})),
      update("capacity away", mixed, job),
  };
}

std::vector<CrdCase> scheduling_cases() {
  const json job = torch_job();
  const auto with = [&](const json& topology) {
    return changed(job, "/spec/scheduling", {{"topology", topology}});
  };
  const json block = {{"level", "block"}}, rack = {{"level", "rack"}, {"mode", "Preferred"}};
  const json both = with(json::array({block, rack}));
  const json spares = changed(job, "/spec/scheduling/spares", 2);
  const json native = changed(spares, "/spec/runtime/kind", "Native");
  const json slices = changed(changed(job, "/spec/replicas", 4), "/spec/scheduling/slices",
                              {{"size", 2}, {"level", "rack"}});
  return {
      create("scheduling", both),
      create("scheduling, nothing", changed(job, "/spec/scheduling", json::object())),
      create("scheduling, a class", changed(job, "/spec/scheduling", {{"priorityClassName", "a"}})),
      update("queue there", job, changed(job, "/spec/scheduling", {{"queueName", "a"}})),
      update(
          "queue there while suspended", changed(job, "/spec/suspend", true),
          changed(changed(job, "/spec/suspend", true), "/spec/scheduling", {{"queueName", "a"}})),
      update("scheduling there", job, both),
      update("scheduling away", both, job),
      create("spares", spares),
      create("spares, none", changed(job, "/spec/scheduling/spares", 0)),
      create("spares, all recreated",
             changed(spares, "/spec/failurePolicy", {{"strategy", "RecreateAll"}})),
      create("no spares, all recreated",
             changed(changed(spares, "/spec/failurePolicy", {{"strategy", "RecreateAll"}}),
                     "/spec/scheduling/spares", 0)),
      create("spares, in place", changed(spares, "/spec/failurePolicy", {{"strategy", "InPlace"}})),
      create("spares of as many as can be", changed(native, "/spec/replicas", 2046)),
      create("spares of more than can be", changed(native, "/spec/replicas", 2047)),
      create("slices", slices),
      create("slices of all", changed(slices, "/spec/scheduling/slices/size", 4)),
      create("slices that are not whole", changed(slices, "/spec/scheduling/slices/size", 3)),
      create("slices, elastic", changed(changed(slices, "/spec/runtime/kind", "Native"),
                                        "/spec/elastic", {{"minReplicas", 2}})),
      create("slices, spares", changed(slices, "/spec/scheduling/spares", 1)),
      create("slices, no spares", changed(slices, "/spec/scheduling/spares", 0)),
      create("slices, another number", changed(slices, "/spec/replicas", 5)),
      update("slices there", changed(job, "/spec/replicas", 4), slices),
      update("slices away", slices, changed(job, "/spec/replicas", 4)),
      update("spares there", job, spares),
      update("spares away", spares, job),
  };
}

json rule_of(const json& matchers) {
  json rule = {{"name", "r"}, {"action", "Restart"}};
  rule.update(matchers);
  return {{"rules", json::array({rule})}};
}

std::vector<CrdCase> policy_cases() {
  const json job = torch_job();
  const auto with = [&](const char* field, const json& value) {
    return changed(job, (std::string("/spec/") + field).c_str(), value);
  };
  const json codes = {{"onExitCodes", {{"values", {1}}}}};
  const json causes = {{"onCauses", {"OOM"}}};
  const json slow = {{"onCauses", {"OOM", "Straggler"}}};
  const json moved = {{"onCauses", {"Straggler"}}, {"action", "ReplaceNode"}};
  const json managed = with("managedBy", "example.com/a");
  const json rank0 = with("successPolicy", "Rank0");
  return {
      create("a rule without matcher", with("failurePolicy", rule_of(json::object()))),
      create("a rule for exit codes", with("failurePolicy", rule_of(codes))),
      create("a rule for causes", with("failurePolicy", rule_of(causes))),
      create("a rule that restarts for a slow worker", with("failurePolicy", rule_of(slow))),
      create("a rule that moves a slow worker", with("failurePolicy", rule_of(moved))),
      update("a rule's matcher away", with("failurePolicy", rule_of(codes)),
             with("failurePolicy", rule_of(json::object()))),
      update("rules", job, with("failurePolicy", rule_of(codes))),
      update("managedBy there", job, managed),
      update("managedBy away", managed, job),
      update("managedBy", managed, with("managedBy", "example.com/b")),
      update("managedBy stays", managed, changed(managed, "/spec/replicas", 3)),
      update("successPolicy", job, rank0),
      update("successPolicy away", rank0, job),
      update("successPolicy as its default", job, with("successPolicy", "AllRanks")),
      update("hostnames", job, with("hostnames", true)),
      update("hostnames as its default", job, with("hostnames", false)),
      update("hostnames away", with("hostnames", true), job),
      update("cleanPodPolicy", job, with("cleanPodPolicy", "All")),
      update("deadlines there", job, with("deadlines", {{"activeSeconds", 1}})),
  };
}

std::vector<CrdCase> update_cases() {
  const json job = torch_job();
  const auto suspend = [](const json& object, bool value) {
    return changed(object, "/spec/suspend", value);
  };
  const json image = changed(job, "/spec/template/spec/containers/0/image", "other");
  const json processes = changed(job, "/spec/processesPerWorker", 2);
  const json saved = changed(job, "/spec/checkpoint", {{"uri", "file:///a"}});
  const json native = changed(job, "/spec/runtime/kind", "Native");
  const auto servers = [&](int count) {
    json runtime = {{"kind", "TensorFlow"}};
    if (count > 0) runtime["parameterServers"] = count;
    return changed(changed(job, "/spec/replicas", 3), "/spec/runtime", runtime);
  };
  const json bare = without(native, "/spec", "template");
  std::vector<CrdCase> cases = {
      update("the image of a running job", job, image),
      update("the image and suspend", job, suspend(image, true)),
      update("the image of a suspended job", suspend(job, true), suspend(image, true)),
      update("the image and resume", suspend(job, true), suspend(image, false)),
      update("the template away", native, bare),
      update("a template there", bare, native),
      update("processesPerWorker", job, processes),
      update("processesPerWorker of a suspended job", suspend(job, true), suspend(processes, true)),
      update("processesPerWorker as its default", job,
             changed(job, "/spec/processesPerWorker", "auto")),
      update("parameterServers", servers(0), servers(1)),
      update("parameterServers of a suspended job", suspend(servers(0), true),
             suspend(servers(1), true)),
      update("parameterServers away", servers(1), servers(0)),
      update("replicas down to the parameter servers", servers(1),
             changed(servers(1), "/spec/replicas", 1)),
      update("in place", job, changed(job, "/spec/runtime/inPlace", true)),
      update("in place, as its default", job, changed(job, "/spec/runtime/inPlace", false)),
      update("in place away, of a suspended job",
             suspend(changed(job, "/spec/runtime/inPlace", true), true), suspend(job, true)),
      update("runtime.kind", job, native),
      update("runtime.kind of a suspended job", suspend(job, true), suspend(native, true)),
      update("the runtime away", job, without(job, "/spec", "runtime")),
      update("the checkpoint there", job, saved),
      update("the checkpoint away", saved, job),
      update("checkpoint.uri", saved, changed(saved, "/spec/checkpoint/uri", "file:///b")),
      update("checkpoint.keep", saved, changed(saved, "/spec/checkpoint/keep", 9)),
      update("replicas", job, changed(job, "/spec/replicas", 3)),
      update("replicas away", job, without(job, "/spec", "replicas")),
      update("maxRestarts", job, changed(job, "/spec/failurePolicy", {{"maxRestarts", 1}})),
      update("ttl", job, changed(job, "/spec/ttlSecondsAfterFinished", 1)),
  };
  const auto with_end = [](const json& object, const char* type, const char* status) {
    return changed(object, "/status", {{"conditions", {{{"type", type}, {"status", status}}}}});
  };
  for (const char* type : {"Complete", "Failed", "Running"}) {
    for (const char* status : {"True", "False"}) {
      const json ended = with_end(job, type, status);
      const std::string name = std::string(" of a job that is ") + type + "=" + status;
      cases.push_back(update("replicas" + name, ended, changed(ended, "/spec/replicas", 9)));
      cases.push_back(
          update("ttl" + name, ended, changed(ended, "/spec/ttlSecondsAfterFinished", 9)));
      cases.push_back(update_status("False" + name, ended, with_end(job, type, "False")));
      cases.push_back(update_status("nothing" + name, ended,
                                    changed(ended, "/status/conditions", json::array())));
    }
  }
  const json second = changed(job, "/status", {{"attempt", 2}});
  for (const int attempt : {0, 1, 2, 3}) {
    cases.push_back(update_status("attempt " + std::to_string(attempt), second,
                                  changed(second, "/status/attempt", attempt)));
  }
  return cases;
}

std::vector<CrdCase> group_cases() {
  const json full = changed(full_worker_group(), "/metadata/name", "rule");
  const auto row = [&](const std::string& name, Write write, const json& before,
                       const json& after) {
    return CrdCase{"group " + name, "workergroups", write, before, after, true};
  };
  std::vector<CrdCase> cases;
  for (const int attempt : {1, 2, 3}) {
    cases.push_back(row("spec.attempt " + std::to_string(attempt), Write::kPatch, full,
                        changed(full, "/spec/attempt", attempt)));
  }
  const json none = without(full, "", "status");
  for (const int value : {0, 1, 2, 3}) {
    const std::string number = std::to_string(value);
    for (const char* field : {"attempt", "term", "generation"}) {
      const std::string pointer = std::string("/status/") + field;
      cases.push_back(row(std::string(field) + " " + number, Write::kPatchStatus, full,
                          changed(full, pointer.c_str(), value)));
      cases.push_back(row(std::string("first ") + field + " " + number, Write::kPatchStatus, none,
                          changed(none, "/status", {{field, value}})));
    }
  }
  return cases;
}

std::vector<CrdCase> queue_cases() {
  const json full = changed(full_training_queue(), "/metadata/name", "rule");
  const auto create_queue = [](const std::string& name, const json& object) {
    return CrdCase{"queue " + name, "trainingqueues", Write::kCreate, nullptr, object, true};
  };
  std::vector<CrdCase> cases;
  for (const std::size_t size : {63U, 64U})
    cases.push_back(create_queue("name of " + std::to_string(size),
                                 changed(full, "/metadata/name", std::string(size, 'a'))));
  for (const char* field : {"nominal", "borrowingLimit", "lendingLimit"}) {
    const std::string pointer = std::string("/spec/quotas/0/") + field;
    for (const int value : {-1, 0})
      cases.push_back(create_queue(field, changed(full, pointer.c_str(), value)));
  }
  cases.push_back(create_queue("without anything", changed(full, "/spec", json::object())));
  return cases;
}

}  // namespace

std::vector<CrdCase> rule_cases() {
  std::vector<CrdCase> cases = create_cases();
  for (const auto& more : {elastic_cases(), capacity_cases(), scheduling_cases(), policy_cases(),
                           update_cases(), group_cases(), queue_cases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace pawl::conformance
