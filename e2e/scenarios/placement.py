"""Pawl decides on the nodes of whole gangs (placement.enabled): all pods of one, or none, each on the node that the status names."""

import contextlib
import json

from lib import install, jobs, running
from lib.kube import Job, get, kubectl, until

ALONE = True  # the operator decides for everybody

SLOT = "e2e.pawl.dev/slot"  # a resource that only these jobs ask for
SLOTS = 4  # a node


def set_slots(node, count):
    """As `kubectl` documents it for extended resources: the kubelet takes it over into what is allocatable."""
    patch = {"status": {"capacity": {SLOT: str(count) if count else None}}}
    kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    until(f"{node} has {count} slots",
          lambda: get("node", node)["status"]["allocatable"].get(SLOT, "0") == str(count))


def start(name, namespace, replicas, slots, seconds, scheduling=None):
    manifest = jobs.foreign(name, "localhost/pawl-foreign-musl:e2e", ["/bin/busybox", "sleep", str(seconds)], kind="Custom",
                            replicas=replicas)
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {SLOT: str(slots)}}
    if scheduling:
        manifest["spec"]["scheduling"] = scheduling
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
    return Job(name, namespace)


def waits(job, reason="WaitingForRoom"):
    return until(f"{job.name} is {reason}", lambda: job.status().get("reason") == reason and job.status()["message"],
                 timeout=30)


@contextlib.contextmanager
def upgraded(*options):
    """The chart with these options, and two nodes with some slots each."""
    nodes = sorted(node["metadata"]["name"] for node in get("nodes")["items"])
    assert len(nodes) == 2, nodes
    install.helm("upgrade", *options)
    try:
        for node in nodes:
            set_slots(node, SLOTS)
        yield nodes
    finally:
        for node in nodes:
            set_slots(node, 0)
        install.helm("upgrade")


def placing():
    """Pawl decides on the nodes."""
    return upgraded("--set", "placement.enabled=true", "--set", "placement.levels={rack=e2e.pawl.dev/rack}")


def test_gangs_get_all_their_nodes_or_none(namespace):
    with placing() as nodes:
        first = start("first", namespace, 3, 2, 35)  # six of eight
        until("it runs", lambda: first.status()["phase"] == "Running", timeout=60)
        placed = first.status()["placement"]
        assert [(one["name"], one["workers"]) for one in placed["nodes"]] in (
            [(nodes[0], 2), (nodes[1], 1)], [(nodes[1], 2), (nodes[0], 1)]), placed
        wanted = [one["name"] for one in placed["nodes"] for _ in range(one["workers"])]
        assert [pod["spec"]["nodeName"] for pod in sorted(first.pods(), key=lambda pod: pod["metadata"]["name"])] == wanted
        # One of the three workers of the second gang would fit.
        second = start("second", namespace, 3, 2, 5)
        message = waits(second)
        assert "no room for 3 workers" in message and f"{SLOT} 2" in message, message
        assert "1 would fit, on 1 of 2 nodes" in message, message
        assert not second.pods()
        # Nodes without the label are racks of their own: none will ever hold three.
        stacked = start("stacked", namespace, 3, 2, 10, {"topology": [{"level": "rack"}]})
        message = waits(stacked, "NeverFits")
        assert "no rack will ever hold 3 workers" in message and "would hold 2, and no other more" in message, message
        # Younger, and before the other one in line: with it there is no room for that.
        kubectl("create", "priorityclass", f"urgent-{namespace}", "--value=10", "--preemption-policy=Never")
        urgent = start("urgent", namespace, 3, 2, 5, {"priorityClassName": f"urgent-{namespace}"})
        message = waits(urgent)
        assert "in line" not in message, message
        assert first.status()["phase"] == "Running", first.status()
        first.wait_for("Complete", timeout=120)
        urgent.wait_for("Complete", timeout=90)
        second.wait_for("Complete", timeout=90)
        assert urgent.status()["completionTime"] <= second.status()["completionTime"]
        assert second.status()["placement"]["attempt"] == second.status()["attempt"] == 1, second.status()
        # Where it went depends on which pods of those before it had ended.
        assert sum(one["workers"] for one in second.status()["placement"]["nodes"]) == 3, second.status()
        assert stacked.status()["phase"] == "Stalled" and not stacked.pods()
        assert "WaitingForRoom" in running.reasons(namespace)
        kubectl("delete", "priorityclass", f"urgent-{namespace}")


def create_queue(name, slots, reclaim="Any"):
    manifest = {"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": name},
                "spec": {"quotas": [{"resource": SLOT, "nominal": slots}], "preemption": {"reclaim": reclaim}}}
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def long_a_queue_borrows_what_others_do_not_use(namespace):
    own, other = f"own-{namespace}", f"other-{namespace}"
    with placing():
        early = start("early", namespace, 1, 2, 10, {"queueName": own})
        message = waits(early, "InvalidScheduling")
        assert f'there is no TrainingQueue "{own}"' in message, message
        create_queue(own, 4)
        create_queue(other, 4, reclaim="Never")
        early.wait_for("Complete", timeout=60)
        borrower = start("borrower", namespace, 3, 2, 25, {"queueName": own})  # six of its four
        until("it runs", lambda: borrower.status()["phase"] == "Running", timeout=60)
        owner = start("owner", namespace, 2, 2, 5, {"queueName": other})
        message = waits(owner, "WaitingForQuota")
        assert f"{SLOT} 4 is needed, 2 can be had (0 of 4 used)" in message, message
        assert not owner.pods()
        used = until("the queue tells what it is used for",
                     lambda: get("tq", own).get("status", {}).get("usage") == f"{SLOT} 6/4" and get("tq", own)["status"],
                     timeout=30)
        assert (used["running"], used["pending"], used["sharePercent"]) == (1, 0, 75), used
        table = kubectl("get", "tq")
        assert "PENDING" in table and f"{SLOT} 6/4" in table, table
        borrower.wait_for("Complete", timeout=90)
        owner.wait_for("Complete", timeout=60)
        until("nothing is used", lambda: get("tq", own)["status"]["usage"] == f"{SLOT} 0/4", timeout=30)
        kubectl("delete", "tq", own, other)


def condition(job, kind):
    return next((one for one in job.status().get("conditions", []) if one["type"] == kind), {})


def test_a_higher_priority_and_an_owner_get_room(namespace):
    """Two tenants: a job that has borrowed gives that back, one of low priority makes room, and both go on where they were."""
    own, other, urgent_class = f"own-{namespace}", f"other-{namespace}", f"urgent-{namespace}"
    with placing():
        create_queue(own, 4)
        create_queue(other, 4)
        kubectl("create", "priorityclass", urgent_class, "--value=10")
        install.shared_volume(namespace)
        manifest = jobs.tiny_gpt("low", steps=100_000)
        manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {SLOT: "2"}}
        manifest["spec"]["scheduling"] = {"queueName": own}
        kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
        low = Job("low", namespace)
        until("it trains", lambda: low.status().get("checkpoint", {}).get("step", 0) > 0, timeout=90)
        borrower = start("borrower", namespace, 2, 2, 600, {"queueName": own})  # four of the other tenant's
        until("the borrower runs", lambda: borrower.status()["phase"] == "Running", timeout=60)
        owner = start("owner", namespace, 2, 2, 600, {"queueName": other})
        until("the owner runs", lambda: owner.status()["phase"] == "Running", timeout=90)
        left = [job for job in (low, borrower) if job.status()["attempt"] == 2]
        assert len(left) == 1, [job.status() for job in (low, borrower)]
        assert "takes back what queue" in condition(left[0], "Preempted")["message"], left[0].status()
        if left[0] is low:  # it has lost less by then, where its last checkpoint is newer
            kubectl("delete", "tj", "borrower", "-n", namespace)
            until("it trains again", lambda: low.status()["phase"] == "Running", timeout=90)
        attempt = low.status()["attempt"]
        urgent = start("urgent", namespace, 2, 2, 10, {"queueName": own, "priorityClassName": urgent_class})
        until("it leaves", lambda: condition(low, "Preempted").get("status") == "True" or
              low.status()["attempt"] > attempt, timeout=30)
        until("it waits", lambda: low.status()["attempt"] > attempt and low.status()["reason"] == "WaitingForQuota", timeout=90)
        saved = low.status()
        assert "of priority 10 needs its room" in condition(low, "Preempted")["message"], saved
        assert saved["checkpoint"]["step"] == saved["progress"]["step"], saved  # nothing will be made again
        urgent.wait_for("Complete", timeout=90)
        until("it goes on", lambda: low.status()["phase"] == "Running" and
              low.status()["progress"]["step"] > saved["progress"]["step"], timeout=90)
        assert low.status()["restarts"].get("counted", 0) == 0, low.status()
        assert "Redone" not in low.status()["goodput"].get("byCause", {}), low.status()["goodput"]
        assert {"Preempted", "Restarting"} <= set(running.reasons(namespace).split()), running.reasons(namespace)
        kubectl("delete", "tj", "--all", "-n", namespace)
        kubectl("delete", "priorityclass", urgent_class)
        kubectl("delete", "tq", own, other)


def test_an_elastic_job_begins_smaller_grows_and_gives_way(namespace):
    """It trains with two of three, another job goes before its growth, and it grows in place when that one is through. One of a
    higher priority gets its last worker's place, and it has that back afterwards."""
    own, urgent_class = f"own-{namespace}", f"urgent-{namespace}"
    with placing():
        create_queue(own, 4)
        install.shared_volume(namespace)
        manifest = jobs.tiny_gpt("wide", replicas=3, steps=100_000)
        manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {SLOT: "2"}}
        manifest["spec"]["scheduling"] = {"queueName": own}
        manifest["spec"]["elastic"] = {"minReplicas": 2, "shortageSeconds": 5}
        kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
        wide = Job("wide", namespace)
        assert "it begins with 2 workers or more from" in waits(wide, "WaitingForQuota")
        until("two train", lambda: wide.status()["phase"] == "Running" and wide.status().get("progress", {}).get("step", 0) > 0,
              timeout=90)
        status = wide.status()
        assert status["ready"] == "2/3" and "no quota for 1 worker in queue" in status["message"], status
        assert sum(one["workers"] for one in status["placement"]["nodes"]) == 2, status["placement"]
        later = start("later", namespace, 1, 2, 5, {"queueName": own})
        waits(later, "WaitingForQuota")
        create_queue(own, 6)
        until("the other one goes first", lambda: later.status()["phase"] == "Running", timeout=60)
        assert wide.status()["ready"] == "2/3", wide.status()
        later.wait_for("Complete", timeout=60)
        until("it grows", lambda: wide.status()["ready"] == "3/3" and running.record_of(wide)["generation"] == 2, timeout=60)
        grown = wide.status()
        until("and goes on", lambda: wide.status()["progress"]["step"] > grown["progress"]["step"], timeout=30)
        kubectl("create", "priorityclass", urgent_class, "--value=10")
        urgent = start("urgent", namespace, 1, 2, 5, {"queueName": own, "priorityClassName": urgent_class})
        until("it gives way", lambda: urgent.status()["phase"] == "Running", timeout=60)
        smaller = wide.status()
        assert smaller["phase"] == "Running" and smaller["ready"] == "2/3", smaller
        assert smaller["lastFailure"]["cause"] == "Preempted", smaller
        assert "Shrunk" in running.reasons(namespace)
        urgent.wait_for("Complete", timeout=60)
        until("it grows again", lambda: wide.status()["ready"] == "3/3" and running.record_of(wide)["generation"] == 4, timeout=60)
        grown = wide.status()
        assert grown["attempt"] == 1 and not grown["restarts"].get("free"), grown
        assert "Redone" not in grown["goodput"].get("byCause", {}), grown
        kubectl("delete", "tj", "wide", "-n", namespace)
        kubectl("delete", "priorityclass", urgent_class)
        kubectl("delete", "tq", own)
