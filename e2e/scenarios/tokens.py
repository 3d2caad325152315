"""What the token in a worker pod may do: get and watch its own WorkerGroup, patch its status, nothing else."""

import json

from lib import install, jobs
from lib.kube import Job, cluster, kubectl, until


class PodToken:
    def __init__(self, namespace, pod):
        account = pod["spec"]["serviceAccountName"]
        self.namespace = namespace
        self.token = kubectl("create", "token", account, "-n", namespace, "--bound-object-kind=Pod",
                             f"--bound-object-name={pod['metadata']['name']}",
                             f"--bound-object-uid={pod['metadata']['uid']}").strip()

    def call(self, *arguments, stdin=None):
        # With a client certificate in the kubeconfig the server would not look at the token.
        return cluster("kubectl", "--as-token", self.token, "-n", self.namespace, *arguments, stdin=stdin, check=False)

    def must(self, *arguments):
        result = self.call(*arguments)
        assert result.returncode == 0, f"refused: {arguments}: {result.stderr}"

    def must_not(self, *arguments, stdin=None):
        result = self.call(*arguments, stdin=stdin)
        assert result.returncode != 0, f"accepted: {arguments}"
        assert "forbidden" in result.stderr.lower(), f"{arguments} was refused, but not by 403: {result.stderr}"


REFUSED = [
    ("list", "get workergroups"), ("other", "get wg token-b"), ("delete", "delete wg token-a --wait=false"),
    ("spec", "patch wg token-a --type=merge -p {\"spec\":{\"attempt\":99}}"),
    ("job", "get tj token-a"), ("jobs", "get tj"), ("job status", "patch tj token-a --subresource=status --type=merge -p {}"),
    ("job spec", "patch tj token-a --type=merge -p {\"spec\":{\"replicas\":9}}"),
    ("pods", "get pods"), ("secrets", "get secrets"), ("configmaps", "get configmaps"), ("events", "get events"),
    ("nodes", "get nodes"), ("namespaces", "get namespaces"), ("roles", "get roles"), ("leases", "get leases"),
    ("exec", "exec pod -- true"), ("accounts", "get serviceaccounts"), ("crds", "get crds"),
    ("token", "create token default"),
    ("other status", "patch wg token-b --subresource=status --type=merge -p {\"status\":{\"term\":9}}"),
]


def start_two(namespace):
    install.shared_volume(namespace)
    for name in ("token-a", "token-b"):
        kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt(name, steps=100000, replicas=1)))
    for name in ("token-a", "token-b"):
        until("the job runs", lambda name=name: Job(name, namespace).phase() == "Running", timeout=90)


def test_pod_token_is_refused_everything_else(namespace):
    start_two(namespace)
    job = Job("token-a", namespace)
    pod = job.pods()[0]
    token = PodToken(namespace, pod)
    token.must("get", "wg", "token-a")
    # kubectl's own --watch lists first, which is refused; the launcher watches by name alone.
    token.must("get", "--raw", f"/apis/pawl.dev/v1alpha1/namespaces/{namespace}/workergroups"
               "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dtoken-a")
    for claim, words in REFUSED:
        arguments = [pod["metadata"]["name"] if word == "pod" else word for word in words.split(" ")]
        print(f"       403: {claim}")
        token.must_not(*arguments)
    status = json.loads(kubectl("get", "wg", "token-a", "-n", namespace, "-o", "json"))["status"]
    assert status["generation"] >= 1, status


def test_token_of_a_pod_that_left_is_refused(namespace):
    """A pod that is not among the eligible pods cannot write, though its ServiceAccount is the right one."""
    start_two(namespace)
    account = Job("token-a", namespace).pods()[0]["spec"]["serviceAccountName"]
    stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": {
        "serviceAccountName": account,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "worker", "image": "localhost/absent:1", "securityContext": jobs.restricted_container()}]}}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(stranger))
    pod = json.loads(kubectl("get", "pod", "stranger", "-n", namespace, "-o", "json"))
    PodToken(namespace, pod).must_not("patch", "wg", "token-a", "--subresource=status", "--type=merge",
                                      "-p", '{"status":{"checkpointDone":5}}')
