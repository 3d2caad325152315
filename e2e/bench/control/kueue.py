"""Two jobs of low priority and one of high share a quota that holds one of them at a time. KWOK ends the pods as kubelets
do, so that a pod is gone only when Kueue has taken its finalizer off it. There are no launchers: Running and Complete
follow from the pods alone."""

import subprocess
import sys
import time

from . import peers
from .contenders import CONTAINER, OPERATOR, Pawl, install_pawl
from .plane import NAMESPACE, Plane, poll

JOBS = f"/apis/pawl.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WORKLOADS = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
PREFIX = "kueue.x-k8s.io/"
WORKERS = 2
RUNS = "bench.pawl.dev/runs"
QUEUES = f"""apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: any-node}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: one-job}}
spec:
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: any-node
      resources:
      - {{name: cpu, nominalQuota: 200m}}
      - {{name: memory, nominalQuota: 1Ti}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: research, namespace: {NAMESPACE}}}
spec: {{clusterQueue: one-job}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {{name: low}}
value: 100
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {{name: high}}
value: 1000
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


class Scene:
    """One control plane with Kueue and Pawl on it, and what an onlooker asks of it."""

    def __init__(self, plane, pawl):
        self.plane, self.pawl = plane, pawl
        self.begin = time.monotonic()
        self.steps = []

    def submit(self, name, priority, annotations=None, **spec):
        job = self.pawl.job(WORKERS, annotations, **spec)
        job["metadata"] = {"name": name, "labels": {PREFIX + "queue-name": "research", PREFIX + "priority-class": priority}}
        self.plane.post(JOBS, job)

    def job(self, name):
        return self.plane.control.api.get(f"{JOBS}/{name}")

    def status(self, name):
        return self.job(name).get("status", {})

    def restarts(self, name):
        return self.status(name).get("restarts", {})

    def pods(self, name, attempt=0):
        selector = f"pawl.dev/job={name}" + (f",pawl.dev/attempt={attempt}" if attempt else "")
        return self.plane.control.api.get(f"{PODS}?labelSelector={selector.replace('=', '%3D').replace(',', '%2C')}")["items"]

    def workloads(self):
        return {item["metadata"]["name"]: item for item in self.plane.control.api.get(WORKLOADS)["items"]}

    def suspend(self, name, is_suspended):
        patch = '{"spec": {"suspend": %s}}' % str(is_suspended).lower()
        self.plane.kubectl("patch", "trainingjob", name, "-n", NAMESPACE, "--type=merge", "-p", patch)

    def finish(self, name):
        """Its present pods end well some seconds from now."""
        self.plane.kubectl("annotate", "pods", "-n", NAMESPACE, "-l", f"pawl.dev/job={name}", f"{RUNS}=shortly")

    def delete(self, *names):
        for name in names:
            self.plane.kubectl("delete", "trainingjob", name, "-n", NAMESPACE, "--wait=false")

    def why(self, name):
        command = [OPERATOR.parent / "pawl", "why", name, "-n", NAMESPACE, "--kubeconfig", self.plane.kubeconfig]
        return subprocess.run(list(map(str, command)), text=True, capture_output=True, check=True).stdout.strip()

    def until(self, what, condition, timeout=120):
        """Waits, and says when it came."""
        start = time.monotonic()
        try:
            poll(condition, what, timeout, 0.2)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.picture()}") from None
        self.steps.append({"step": what, "seconds": round(time.monotonic() - start, 1)})
        say(f"{time.monotonic() - self.begin:6.1f} s  {what}")

    def is_running(self, name, attempt):
        status = self.status(name)
        return status.get("phase") == "Running" and status.get("attempt") == attempt

    def waits(self, name, attempt):
        """All pods of the attempt are there, and behind Kueue's gate."""
        pods = self.pods(name, attempt)
        return self.status(name).get("attempt") == attempt and len(pods) == WORKERS and all(map(is_gated, pods))

    def picture(self):
        """What there is, for a failure's message."""
        lines = []
        for job in self.plane.control.api.get(JOBS)["items"]:
            status = job.get("status", {})
            lines.append(f"job {job['metadata']['name']}: {status.get('phase')} attempt {status.get('attempt')} "
                         f"{status.get('restarts')}: {status.get('message')}")
        for pod in self.plane.control.api.get(PODS)["items"]:
            meta = pod["metadata"]
            lines.append(f"pod {meta['name']}: {pod['status'].get('phase')}{' gated' if is_gated(pod) else ''} "
                         f"deleted {meta.get('deletionTimestamp')} finalizers {meta.get('finalizers')}")
        for name, item in self.workloads().items():
            conditions = [f"{c['type']}={c['status']}/{c['reason']}" for c in item.get("status", {}).get("conditions", [])]
            lines.append(f"workload {name}: {' '.join(conditions)}")
        return "\n".join(lines)


def is_gated(pod):
    return any(gate["name"] == PREFIX + "admission" for gate in pod["spec"].get("schedulingGates", []))


def run():
    """Raises AssertionError when a claim does not hold; returns what was seen."""
    pawl = Pawl()
    with Plane(2, pods_end="kwok_ends.yaml") as plane, peers.kueue(plane):
        install_pawl(plane)
        file = plane.state / "queues.yaml"
        file.write_text(QUEUES)
        poll(lambda: peers.applies(plane, file), "queues", 60, 0.5)
        pawl.start(plane)
        scene = Scene(plane, pawl)
        seen = {}
        _admit(scene, seen)
        _preempt(scene, seen)
        _resume(scene, seen)
        _suspend(scene, seen)
        _restart(scene, seen)
        _tidy(scene, seen)
    return {"kueue": "0.19.0", "workers": WORKERS, **seen, "steps": scene.steps}


def _admit(scene, seen):
    scene.submit("first", "low")
    scene.until("first is admitted and runs", lambda: scene.is_running("first", 1))
    scene.submit("second", "low")
    scene.until("second waits behind Kueue's gate", lambda: scene.waits("second", 1))
    time.sleep(5)
    assert scene.waits("second", 1), scene.picture()
    status = scene.status("second")
    _costs_nothing(scene, "second", 0)
    seen["waiting_message"], seen["waiting_why"] = status["message"], scene.why("second")
    say(f"          message: {status['message']}")
    say(f"          pawl why: {seen['waiting_why']}")


def _preempt(scene, seen):
    scene.submit("high", "high", {RUNS: "shortly"})
    scene.until("first is preempted, and waits in attempt 2", lambda: scene.waits("first", 2))
    _costs_nothing(scene, "first", 1)
    failure = scene.status("first")["lastFailure"]
    seen["preempted"] = {"cause": failure["cause"], "message": failure.get("message", ""),
                         "restarts": scene.restarts("first")}
    say(f"          lastFailure: {failure['cause']}: {failure.get('message', '')}; restarts {scene.restarts('first')}")
    scene.until("high runs", lambda: scene.status("high").get("phase") in ("Running", "Complete"))
    scene.until("high is complete", lambda: scene.status("high").get("phase") == "Complete")


def _resume(scene, seen):
    """By age: the workload of the preempted job's new attempt is younger than that of the job that waited."""
    scene.until("second, which waits longest, runs", lambda: scene.is_running("second", 1))
    assert scene.waits("first", 2), scene.picture()


def _suspend(scene, seen):
    scene.suspend("second", True)
    scene.until("second is suspended", lambda: scene.status("second").get("phase") == "Suspended")
    scene.until("first has its quota and runs again", lambda: scene.is_running("first", 2))
    scene.suspend("second", False)
    scene.until("second is resumed and waits", lambda: scene.waits("second", 2))
    scene.suspend("second", True)
    scene.until("second is suspended while it waits", lambda: scene.status("second").get("phase") == "Suspended")
    scene.until("nothing of second is left in the queue", lambda: not scene.pods("second"))
    scene.suspend("second", False)
    scene.until("second is resumed and waits again", lambda: scene.waits("second", 3))
    scene.finish("first")
    scene.until("first is complete", lambda: scene.status("first").get("phase") == "Complete")
    scene.until("second has its quota again and runs", lambda: scene.is_running("second", 3))
    _costs_nothing(scene, "first", 1)
    _costs_nothing(scene, "second", 0)


def _restart(scene, seen):
    """A worker of a job that holds the quota fails: the next attempt is another group, and gets it again."""
    victim = scene.pods("second", 3)[0]["metadata"]["name"]
    failed = {"phase": "Failed", "containerStatuses": [{"name": CONTAINER["name"], "image": CONTAINER["image"], "imageID": "",
              "ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}
    scene.plane.control.api.call("PATCH", f"{PODS}/{victim}/status", {"status": failed}, "application/merge-patch+json")
    scene.until("second has failed and runs in attempt 4", lambda: scene.is_running("second", 4))
    restarts = scene.restarts("second")
    assert restarts["counted"] == 1, restarts
    scene.finish("second")
    scene.until("second is complete", lambda: scene.status("second").get("phase") == "Complete")
    seen["failed"] = {"restarts": restarts}


def _tidy(scene, seen):
    """Jobs are deleted that have ended, that run, and that wait; one comes back under its name at once."""
    scene.submit("runs", "low")
    scene.until("runs has the quota", lambda: scene.is_running("runs", 1))
    scene.submit("waits", "low")
    scene.until("waits is behind the gate", lambda: scene.waits("waits", 1))
    held = [pod["metadata"]["name"] for name in ("first", "second", "high") for pod in scene.pods(name)
            if PREFIX + "managed" in pod["metadata"].get("finalizers", [])]
    assert not held, f"pods of jobs that have ended are held: {held}"
    scene.delete("runs", "waits")
    scene.submit("runs", "low")
    scene.until("runs is deleted, made again, and runs", lambda: scene.status("runs").get("phase") == "Running")
    scene.delete("first", "second", "high", "runs")
    scene.until("no pod is left", lambda: not scene.plane.control.api.get(PODS)["items"])
    scene.until("no workload is left", lambda: not scene.workloads())
    seen["left"] = {"pods": 0, "workloads": 0}


def _costs_nothing(scene, name, free):
    restarts = scene.restarts(name)
    counted = restarts.get("counted", 0)
    assert (counted, restarts.get("free", 0)) == (0, free), f"{name}: restarts {restarts}\n{scene.picture()}"
