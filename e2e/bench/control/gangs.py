"""1,000 gangs of 8 on 5,000 nodes in racks of 16, two pods to a node, with the real kube-scheduler: how many pods a second come to run
under Pawl, which decides on the node of each, and under a client that creates the same pods, pinned to their nodes beforehand; and how
long a started operator needs beside them until it has decided again."""

import statistics
import sys
import time

from . import compare
from .contenders import CONTAINER, BareSame, Pawl
from .figures import wait_until_idle
from .plane import NAMESPACE, Plane, poll
from .profiles import SERVER_FLAGS, profiles

GPU, RACK, WORKERS, RACK_HOSTS, PODS_A_NODE = "example.com/gpu", "example.com/rack", 8, 16, 2
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CAPACITY = {"cpu": "1000", "memory": "1Ti", "pods": "250", GPU: "8"}
NODE = {"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-$I", "labels": {"kubernetes.io/hostname": "node-$I", RACK: "rack-$JOB"}},
        "spec": {}, "status": {"capacity": CAPACITY, "allocatable": CAPACITY}}


class PlacingPawl(Pawl):
    values = ("placement.enabled=true",)
    container = {**CONTAINER, "resources": {"requests": {"cpu": "100m", "memory": "64Mi", GPU: "4"}, "limits": {GPU: "4"}}}

    def __init__(self):
        super().__init__(["--placement", f"rack={RACK}"])


class BarePinned(BareSame):
    """The bare client with pods like Pawl's, each for the node that it is to run on."""
    name = "bare_pinned"

    def maker(self):
        return PlacingPawl()

    def submit(self, plane, jobs, workers):
        body = self.body()
        required = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for term in required["nodeSelectorTerms"]:
            for field in term["matchFields"]:
                field["values"] = ["node-$JOB"]
        plane.post(PODS, body, count=jobs * workers, per=PODS_A_NODE)


def measure(share, rounds, profiles_in=None):
    """`share` of the 1,000 gangs and of the 5,000 nodes; kube-apiserver's profiles go to the folder `profiles_in`."""
    size = compare.Size(max(2, int(1000 * share)), WORKERS, max(16, int(5000 * share)), 1800)
    figures = {"pawl": [], "bare_pinned": []}
    restarts = []
    for number in range(rounds):
        turn = [PlacingPawl(), BarePinned()]
        for contender in turn if number % 2 == 0 else reversed(turn):
            with Plane(size.nodes, SERVER_FLAGS if profiles_in else (), node=NODE, nodes_per=RACK_HOSTS) as plane:
                plane.warm_up(min(size.jobs * WORKERS, 2000))
                with profiles(plane, profiles_in, f"{contender.name}-{number}"):
                    figure = compare.run_one(contender, size, plane)
                figures[contender.name].append(size.jobs * WORKERS / figure["running_s"])
                compare.show(contender.name, figure, number)
                if contender.name == "pawl":
                    _check_placed(plane, size.jobs)
                    restarts.append(_restart(contender, plane))
                    print(f"started again, first decision after {restarts[-1]:.2f} s", file=sys.stderr, flush=True)
    ratios = [ours / theirs for ours, theirs in zip(figures["pawl"], figures["bare_pinned"])]
    return {"pods_per_s": round(statistics.median(figures["pawl"]), 1),
            "pods_per_s_bare": round(statistics.median(figures["bare_pinned"]), 1),
            "pods_per_s_ratio": round(statistics.median(ratios), 3), "restart_s": round(statistics.median(restarts), 2),
            "gangs": size.jobs, "gang_nodes": size.nodes, "rounds": rounds}


def _check_placed(plane, jobs):
    """Each gang lies in one rack where one has room for it, and no node has more than fits."""
    used, racks = {}, {}
    for pod in plane.items(PODS):
        node = pod["spec"].get("nodeName", "")
        if not node:
            raise AssertionError(f"pod {pod['metadata']['name']} has no node")
        used[node] = used.get(node, 0) + 1
        racks.setdefault(pod["metadata"]["labels"]["pawl.dev/job"], set()).add(int(node.removeprefix("node-")) // RACK_HOSTS)
    crowded = [node for node, count in used.items() if count > PODS_A_NODE]
    if crowded or len(racks) != jobs:
        raise AssertionError(f"{len(racks)} gangs have pods, too many on {crowded[:5]}")
    apart = sum(1 for of_job in racks.values() if len(of_job) > 1)
    if apart:
        raise AssertionError(f"{apart} gangs lie in several racks")


def _restart(pawl, plane):
    """From the start of the process until a job that has come meanwhile has its nodes. What the managers of the
    cluster still have to do for the gangs is done before: they would use the processors that are measured."""
    wait_until_idle(plane, share=0.5, most=300)
    plane.daemons["pawl-operator"].kill()
    job = pawl.job(WORKERS)
    job["metadata"]["name"] = "late"
    plane.post(pawl.path, job)
    begin = time.monotonic()
    pawl.start(plane)
    poll(lambda: plane.control.api.get(f"{pawl.path}/late").get("status", {}).get("placement", {}).get("nodes"), "its nodes", 300, 0.05)
    return time.monotonic() - begin
