"""A gang that trains, for scenarios in which something happens to it."""

from lib import install, jobs
from lib.kube import Job, kubectl, until


def start(name, namespace, steps, replicas=2):
    """A tiny GPT on the shared volume, from its first checkpoint on."""
    install.shared_volume(namespace)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt(name, steps=steps, replicas=replicas)))
    job = Job(name, namespace)
    until("a checkpoint is published", job.checkpoint_step, timeout=90)
    return job
