"""The operator may die at any moment: running pods do not notice, and it takes up its work in seconds."""

import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from lib import install, jobs, running
from lib.kube import CLUSTER, Job, get, kubectl, until

SYSTEM = "pawl-system"
ALONE = True


def operator_pids():
    found = subprocess.run(["pgrep", "-f", "/usr/bin/pawl-operator"], text=True, capture_output=True).stdout.split()
    return [int(pid) for pid in found]


def kill_operator():
    pids = until("the operator runs", operator_pids, timeout=60)
    subprocess.run(["kill", "-9", *map(str, pids)], check=False)


def lease():
    return get("lease", "pawl-operator", SYSTEM)["spec"]


def leader_pod():
    """The identity of a candidate is the name of its pod and a random word of its process."""
    return lease().get("holderIdentity", "").rpartition("_")[0]


def kill_leader():
    """kill -9; the name of the pod that led."""
    name = until("an operator leads", leader_pod, timeout=60)
    for pid in operator_pids():
        if pathlib.Path(f"/proc/{pid}/root/etc/hostname").read_text().strip() == name:
            subprocess.run(["kill", "-9", str(pid)], check=True)
            return name
    raise AssertionError(f"no process of {name}")


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class LeaseHistory:
    """Every state of the lease, as a watch shows it."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile("w+")
        self.watch = subprocess.Popen(
            [sys.executable, str(CLUSTER), "kubectl", "get", "lease", "pawl-operator", "-n", SYSTEM, "-o", "json",
             "--watch"], stdout=self.file)
        until("the watch shows the lease", self.states, timeout=20)
        return self

    def __exit__(self, *_):
        self.watch.terminate()
        self.watch.wait()
        self.file.close()

    def states(self):
        self.file.flush()
        self.file.seek(0)
        text, decoder, out = self.file.read().strip(), json.JSONDecoder(), []
        while text:
            try:
                value, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                break  # the last one is still being written
            out.append(value["spec"])
            text = text[end:].lstrip()
        return out

    def hand_overs(self):
        """(from, to, seconds between the last word of one leader and the first of the next, whether it was given)."""
        out, before = [], None
        for state in self.states():
            holder = state.get("holderIdentity", "")
            if before and holder and holder != before[0]:
                out.append((before[0], holder, seconds(state["acquireTime"]) - seconds(before[1]), before[2]))
            if holder:
                before = (holder, state["renewTime"], False)
            elif before:
                before = (before[0], state["renewTime"], True)
        return out


def fingerprint(job):
    # A gang may report progress before the kubelet has written the state of its containers.
    until("every pod tells of its containers", lambda: all("containerStatuses" in pod["status"] for pod in job.pods()))
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
    """Kills at different moments of the start: each job comes up once, with one set of children."""
    install.shared_volume(namespace)
    started = []
    for index, delay in enumerate((0.0, 0.15, 0.4)):
        name = f"gpt-start-{index}"
        until("the operator runs", operator_pids, timeout=60)
        kubectl("wait", "deploy", "--all", "-n", "pawl-system", "--for=condition=Available", "--timeout=120s")
        kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt(name, steps=30)))
        time.sleep(delay)
        kill_operator()
        started.append(Job(name, namespace))
    for job in started:
        job.wait_for("Complete", timeout=180)
        assert job.status()["attempt"] == 1, job.status()
        assert len(job.pods()) <= 2, "more pods than workers"


def test_rolling_restart(namespace):
    """Whoever leads hands over in less than 2 s, by the lease's own times; the job does not notice."""
    install.shared_volume(namespace)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt("gpt-roll", steps=running.ENDLESS)))
    job = Job("gpt-roll", namespace)
    until("training moves", job.step, timeout=90)
    before, first = fingerprint(job), leader_pod()
    with LeaseHistory() as history:
        kubectl("rollout", "restart", "deploy/pawl-operator", "-n", SYSTEM)
        kubectl("rollout", "status", "deploy/pawl-operator", "-n", SYSTEM, "--timeout=120s")
        until("another leads", lambda: leader_pod() not in ("", first), timeout=30)
        until("the old operators are gone", lambda: len(operator_pids()) == 2, timeout=60)
        hand_overs = history.hand_overs()
    for source, target, gap, was_given in hand_overs:
        print(f"       handed over from {source} to {target} in {gap * 1000:.0f} ms", flush=True)
        assert was_given and gap < 2, (source, target, gap, was_given)
    assert hand_overs, "nobody handed over"
    step = job.step()
    until("the new leader reports progress", lambda: job.step() > step, timeout=60)
    assert fingerprint(job) == before, "the pods did not survive the roll-out"
    assert job.status()["attempt"] == 1 and job.status()["restarts"].get("free", 0) == 0, job.status()


def test_kill_leader(namespace):
    """After kill -9 the other operator acts in less than 20 s: a job that is created meanwhile starts."""
    until("two operators run", lambda: len(operator_pids()) == 2, timeout=120)
    kubectl("wait", "deploy", "--all", "-n", SYSTEM, "--for=condition=Available", "--timeout=120s")
    install.shared_volume(namespace)
    first = kill_leader()
    killed = time.time()
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(jobs.tiny_gpt("gpt-after", steps=30)))
    job = Job("gpt-after", namespace)
    until("the job is started", lambda: job.status().get("attempt") == 1, timeout=60)
    acted = time.time() - killed
    taken = seconds(lease()["acquireTime"]) - killed
    print(f"       lease taken after {taken:.1f} s, job started after {acted:.1f} s", flush=True)
    assert leader_pod() != first, "the one that was killed leads again"
    assert acted < 20, acted
    job.wait_for("Complete", timeout=180)
    assert job.status()["attempt"] == 1, job.status()
