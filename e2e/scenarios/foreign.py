"""Unmodified programs in images that share no library with ours run under the injected launcher."""

from lib import jobs
from lib.kube import Job, kubectl


def run_mesh(namespace, name, image, command):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.foreign(name, image, command)))
    job = Job(name, namespace)
    job.wait_for("Complete", timeout=120)
    outputs = [kubectl("logs", pod["metadata"]["name"], "-n", namespace) for pod in job.pods()]
    assert len(outputs) == 2 and all("sum" in output for output in outputs), outputs


def test_scratch_image(namespace):
    run_mesh(namespace, "mesh-scratch", "localhost/pawl-foreign-scratch:e2e", ["/mesh"])


def test_musl_image(namespace):
    run_mesh(namespace, "mesh-musl", "localhost/pawl-foreign-musl:e2e", ["/mesh"])
