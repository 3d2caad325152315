"""Unmodified programs in images that share no library with ours run under the injected launcher."""

from lib import jobs
from lib.kube import Job, kubectl, until


def run_mesh(namespace, name, image, command):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.foreign(name, image, command)))
    job = Job(name, namespace)
    job.wait_for("Complete", timeout=120)
    outputs = [kubectl("logs", pod["metadata"]["name"], "-n", namespace) for pod in job.pods()]
    assert len(outputs) == 2 and all("sum" in output for output in outputs), outputs


def test_scratch_image(namespace):
    run_mesh(namespace, "mesh-scratch", "localhost/pawl-foreign-scratch:e2e", ["/mesh"])


def test_musl_image_goes_on_without_a_pod(namespace):
    """The first programs only wait; with the pod that takes another's place all are started again, in their pods."""
    script = "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then exec /bin/busybox sleep 1000; fi; exec /mesh"
    manifest = jobs.foreign("mesh-musl", "localhost/pawl-foreign-musl:e2e", ["/bin/busybox", "sh", "-c", script],
                            max_restarts=2)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
    job = Job("mesh-musl", namespace)
    until("the programs run", lambda: job.status().get("phase") == "Running", timeout=60)
    stays, goes = (pod["metadata"]["name"] for pod in job.pods())
    kubectl("delete", "pod", goes, "-n", namespace, "--wait=false")
    job.wait_for("Complete", timeout=120)
    status = job.status()
    assert status["attempt"] == 1 and status["restarts"].get("free", 0) == 0, status
    assert status["lastFailure"]["pod"] == goes, status
    names = [pod["metadata"]["name"] for pod in job.pods()]
    assert len(names) == 2 and stays in names and goes not in names, names
    outputs = [kubectl("logs", name, "-n", namespace) for name in names]
    assert all("sum" in output for output in outputs), outputs
