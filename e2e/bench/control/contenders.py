"""Who is measured: each brings up what it needs on a fresh control plane, and says what one job of it looks like."""

import pathlib
import subprocess
import urllib.request

from . import peers
from .plane import NAMESPACE, ROOT, Plane, free_port, poll
from .plane import tool

CONTAINER = {"name": "worker", "image": "localhost/worker", "command": ["/bin/worker"],
             "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
OPERATOR = ROOT / "build" / "release" / "bin" / "pawl-operator"


class Contender:
    """`controllers` names the daemons whose processor time and memory are its own."""
    name = ""
    controllers = ()
    version = ""
    is_peer = False  # what does not come up of a peer's leaves its figures out; of ours it ends the run

    def prepare(self, plane: Plane, workers: int) -> None:
        pass

    def submit(self, plane: Plane, jobs: int, workers: int) -> None:
        plane.post(self.path, self.job(workers), count=jobs)


class Bare(Contender):
    """A client that knows all pods beforehand and does nothing but create them, 32 requests at a time."""
    name = "bare"

    def submit(self, plane, jobs, workers):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job-$JOB-$WORKER", "labels": {"job": "job-$JOB"}},
               "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
        plane.post(f"/api/v1/namespaces/{NAMESPACE}/pods", pod, count=jobs * workers, per=workers)


class BareSame(Contender):
    """The bare client with pods like Pawl's own: identity, launcher, probes and token are in them, and who makes them
    costs nothing. What is between this and Pawl is the operator."""
    name = "bare_same"

    def prepare(self, plane, workers):
        pawl = self.maker()
        install_pawl(plane, pawl.values)
        pawl.start(plane)
        pawl.submit(plane, 1, 1)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        poll(lambda: plane.control.api.get(path)["items"], "a pod of Pawl's", 60)
        self.pod = plane.control.api.get(path)["items"][0]
        plane.post(f"{Pawl.path}/job-0", {"propagationPolicy": "Background"}, method="DELETE")
        poll(lambda: not plane.control.api.get(path)["items"], "no pod of Pawl's", 60)
        plane.daemons["pawl-operator"].kill()

    def maker(self):
        return Pawl()

    def body(self):
        spec = {**self.pod["spec"], "serviceAccountName": "default", "serviceAccount": "default"}
        spec.pop("nodeName", None)
        kept = ("labels", "annotations")
        meta = {"name": "job-$JOB-$WORKER", **{key: self.pod["metadata"][key] for key in kept}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def submit(self, plane, jobs, workers):
        plane.post(f"/api/v1/namespaces/{NAMESPACE}/pods", self.body(), count=jobs * workers, per=workers)


class BatchJob(Contender):
    name = "job"
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"

    def job(self, workers):
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job-$I"},
                "spec": {"parallelism": workers, "completions": workers, "completionMode": "Indexed", "backoffLimit": 0,
                         "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}}


class JobSet(Contender):
    name = "jobset"
    controllers = ("jobset",)
    version = "0.12.0"
    is_peer = True
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"

    def prepare(self, plane, workers):
        peers.start_jobset(plane)

    def job(self, workers):
        template = {"spec": {"parallelism": workers, "completions": workers, "completionMode": "Indexed",
                             "backoffLimit": 0,
                             "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}}
        return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "job-$I"},
                "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": template}]}}


class Trainer(Contender):
    """TrainJob → JobSet → Job → pods, so JobSet's controller runs too."""
    name = "trainer"
    controllers = ("trainer", "jobset")
    version = "2.3.0"
    is_peer = True
    path = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainjobs"

    def prepare(self, plane, workers):
        peers.start_jobset(plane)
        peers.start_trainer(plane)

    def job(self, workers):
        return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "job-$I"},
                "spec": {"runtimeRef": {"name": "torch-distributed"},
                         "trainer": {"numNodes": workers, "image": CONTAINER["image"], "command": CONTAINER["command"],
                                     "resourcesPerNode": CONTAINER["resources"]}}}


class TrainingOperator(Contender):
    name = "training_operator"
    controllers = ("training-operator",)
    version = "1.9.0"
    is_peer = True
    path = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/pytorchjobs"

    def prepare(self, plane, workers):
        peers.start_training_operator(plane)

    def job(self, workers):
        template = {"spec": {"containers": [{**CONTAINER, "name": "pytorch"}]}}
        return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "job-$I"},
                "spec": {"pytorchReplicaSpecs": {
                    "Master": {"replicas": 1, "restartPolicy": "Never", "template": template},
                    "Worker": {"replicas": workers - 1, "restartPolicy": "Never", "template": template}}}}


class Pawl(Contender):
    """The release build, out of cluster, as the service account of the chart, with its rights and policies."""
    name = "pawl"
    controllers = ("pawl-operator",)
    version = "0.1.0"
    path = f"/apis/pawl.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs"

    values = ()  # of the chart
    container = CONTAINER

    def __init__(self, extra=()):
        self.extra = list(extra)

    def prepare(self, plane, workers):
        install_pawl(plane, self.values)
        self.start(plane)

    def start(self, plane):
        """Starts (again) and returns when its caches are filled."""
        port = free_port()
        daemon = plane.start("pawl-operator", [OPERATOR, "--kubeconfig", operator_identity(plane), "--health-address",
                                               f"127.0.0.1:{port}", "--launcher-image", "localhost/launcher",
                                               "--worker-image", "localhost/worker", "--signals",
                                               ROOT / "charts" / "pawl" / "signals.json",
                                               "--metadata", "http://169.254.169.254", *self.extra])
        poll(lambda: is_ready(port, daemon), "a ready operator", 60, 0.05)
        return port

    def job(self, workers, annotations=None, **spec):
        template = {"spec": {"containers": [self.container]}}
        if annotations:
            template["metadata"] = {"annotations": annotations}
        return {"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "job-$I"},
                "spec": {"replicas": workers, "runtime": {"kind": "Custom"}, "template": template, **spec}}


def operator_identity(plane):
    return plane.identity("pawl-operator", "system:serviceaccounts", "system:serviceaccount:pawl-system:pawl-operator")


def is_ready(port, daemon):
    if not daemon.pid:
        raise RuntimeError(f"pawl-operator ended:\n{daemon.log_tail()}")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
            return True
    except OSError:  # it does not listen yet, or answers 503
        return False


def install_pawl(plane, values=()):
    """Everything of the chart but the Deployment: definitions, rights, admission policies."""
    templates = [f"templates/{file.name}" for file in sorted((ROOT / "charts" / "pawl" / "templates").glob("*.yaml"))
                 if file.name != "operator.yaml"]
    command = [tool("helm"), "template", "pawl", ROOT / "charts" / "pawl", "--namespace", "pawl-system"]
    for key in ("operator", "launcher", "worker"):
        command += ["--set", f"image.{key}=localhost/{key}"]
    for value in values:
        command += ["--set", value]
    for template in templates:
        command += ["-s", template]
    rendered = subprocess.run(list(map(str, command)), text=True, capture_output=True, check=True).stdout
    manifest = pathlib.Path(plane.state / "pawl.yaml")
    manifest.write_text(rendered)
    plane.apply(ROOT / "crds")
    plane.wait_established("trainingjobs.pawl.dev", "trainingqueues.pawl.dev", "workergroups.pawl.dev")
    plane.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pawl-system"}})
    plane.apply(manifest)


ALL = {contender.name: contender for contender in (Bare, BareSame, BatchJob, JobSet, Trainer, TrainingOperator, Pawl)}
