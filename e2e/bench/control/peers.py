"""How the peers' controllers are brought up: their own definitions and webhooks, configured as their releases do, with
three differences: no leader election, our certificates, and a client rate that is not the limit."""

import contextlib
import json
import pathlib
import shutil

from . import webhooks
from .plane import NAMESPACE, Authority, Plane, free_port, poll, tool

# Two of them read their certificates from this path, and nothing changes that.
FIXED_CERTIFICATES = pathlib.Path("/tmp/k8s-webhook-server/serving-certs")
# Kueue those of its metrics from this one, which only root can make.
KUEUE_METRICS_CERTIFICATES = pathlib.Path("/etc/kueue/metrics/certs")
SELECT_JOBSET_PODS = """  objectSelector:
    matchExpressions:
    - {key: jobset.sigs.k8s.io/jobset-name, operator: Exists}
"""


def _ready(plane: Plane, name, ports):
    daemon = plane.daemons[name]

    def listens():
        if not daemon.pid:
            raise RuntimeError(f"{name} ended:\n{daemon.log_tail()}")
        return all(daemon.is_listening(port) for port in ports)

    poll(listens, f"{name}", 90, 0.1)


def _apply_text(plane: Plane, name, text):
    file = plane.state / f"{name}.yaml"
    file.write_text(text)
    plane.apply(file)


def _namespace(plane: Plane, name):
    plane.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def start_jobset(plane: Plane):
    """Its own overlay calls the pod webhooks for pods of JobSets only; so do we."""
    binary = tool("jobset")
    port, metrics, health = free_port(), free_port(), free_port()
    certificates = webhooks.serving_certificate(plane.control.authority, plane.state / "jobset-certs", "jobset-serving")
    config = plane.state / "jobset.config.yaml"
    config.write_text(f"""apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
webhook: {{port: {port}, certDir: {certificates}}}
metrics: {{bindAddress: "127.0.0.1:{metrics}", certDir: {certificates}}}
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
clientConnection: {{qps: 1000, burst: 1000}}
""")
    plane.apply(binary.parent / "bases")
    plane.wait_established("jobsets.jobset.x-k8s.io")
    plane.start("jobset", [binary, "--config", config, "--zap-devel=false", "--zap-log-level=error"],
                {"KUBECONFIG": str(plane.identity("jobset"))})
    _ready(plane, "jobset", [port])
    text = webhooks.by_url(plane.control.authority, (binary.parent / "manifests.yaml").read_text(), port)
    for name in ("mpod.kb.io", "vpod.kb.io"):
        text = text.replace(f"  name: {name}\n", f"  name: {name}\n{SELECT_JOBSET_PODS}")
    _apply_text(plane, "jobset-webhooks", text.replace("name: mutating-webhook-configuration", "name: jobset-mutating")
                .replace("name: validating-webhook-configuration", "name: jobset-validating"))


def start_trainer(plane: Plane):
    binary = tool("trainer")
    port, metrics, health = free_port(), free_port(), free_port()
    temporary = plane.state / "trainer-tmp"
    webhooks.serving_certificate(plane.control.authority, temporary / "k8s-webhook-server" / "serving-certs", "trainer-serving")
    config = plane.state / "trainer.config.yaml"
    config.write_text(f"""apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
certManagement: {{enable: false}}
webhook: {{port: {port}}}
metrics: {{bindAddress: "127.0.0.1:{metrics}", secureServing: true}}
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
controller:
  groupKindConcurrency: {{TrainJob.trainer.kubeflow.org: 5, TrainingRuntime.trainer.kubeflow.org: 1, ClusterTrainingRuntime.trainer.kubeflow.org: 1}}
clientConnection: {{qps: 1000, burst: 1000}}
""")
    folder = binary.parent
    (folder / "crds" / "kustomization.yaml").unlink(missing_ok=True)
    plane.apply(folder / "crds")
    plane.wait_established("trainjobs.trainer.kubeflow.org", "clustertrainingruntimes.trainer.kubeflow.org")
    plane.start("trainer", [binary, "--config", config, "--zap-log-level=error"],
                {"KUBECONFIG": str(plane.identity("trainer")), "TMPDIR": str(temporary)})
    _ready(plane, "trainer", [port])
    text = webhooks.by_url(plane.control.authority, (folder / "manifests.yaml").read_text(), port)
    _apply_text(plane, "trainer-webhooks", text.replace("name: mutating-webhook-configuration", "name: trainer-mutating")
                .replace("name: validating-webhook-configuration", "name: trainer-validating"))
    poll(lambda: applies(plane, folder / "torch_distributed.yaml"), "the runtime of Trainer", 60, 0.5)


def applies(plane, file):
    """A webhook answers some moments after its port listens."""
    try:
        plane.apply(file)
        return True
    except RuntimeError:
        return False


def _takes_pytorch_jobs(plane: Plane):
    worker = {"replicas": 1, "restartPolicy": "Never",
              "template": {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "dry"},
           "spec": {"pytorchReplicaSpecs": {"Master": worker}}}
    try:
        plane.kubectl("create", "--dry-run=server", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(job))
        return True
    except RuntimeError:
        return False


def start_training_operator(plane: Plane):
    """It writes its CA into its webhook configuration by itself, from a Secret."""
    binary = tool("training-operator")
    port, metrics, health = free_port(), free_port(), free_port()
    name = "validator.training-operator.kubeflow.org"
    # It makes certificates of its own, without an address, unless the CA has this name too.
    authority = Authority(plane.state / "training-operator-ca")
    authority.create(["training-operator-ca"])
    certificates = webhooks.serving_certificate(authority, FIXED_CERTIFICATES, "training-operator-serving",
                                                ["training-operator.kubeflow.svc"])
    folder = binary.parent
    (folder / "crds" / "kustomization.yaml").unlink(missing_ok=True)
    plane.apply(folder / "crds")
    plane.wait_established("pytorchjobs.kubeflow.org")
    _namespace(plane, "kubeflow")
    files = [f"--from-file={key}={certificates / key}" for key in ("ca.crt", "ca.key", "tls.crt", "tls.key")]
    plane.kubectl("create", "secret", "generic", "training-operator-webhook-cert", "-n", "kubeflow", *files)
    text = webhooks.by_url(authority, (folder / "manifests.yaml").read_text(), port)
    _apply_text(plane, "training-operator-webhooks", text.replace("name: validating-webhook-configuration",
                                                                  f"name: {name}"))
    try:
        plane.start("training-operator", [binary, "--enable-scheme=pytorchjob", f"--webhook-server-port={port}",
                                          f"--metrics-bind-address=127.0.0.1:{metrics}", "--zap-log-level=error",
                                          f"--health-probe-bind-address=127.0.0.1:{health}"],
                    {"KUBECONFIG": str(plane.identity("training-operator"))})
        _ready(plane, "training-operator", [port])
        poll(lambda: _takes_pytorch_jobs(plane), "training-operator's webhook", 60, 1)
    finally:
        shutil.rmtree(FIXED_CERTIFICATES.parent, ignore_errors=True)


@contextlib.contextmanager
def kueue(plane: Plane):
    """With plain pods alone, in the benchmark's namespace. It watches the folder of its metrics' certificates all the time."""
    top = KUEUE_METRICS_CERTIFICATES.parents[1]
    if top.exists():
        raise RuntimeError(f"{top} is there already, left by a run that was killed, or of a Kueue of yours: remove it")
    try:
        webhooks.serving_certificate(plane.control.authority, KUEUE_METRICS_CERTIFICATES, "kueue-serving")
        _start_kueue(plane)
        yield
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _start_kueue(plane: Plane):
    binary = tool("kueue")
    port, metrics, health = free_port(), free_port(), free_port()
    certificates = webhooks.serving_certificate(plane.control.authority, plane.state / "kueue-certs", "kueue-serving")
    config = plane.state / "kueue.config.yaml"
    config.write_text(f"""apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
webhook: {{host: 127.0.0.1, port: {port}, certDir: {certificates}}}
metrics: {{bindAddress: "127.0.0.1:{metrics}"}}
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
clientConnection: {{qps: 1000, burst: 1000}}
managedJobsNamespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {NAMESPACE}}}}}
integrations: {{frameworks: [pod]}}
featureGates: {{VisibilityOnDemand: false}}
""")
    # Its definitions are stored in the version that is used here, so its conversion webhook has nothing to do.
    plane.apply(binary.parent / "bases")
    plane.wait_established("workloads.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io")
    _namespace(plane, "kueue-system")
    plane.start("kueue", [binary, "--config", config, "--zap-devel=false", "--zap-log-level=error"],
                {"KUBECONFIG": str(plane.identity("kueue"))})
    _ready(plane, "kueue", [port, health])
    text = webhooks.by_url(plane.control.authority, (binary.parent / "manifests.yaml").read_text(), port)
    _apply_text(plane, "kueue-webhooks", text.replace("name: mutating-webhook-configuration", "name: kueue-mutating")
                .replace("name: validating-webhook-configuration", "name: kueue-validating"))
