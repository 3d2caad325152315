"""What losing a pod in mid-run costs: nothing while others hold the state in memory; where the gang stops and saves, the
work since that checkpoint, which is none."""

import os
import signal

from lib import install, jobs, running
from lib.kube import Job, get, kubectl, until


def leader_pod(job):
    uid = get("workergroup", job.name, job.namespace)["status"]["leader"]["uid"]
    return next(pod["metadata"]["name"] for pod in job.pods() if pod["metadata"]["uid"] == uid)


def test_deleted_pod_is_replaced_in_place(namespace):
    job = running.start("gpt-replace", namespace, steps=running.ENDLESS)
    leader = leader_pod(job)
    victim = next(pod["metadata"]["name"] for pod in job.pods() if pod["metadata"]["name"] != leader)
    before = get("workergroup", job.name, namespace)["status"]
    kubectl("delete", "pod", victim, "-n", namespace, "--wait=false")
    until("the gang goes on with another pod",
          lambda: get("workergroup", job.name, namespace)["status"]["generation"] == before["generation"] + 1, timeout=90)
    record = get("workergroup", job.name, namespace)["status"]
    assert record["base"]["generation"] == before["generation"], record
    assert record["startStep"] >= before["progress"]["step"], (record, before)
    status = running.goes_on(job, record)
    assert status["attempt"] == 1, status
    restarts = status["restarts"]
    assert restarts.get("counted", 0) == 0 and restarts.get("free", 0) == 0, restarts
    assert status["lastFailure"]["pod"] == victim, status["lastFailure"]
    until("events tell the story", lambda: {"MemberReplaced", "RecoveredInPlace"} <= set(running.reasons(namespace).split()))


def test_a_spare_goes_on_in_a_lost_ones_place(namespace):
    install.shared_volume(namespace)
    manifest = jobs.tiny_gpt("gpt-spare", steps=running.ENDLESS, replicas=2)
    manifest["spec"]["scheduling"] = {"spares": 1}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
    job = Job("gpt-spare", namespace)
    until("a checkpoint is published", job.checkpoint_step, timeout=90)
    until("the third one waits", lambda: job.status()["message"].endswith("1 of 1 spares wait"), timeout=90)
    assert job.status()["ready"] == "2/2", job.status()
    before = running.record_of(job)
    members = {member["uid"] for member in before["members"]}
    pods = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in job.pods()}
    assert len(members) == 2 and len(pods) == 3, (before, pods)
    spare = next(uid for uid in pods if uid not in members)
    victim = next(uid for uid in members if uid != before["leader"]["uid"])
    os.kill(running.launcher_of(job, pods[victim]), signal.SIGKILL)
    until("the gang goes on with the spare",
          lambda: running.record_of(job)["generation"] == before["generation"] + 1, timeout=30)
    record = running.record_of(job)
    assert {member["uid"] for member in record["members"]} == members - {victim} | {spare}, record
    assert record["base"]["generation"] == before["generation"], record
    status = running.goes_on(job, record)
    assert status["attempt"] == 1 and status["restarts"].get("counted", 0) == 0, status
    until("another pod waits", lambda: job.status()["message"].endswith("1 of 1 spares wait"), timeout=90)
    status = job.status()
    assert status["phase"] == "Running" and status["ready"] == "2/2" and status["attempt"] == 1, status
    assert running.record_of(job)["generation"] == record["generation"], running.record_of(job)


def test_killed_leader_is_taken_over(namespace):
    job = running.start("gpt-takeover", namespace, steps=4000, replicas=3)
    leader = leader_pod(job)
    before = get("workergroup", job.name, namespace)["status"]
    os.kill(running.launcher_of(job, leader), signal.SIGKILL)
    until("the gang goes on under another leader",
          lambda: get("workergroup", job.name, namespace)["status"]["generation"] > before["generation"], timeout=90)
    record = get("workergroup", job.name, namespace)["status"]
    assert record["attempt"] == 1 and record["term"] == before["term"] + 1, record
    assert record["base"]["generation"] == before["generation"], record
    assert record["startStep"] >= before["progress"]["step"], (record, before)
    job.wait_for("Complete", timeout=180)
    status = job.status()
    assert status["progress"]["step"] == 4000 and status["attempt"] == 1, status
    assert status["restarts"].get("counted", 0) == 0 and status["restarts"].get("free", 0) == 0, status
    assert status["lastFailure"]["pod"] == leader, status


def test_leader_that_is_told_to_terminate_hands_over(namespace):
    job = running.start("gpt-recover", namespace, steps=running.ENDLESS)
    before = get("workergroup", job.name, namespace)["status"]
    victim = leader_pod(job)
    kubectl("delete", "pod", victim, "-n", namespace, "--wait=false")
    until("the gang goes on with another pod",
          lambda: get("workergroup", job.name, namespace)["status"]["generation"] > before["generation"], timeout=90)
    record = get("workergroup", job.name, namespace)["status"]
    assert record["attempt"] == 1 and record["term"] == before["term"] + 1, record
    assert record["base"]["generation"] == before["generation"], record
    status = running.goes_on(job, record)
    assert status["attempt"] == 1, status
    assert status["restarts"].get("counted", 0) == 0 and status["restarts"].get("free", 0) == 0, status
    assert status["lastFailure"]["pod"] == victim, status["lastFailure"]


def test_running_gang_is_scaled(namespace):
    job = running.start("gpt-scale", namespace, steps=6000)

    def members():
        return len(get("workergroup", job.name, namespace)["status"]["members"])

    for size in (3, 1, 2):
        kubectl("scale", "tj", job.name, "-n", namespace, f"--replicas={size}")
        until(f"the gang has {size} members", lambda: members() == size, timeout=90)
        until(f"{size} pods are left", lambda: job.status()["ready"] == f"{size}/{size}" and len(job.pods()) == size,
              timeout=90)
    log = kubectl("logs", f"{job.name}-1-0-0", "-n", namespace)
    print("\n".join(line for line in log.splitlines() if "generation_runs" in line))
    job.wait_for("Complete", timeout=240)
    status = job.status()
    assert status["progress"]["step"] == 6000 and status["attempt"] == 1, status
    assert status["restarts"].get("counted", 0) == 0 and status["restarts"].get("free", 0) == 0, status
    assert status["checkpoint"]["step"] == 6000, status
