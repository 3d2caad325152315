"""A job trains to completion, and kubectl shows it."""

import json

from lib import install, jobs
from lib.kube import ROOT, Job, kubectl, until


def follow_to_completion(job, timeout):
    """Waits for Complete and returns the (step, loss) pairs that the columns showed on the way."""
    seen = []

    def look():
        progress = job.status().get("progress", {})
        pair = (progress.get("step", 0), progress.get("loss", ""))
        if pair[0] and (not seen or seen[-1] != pair):
            seen.append(pair)
        return job.phase() in ("Complete", "Failed")

    until("the job ends", look, timeout=timeout, every=0.5)
    job.wait_for("Complete", timeout=10)
    return seen


def check_columns(job):
    header, row = kubectl("get", "tj", job.name, "-n", job.namespace).strip().splitlines()
    assert header.split() == ["NAME", "PHASE", "READY", "STEP", "LOSS", "ETA", "RESTARTS", "AGE"], header
    assert row.split()[:2] == [job.name, "Complete"], row
    wide = kubectl("get", "tj", job.name, "-n", job.namespace, "-o", "wide").splitlines()[0]
    assert "REASON" in wide and "CKPT" in wide, wide


def test_trains_to_completion(namespace):
    folder = install.shared_volume(namespace)
    manifest = jobs.spread(jobs.tiny_gpt("gpt-tiny", steps=1500))
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
    job = Job("gpt-tiny", namespace)
    until("two workers on two nodes are ready", lambda: job.status().get("ready") == "2/2", timeout=60)
    assert len({pod["spec"]["nodeName"] for pod in job.pods()}) == 2, "both workers sit on one node"
    seen = follow_to_completion(job, timeout=180)
    assert len({step for step, _ in seen}) >= 2, f"the step did not move: {seen}"
    assert len({loss for _, loss in seen}) >= 2, f"the loss did not move: {seen}"
    check_columns(job)
    status = job.status()
    assert status["progress"]["step"] == 1500 and status["restarts"].get("counted", 0) == 0, status
    assert (folder / "checkpoints" / "gpt-tiny").is_dir() and status["checkpoint"]["step"] == 1500, status["checkpoint"]
    story = kubectl("describe", "tj", "gpt-tiny", "-n", namespace)
    for word in ("Running", "Complete"):
        assert word in story, f"describe does not tell of {word}:\n{story}"


def long_example_as_documented(namespace):
    install.shared_volume(namespace)
    kubectl("apply", "-n", namespace, "-f", str(ROOT / "examples" / "gpt-text.yaml"))
    job = Job("gpt-text", namespace)
    seen = follow_to_completion(job, timeout=900)
    assert len(seen) >= 3, seen
    print(json.dumps(job.status()["progress"]))
