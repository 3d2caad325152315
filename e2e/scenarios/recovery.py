"""Losing a pod in mid-run costs the work since the last checkpoint and nothing else."""

from lib import install, jobs
from lib.kube import Job, kubectl, until


def test_deleted_pod_resumes_from_checkpoint(namespace):
    install.shared_volume(namespace)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt("gpt-recover", steps=2500)))
    job = Job("gpt-recover", namespace)
    saved = until("a checkpoint is published", job.checkpoint_step, timeout=90)
    victim = job.pods()[0]["metadata"]
    kubectl("delete", "pod", victim["name"], "-n", namespace, "--wait=false")
    until("a second attempt runs", lambda: job.status().get("attempt") == 2 and job.phase() == "Running", timeout=90)
    group = kubectl("get", "wg", "gpt-recover", "-n", namespace, "-o", "jsonpath={.status.startStep}")
    assert int(group) >= saved, f"attempt 2 starts at step {group}, but step {saved} was saved"
    job.wait_for("Complete", timeout=180)
    status = job.status()
    assert status["progress"]["step"] == 2500, status
    restarts = status["restarts"]
    assert restarts.get("counted", 0) == 0 and restarts["free"] == 1 and sum(restarts["byCause"].values()) == 1, restarts
    assert status["lastFailure"]["pod"] == victim["name"], status["lastFailure"]
