"""A gang that trains, for scenarios in which something happens to it."""

import pathlib

from lib import install, jobs
from lib.kube import Job, get, kubectl, until


def start(name, namespace, steps, replicas=2, least=None, is_spread=False):
    """A tiny GPT on the shared volume, from its first checkpoint on. least: elastic down to so many."""
    install.shared_volume(namespace)
    manifest = jobs.tiny_gpt(name, steps=steps, replicas=replicas)
    if least:
        manifest["spec"]["elastic"] = {"minReplicas": least}
    if is_spread:
        jobs.spread(manifest)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
    job = Job(name, namespace)
    until("a checkpoint is published", job.checkpoint_step, timeout=90)
    return job


ENDLESS = 200_000  # steps; for scenarios that end with the gang at work


def goes_on(job, record):
    """The job's status, once it tells of a step that the generation of this record has made."""
    until("the gang makes new steps", lambda: job.step() > record["startStep"], timeout=60)
    return job.status()


def record_of(job):
    return get("workergroup", job.name, job.namespace)["status"]


def living_pods(job):
    return [pod for pod in job.pods() if "deletionTimestamp" not in pod["metadata"] and
            pod["status"].get("phase") in ("Pending", "Running")]


def pods_on(job, node):
    return [pod["metadata"]["name"] for pod in living_pods(job) if pod["spec"].get("nodeName") == node]


def reasons(namespace):
    return kubectl("get", "events", "-n", namespace, "-o", "jsonpath={.items[*].reason}")


def launcher_of(job, pod):
    """The PID of its launcher, on this machine, which plays the nodes."""
    uid = next(item["metadata"]["uid"] for item in job.pods() if item["metadata"]["name"] == pod)
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            is_launcher = b"pawl-launch" in (path / "cmdline").read_bytes()
            if is_launcher and f"PAWL_POD_UID={uid}".encode() in (path / "environ").read_bytes():
                return int(path.name)
        except OSError:
            continue
    raise AssertionError(f"no launcher of pod {pod} runs here")
