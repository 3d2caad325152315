"""Suspend saves and frees the machines; resume goes on from there."""

from lib import install, jobs
from lib.kube import Job, kubectl, until


def test_suspend_and_resume(namespace):
    install.shared_volume(namespace)
    manifest = jobs.tiny_gpt("gpt-pause", steps=2500, checkpoint_seconds=600)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
    job = Job("gpt-pause", namespace)
    step = until("training moves", job.step, timeout=90)
    job.patch('{"spec":{"suspend":true}}')
    until("the job is suspended", lambda: job.phase() == "Suspended", timeout=60)
    until("no pod is left", lambda: not job.pods(), timeout=60)
    status = job.status()
    assert status["checkpoint"]["step"] >= step, f"suspended at {status['checkpoint']}, had reached {step}"
    assert status.get("readyReplicas", 0) == 0, status
    saved = status["checkpoint"]["step"]
    job.patch('{"spec":{"suspend":false}}')
    until("training goes on", lambda: job.step() > saved, timeout=90)
    start = kubectl("get", "wg", "gpt-pause", "-n", namespace, "-o", "jsonpath={.status.startStep}")
    assert int(start) == saved, f"resumed at {start}, saved at {saved}"
    job.wait_for("Complete", timeout=180)
    status = job.status()
    assert status["restarts"].get("counted", 0) == 0 and status["attempt"] == 2, status


def test_created_suspended_starts_nothing(namespace):
    install.shared_volume(namespace, with_text=False)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt("gpt-asleep", suspend=True)))
    job = Job("gpt-asleep", namespace)
    until("the job says Suspended", lambda: job.phase() == "Suspended", timeout=30)
    assert not job.pods()
