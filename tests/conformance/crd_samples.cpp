#include "crd_cases.h"

namespace pawl::conformance {

using nlohmann::json;

namespace {

constexpr char kTemplate[] = R"({
  "metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}, "creationTimestamp": null},
  "spec": {
    "serviceAccountName": "mine", "terminationGracePeriodSeconds": 60, "restartPolicy": "Never",
    "nodeSelector": {"zone": "a"}, "hostNetwork": false, "priorityClassName": "high", "schedulerName": "default-scheduler",
    "securityContext": {"runAsUser": 1000, "fsGroup": 2000, "supplementalGroups": [1], "runAsNonRoot": true,
                        "seccompProfile": {"type": "RuntimeDefault"}, "sysctls": [{"name": "a", "value": "b"}]},
    "imagePullSecrets": [{"name": "pull"}],
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                   "labelSelector": {"matchLabels": {"a": "b"}}}],
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["h"]}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]},
      "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}},
    "initContainers": [{"name": "prepare", "image": "i", "command": ["true"],
                        "env": [{"name": "A", "value": "b"}]}],
    "containers": [{
      "name": "worker", "image": "busybox", "imagePullPolicy": "Always", "command": ["sh"], "args": ["-c", "true"],
      "workingDir": "/", "tty": false,
      "env": [{"name": "A", "value": "b"},
              {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
              {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}}],
      "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "P_"}],
      "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
      "resources": {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1}, "requests": {"cpu": "500m"},
                    "claims": [{"name": "c"}]},
      "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}],
      "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": false, "runAsUser": 5},
      "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 2},
      "livenessProbe": {"exec": {"command": ["true"]}, "failureThreshold": 3},
      "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}
    }],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": false}},
                {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"name": "made", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}},
                   "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
                {"name": "mixed", "projected": {"defaultMode": 292, "sources": [
                   {"serviceAccountToken": {"path": "t", "audience": "a", "expirationSeconds": 600}},
                   {"configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 292}]}}]}}]
  }})";

json progress() {
  return parse_json(R"({"step": 1, "totalSteps": 10, "percent": 10, "etaSeconds": 9, "loss": "2.5",
    "samplesPerSecond": "1.5", "tokensPerSecond": "9", "epoch": 0,
    "validation": {"step": 1, "loss": "2.5", "accuracy": "0.5", "bestStep": 1, "bestLoss": "2.5"}, "time": "2026-11-21T10:04:05Z"})");
}

json checkpoint() {
  return parse_json(
      R"({"step": 1, "uri": "file:///c/step", "time": "2026-11-21T10:04:05+01:00", "sizeBytes": 7,
    "digest": "sha256:00", "count": 1})");
}

json failure() {
  return parse_json(
      R"({"rank": 1, "pod": "p", "podUid": "u", "node": "n", "exitCode": 1, "signal": 9,
    "cause": "Error", "message": "m", "logTail": "l", "attempt": 1, "time": "2026-11-21T10:04:05Z"})");
}

}  // namespace

json full_training_job() {
  json job = parse_json(R"({"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob",
    "metadata": {"name": "full", "namespace": "default"},
    "spec": {"suspend": true, "replicas": 3, "capacity": {"spot": "Prefer", "onDemandMin": 1},
      "scheduling": {"queueName": "q", "priorityClassName": "p", "startTimeoutSeconds": 60, "topology": [{"level": "block", "mode": "Required"},
                                                            {"level": "rack", "mode": "Preferred"}]},
      "processesPerWorker": 2, "failurePolicy": {"strategy": "RecreateAll", "maxRestarts": 4, "resetAfterSeconds": 60,
        "podTerminationTimeoutSeconds": 60, "rules": [
          {"name": "a", "action": "Fail", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}, "onCauses": ["OOM"]},
          {"name": "b", "action": "ReplaceNode", "onCauses": ["Hang"]}]},
      "managedBy": "example.com/other", "successPolicy": "Rank0", "hostnames": true, "cleanPodPolicy": "All",
      "deadlines": {"activeSeconds": 60, "startSeconds": 60, "progressSeconds": 60},
      "checkpoint": {"uri": "file:///data/c", "everySeconds": 30, "keep": 2},
      "runtime": {"kind": "Native", "config": {"steps": 10, "model": {"layers": 2}}},
      "ttlSecondsAfterFinished": 60},
    "status": {"observedGeneration": 1, "phase": "Running", "reason": "Training", "message": "3 of 3", "attempt": 1,
      "startTime": "2026-11-21T10:04:05Z", "completionTime": "2026-11-21T11:04:05.123456Z",
      "conditions": [{"type": "Running", "status": "True", "reason": "Training", "message": "m",
                      "observedGeneration": 1, "lastTransitionTime": "2026-11-21T10:04:05Z"}],
      "replicas": 3, "readyReplicas": 2, "ready": "2/3", "selector": "a=b",
      "attemptTime": "2026-11-21T10:04:05Z", "progressTime": "2026-11-21T10:04:05Z", "microBatch": 2,
      "placedBy": "Pawl", "placement": {"attempt": 1, "domain": "a/b", "level": "rack", "nodes": [{"name": "n", "workers": 3}],
                    "later": [{"slot": 1, "n": 1, "node": "m"}]},
      "excludedNodes": [{"name": "n", "cause": "Error", "time": "2026-11-21T10:04:05Z"}],
      "capacity": {"spot": "Avoided", "since": "2026-11-21T10:04:05Z", "until": "2026-11-21T10:09:05Z", "times": 1,
                   "lostSince": "2026-11-21T10:04:05Z", "lostPods": ["full-1-2-0"]},
      "restarts": {"counted": 1, "free": 2, "spent": 1, "byCause": {"Error": 1}},
      "recoveries": {"inPlace": 1, "resizes": 2, "byCause": {"Signal": 1}},
      "goodput": {"productiveSeconds": 8, "lostSeconds": 2, "percent": 80, "byCause": {"Error": 2}, "losing": "OOM",
                  "beforeSeconds": 1}}})");
  job["spec"]["template"] = parse_json(kTemplate);
  job["status"]["progress"] = progress();
  job["status"]["checkpoint"] = checkpoint();
  job["status"]["lastFailure"] = failure();
  return job;
}

json full_worker_group() {
  json group = parse_json(R"({"apiVersion": "pawl.dev/v1alpha1", "kind": "WorkerGroup",
    "metadata": {"name": "full", "namespace": "default"},
    "spec": {"attempt": 2, "minMembers": 1, "stabilizationSeconds": 5, "shortageSeconds": 5, "targetMembers": 2, "checkpointNow": 1, "stopping": false,
      "successPolicy": "Rank0", "reportSeconds": 10, "inPlace": true, "replacePods": true, "podGroup": "gpt-0123456-1", "podHash": "0123",
      "pods": [{"slot": 0, "name": "full-2-0-0", "uid": "u0", "n": 0, "order": 0, "rankOrder": 1},
               {"slot": 1, "name": "full-2-1-0", "n": 0, "order": 1}]},
    "status": {"attempt": 2, "term": 1, "generation": 1, "startStep": 0, "checkpointDone": 0,
      "checkpointFailures": {"count": 1, "message": "m", "time": "2026-11-21T10:04:05Z"}, "finished": false,
      "leader": {"uid": "u0", "start": "s", "address": "10.0.0.1:4", "fingerprint": "00"},
      "members": [{"uid": "u0", "start": "s", "address": "10.0.0.1:4", "rank": 0}],
      "base": {"generation": 1, "members": [{"uid": "u0", "start": "s"}]},
      "lineage": [{"attempt": 2, "generation": 1, "startStep": 0}]}})");
  group["status"]["progress"] = progress();
  group["status"]["checkpoint"] = checkpoint();
  group["status"]["failures"] = json::array({failure()});
  return group;
}

json full_training_queue() {
  return parse_json(R"({"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingQueue",
    "metadata": {"name": "full"},
    "spec": {"weight": 2, "order": "FIFO", "minRuntimeSeconds": 60,
      "preemption": {"withinQueue": "Never", "reclaim": "LowerPriority"}, "quotas": [
      {"resource": "nvidia.com/gpu", "nominal": 64, "borrowingLimit": 8, "lendingLimit": "16"},
      {"resource": "nvidia.com/gpu", "flavor": "h100", "nominal": 8}, {"resource": "cpu", "nominal": "1500m"}]},
    "status": {"observedGeneration": 1, "usage": "nvidia.com/gpu 8/64, cpu 0/1500m", "running": 1, "pending": 2, "sharePercent": 12,
      "quotas": [{"resource": "nvidia.com/gpu", "used": "8", "borrowed": "0"}, {"resource": "nvidia.com/gpu", "flavor": "h100", "used": "8"}]}})");
}

}  // namespace pawl::conformance
