"""The operator may die at any moment: running pods do not notice, and it takes up its work in seconds."""

import subprocess
import time

from lib import install, jobs
from lib.kube import Job, kubectl, until


def operator_pids():
    found = subprocess.run(["pgrep", "-f", "/usr/bin/pawl-operator"], text=True, capture_output=True).stdout.split()
    return [int(pid) for pid in found]


def kill_operator():
    pids = until("the operator runs", operator_pids, timeout=60)
    subprocess.run(["kill", "-9", *map(str, pids)], check=False)


def fingerprint(job):
    return {(pod["metadata"]["name"], pod["metadata"]["uid"],
             pod["status"]["containerStatuses"][0]["restartCount"]) for pod in job.pods()}


def test_kill_while_running(namespace):
    install.shared_volume(namespace)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt("gpt-alone", steps=2500)))
    job = Job("gpt-alone", namespace)
    until("training moves", job.step, timeout=90)
    before = fingerprint(job)
    kill_operator()
    assert fingerprint(job) == before
    step = job.step()
    until("the operator reports progress again", lambda: job.step() > step, timeout=60)
    assert fingerprint(job) == before, "the pods did not survive the operator"
    job.wait_for("Complete", timeout=180)
    assert job.status()["attempt"] == 1 and job.status()["restarts"].get("free", 0) == 0, job.status()


def test_kill_while_starting(namespace):
    """Kills at different moments of the start: the job comes up once, with one set of children."""
    install.shared_volume(namespace)
    for index, delay in enumerate((0.0, 0.15, 0.4)):
        name = f"gpt-start-{index}"
        until("the operator runs", operator_pids, timeout=60)
        kubectl("wait", "deploy", "--all", "-n", "pawl-system", "--for=condition=Available", "--timeout=120s")
        kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt(name, steps=30)))
        time.sleep(delay)
        kill_operator()
        job = Job(name, namespace)
        job.wait_for("Complete", timeout=180)
        assert job.status()["attempt"] == 1, job.status()
        assert len(job.pods()) <= 2, "more pods than workers"
