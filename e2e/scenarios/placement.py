"""Pawl decides on the nodes of whole gangs (placement.enabled): all pods of one, or none, each on the node that the status names."""

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


def waits(job):
    return until(f"{job.name} waits for room", lambda: job.status().get("reason") == "WaitingForRoom" and
                 job.status()["message"], timeout=30)


def test_gangs_get_all_their_nodes_or_none(namespace):
    nodes = sorted(node["metadata"]["name"] for node in get("nodes")["items"])
    assert len(nodes) == 2, nodes
    install.helm("upgrade", "--set", "placement.enabled=true", "--set", "placement.levels={rack=e2e.pawl.dev/rack}")
    try:
        for node in nodes:
            set_slots(node, SLOTS)
        first = start("first", namespace, 3, 2, 45)  # six of eight
        until("it runs", lambda: first.status()["phase"] == "Running", timeout=60)
        placed = first.status()["placement"]
        assert [(one["name"], one["workers"]) for one in placed["nodes"]] in (
            [(nodes[0], 2), (nodes[1], 1)], [(nodes[0], 1), (nodes[1], 2)]), placed
        wanted = [one["name"] for one in placed["nodes"] for _ in range(one["workers"])]
        assert [pod["spec"]["nodeName"] for pod in sorted(first.pods(), key=lambda pod: pod["metadata"]["name"])] == wanted
        # One of the three workers of the second gang would fit.
        second = start("second", namespace, 3, 2, 10)
        message = waits(second)
        assert "no room for 3 workers" in message and f"{SLOT} 2" in message, message
        assert "1 would fit, on 1 of 2 nodes" in message, message
        assert not second.pods()
        # Nodes without the label are racks of their own: none will ever hold three.
        racked = start("racked", namespace, 3, 2, 10, {"topology": [{"level": "rack"}]})
        message = waits(racked)
        assert "within one rack" in message and "1 job before it in line" in message, message
        # Younger, and before the other two in line: with it there is no room for the second one.
        kubectl("create", "priorityclass", f"urgent-{namespace}", "--value=10")
        urgent = start("urgent", namespace, 3, 2, 10, {"priorityClassName": f"urgent-{namespace}"})
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
        assert racked.status()["reason"] == "WaitingForRoom" and not racked.pods()
        assert "WaitingForRoom" in running.reasons(namespace)
    finally:
        kubectl("delete", "priorityclass", f"urgent-{namespace}", "--ignore-not-found")
        for node in nodes:
            set_slots(node, 0)
        install.helm("upgrade")
