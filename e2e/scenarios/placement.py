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


def start(name, namespace, replicas, slots):
    manifest = jobs.foreign(name, "localhost/pawl-foreign-musl:e2e", ["/bin/busybox", "sleep", "20"], kind="Custom",
                            replicas=replicas)
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {SLOT: str(slots)}}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
    return Job(name, namespace)


def test_gangs_get_all_their_nodes_or_none(namespace):
    nodes = sorted(node["metadata"]["name"] for node in get("nodes")["items"])
    assert len(nodes) == 2, nodes
    install.helm("upgrade", "--set", "placement.enabled=true")
    try:
        for node in nodes:
            set_slots(node, SLOTS)
        first = start("first", namespace, 3, 2)  # six of eight
        until("it runs", lambda: first.status()["phase"] == "Running", timeout=60)
        placed = first.status()["placement"]
        assert [(one["name"], one["workers"]) for one in placed["nodes"]] in (
            [(nodes[0], 2), (nodes[1], 1)], [(nodes[0], 1), (nodes[1], 2)]), placed
        wanted = [one["name"] for one in placed["nodes"] for _ in range(one["workers"])]
        assert [pod["spec"]["nodeName"] for pod in sorted(first.pods(), key=lambda pod: pod["metadata"]["name"])] == wanted
        # One of the two workers of the second gang would fit.
        second = start("second", namespace, 2, 2)
        message = until("it waits for room", lambda: second.status().get("reason") == "WaitingForRoom" and
                        second.status()["message"], timeout=30)
        assert "no room for 2 workers" in message and f"{SLOT} 2" in message, message
        assert "1 would fit, on 1 of 2 nodes" in message, message
        assert not second.pods()
        first.wait_for("Complete", timeout=90)
        second.wait_for("Complete", timeout=90)
        assert second.status()["placement"]["attempt"] == second.status()["attempt"] == 1, second.status()
        # Where it went depends on which pods of the first one had ended.
        assert sum(one["workers"] for one in second.status()["placement"]["nodes"]) == 2, second.status()
        assert "WaitingForRoom" in running.reasons(namespace)
    finally:
        for node in nodes:
            set_slots(node, 0)
        install.helm("upgrade")
