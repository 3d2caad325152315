"""A deleted job leaves nothing but events."""

from lib import install, jobs
from lib.kube import Job, get, kubectl, until

KINDS = "pods,workergroups,serviceaccounts,roles,rolebindings,poddisruptionbudgets,trainingjobs"


def leftovers(namespace):
    return [f"{item['kind']}/{item['metadata']['name']}" for item in get(KINDS, namespace=namespace)["items"]
            if not (item["kind"] == "ServiceAccount" and item["metadata"]["name"] == "default")]


def start(namespace, name):
    install.shared_volume(namespace)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt(name, steps=100000)))
    job = Job(name, namespace)
    until("training moves", job.step, timeout=90)


def test_delete_leaves_nothing(namespace):
    start(namespace, "gpt-gone")
    kubectl("delete", "tj", "gpt-gone", "-n", namespace)
    until("nothing is left", lambda: not leftovers(namespace), timeout=60)


def test_orphaned_pods_are_removed(namespace):
    start(namespace, "gpt-orphan")
    kubectl("delete", "tj", "gpt-orphan", "-n", namespace, "--cascade=orphan")
    until("no pod is left", lambda: not get("pods", namespace=namespace)["items"], timeout=60)
