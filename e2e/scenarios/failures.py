"""A worker that always fails ends the job after maxRestarts, and status says who failed and why."""

from lib import jobs
from lib.kube import Job, kubectl


def test_failing_worker_fails_the_job(namespace):
    manifest = jobs.foreign("always-fails", "localhost/pawl-foreign-musl:e2e",
                            ["/bin/busybox", "sh", "-c", "echo the disk is on fire >&2; exit 1"],
                            kind="Custom", max_restarts=2)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
    job = Job("always-fails", namespace)
    job.wait_for("Failed", timeout=180)
    status = job.status()
    failure = status["lastFailure"]
    assert status["restarts"]["counted"] == 2 and status["attempt"] == 3, status
    assert failure["exitCode"] == 1 and failure["rank"] in (0, 1), failure
    assert failure["pod"].startswith("always-fails-3-") and failure["node"].startswith("node-"), failure
    assert "the disk is on fire" in failure["logTail"], failure
    assert "exit code 1" in status["message"], status["message"]
    running = [pod for pod in job.pods() if pod["status"]["phase"] in ("Running", "Pending")]
    assert not running, "a failed job keeps pods"
