"""An autoscaler is asked for the nodes of whole gangs (placement.provisioning), by the definition of ProvisioningRequests that
its project publishes. The autoscaler's part is played here: what it says, and the nodes that it adds."""

import contextlib
import json
import time

from lib import running
from lib.kube import CLUSTER, get, kubectl, run, until
from scenarios.placement import set_slots, start, upgraded, waits

ALONE = True  # the operator decides for everybody

CLASS = "check-capacity.autoscaling.x-k8s.io"
KIND = "provisioningrequests.autoscaling.x-k8s.io"


@contextlib.contextmanager
def asking():
    """An operator that is to ask an autoscaler, on a cluster that serves no requests yet."""
    options = ["--set", "placement.enabled=true", "--set", f"placement.provisioning.class={CLASS}"]
    with upgraded(*options) as nodes:
        try:
            yield nodes
        finally:
            kubectl("delete", "crd", KIND, "--ignore-not-found", "--wait")


def serve_requests():
    definition = run(CLUSTER.parent / "tools.sh", "provisioning").stdout.strip()
    kubectl("apply", "--server-side", "-f", definition)
    kubectl("wait", "--for=condition=Established", f"crd/{KIND}", "--timeout=60s")


def requests_of(job):
    found = get(KIND, namespace=job.namespace)["items"]
    return [one for one in found if one["metadata"]["ownerReferences"][0]["uid"] == job.read()["metadata"]["uid"]]


def request_of(job, number, timeout=60):
    """The only one that there is."""
    def read():
        found = requests_of(job)
        return len(found) == 1 and found[0]["metadata"]["name"].endswith(f"-{number}") and found[0]
    return until(f"request {number} of {job.name}", read, timeout=timeout)


def say(request, kind, message):
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {"type": kind, "status": "True", "reason": "Said", "message": message, "lastTransitionTime": now}
    meta = request["metadata"]
    kubectl("patch", KIND, meta["name"], "-n", meta["namespace"], "--subresource=status", "--type=merge", "-p",
            json.dumps({"status": {"conditions": [condition]}}))


def told(job, text):
    until(f"{job.name} says: {text}", lambda: text in job.status()["message"], timeout=15)


def long_a_gang_gets_the_nodes_that_it_asks_for(namespace):
    with asking() as nodes:
        job = start("asker", namespace, 5, 2, 10)  # ten of eight
        message = waits(job, "NeverFits")
        assert "this cluster will never hold 5 workers" in message and "4 would fit" in message, message
        assert job.phase() == "Stalled", job.status()
        serve_requests()
        request = request_of(job, 1, timeout=110)  # it looks each minute whether there are any
        template = request["spec"]["podSets"][0]["podTemplateRef"]["name"]
        assert request["spec"] == {"provisioningClassName": CLASS,
                                   "podSets": [{"count": 5, "podTemplateRef": {"name": template}}]}, request
        pod = get("podtemplate", template, namespace)["template"]["spec"]
        assert pod["containers"][0]["resources"]["limits"] == {"e2e.pawl.dev/slot": "2"} and "affinity" not in pod, pod
        assert job.status()["phase"] == "Starting" and job.status()["reason"] == "WaitingForRoom", job.status()
        say(request, "Accepted", "it is looked at")
        told(job, f"the autoscaler adds nodes for it (request {template})")
        say(request, "Failed", "no machines of that kind")
        told(job, "the autoscaler cannot add nodes: no machines of that kind; asked again at ")
        assert "NodesRefused" in running.reasons(namespace)
        request = request_of(job, 2, timeout=90)
        until("the template of the first is gone", lambda: len(get("podtemplates", namespace=namespace)["items"]) == 1)
        say(request, "Provisioned", "there they are")
        told(job, "the autoscaler has nodes for it")
        set_slots(nodes[0], 6)
        until("it runs", lambda: job.phase() == "Running", timeout=60)
        for worker in job.pods():
            notes = worker["metadata"]["annotations"]
            assert notes["autoscaling.x-k8s.io/consume-provisioning-request"] == request["metadata"]["name"], notes
            assert notes["autoscaling.x-k8s.io/provisioning-class-name"] == CLASS, notes
        until("nothing is asked for any more", lambda: not requests_of(job) and
              not get("podtemplates", namespace=namespace)["items"], timeout=30)
        job.wait_for("Complete", timeout=120)
        # One that is deleted while it waits leaves nothing.
        other = start("other", namespace, 20, 2, 10)
        request_of(other, 1)
        kubectl("delete", "tj", "other", "-n", namespace, "--wait")
        until("its request is gone", lambda: not get(KIND, namespace=namespace)["items"] and
              not get("podtemplates", namespace=namespace)["items"], timeout=60)


def long_a_gang_asks_by_its_pods(namespace):
    """What an autoscaler does for pods that are pending is played by more slots on a node."""
    with upgraded("--set", "placement.enabled=true", "--set", "placement.provisioning.class=pods",
                  "--set", "placement.levels={rack=e2e.pawl.dev/rack}") as nodes:
        job = start("asker", namespace, 5, 2, 20)  # ten of eight
        assert "4 would fit" in waits(job), job.status()
        pods = until("its pods are made", lambda: len(job.pods()) == 5 and job.pods(), timeout=30)
        for pod in pods:
            near = pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
            assert [one["podAffinityTerm"]["topologyKey"] for one in near] == ["e2e.pawl.dev/rack"], near
            assert "nodeAffinity" not in pod["spec"]["affinity"], pod["spec"]["affinity"]
        message = until("it says what for", lambda: job.status()["reason"] == "WaitingForNodes" and job.status()["message"], timeout=30)
        assert "Insufficient e2e.pawl.dev/slot" in message, message
        assert job.status()["placement"]["nodes"] == [{"name": "*", "workers": 5}], job.status()
        assert job.phase() == "Starting", job.status()
        assert job.status()["placedBy"].startswith("kube-scheduler: there was no room"), job.status()
        set_slots(nodes[0], 6)
        until("it runs", lambda: job.phase() == "Running", timeout=60)
        assert all(pod["spec"]["nodeName"] in nodes for pod in job.pods())
        job.wait_for("Complete", timeout=120)
        assert job.status()["attempt"] == 1, job.status()
