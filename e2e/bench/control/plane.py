"""One real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler; KWOK plays the
kubelets. Every measurement gets a fresh one, so that none inherits another's garbage.

Two settings keep what is not measured out of the figures: nodes have no leases and a long grace, so that an idle cluster
writes nothing; and no component waits for its own client-side rate limit (1,000 requests a second for all).
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "e2e" / "cluster"))

from control_plane import ControlPlane, Endpoint  # noqa: E402
from pki import Authority  # noqa: E402, F401
from process import Daemon, free_port, kill_all, poll  # noqa: E402
from tools import Kubernetes, tool  # noqa: E402

NAMESPACE = "bench"
RATE = ["--kube-api-qps=1000", "--kube-api-burst=1000"]
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-$I", "labels": {"kubernetes.io/hostname": "node-$I"}},
        "spec": {}, "status": {"capacity": {"cpu": "1000", "memory": "1Ti", "pods": "250"},
                               "allocatable": {"cpu": "1000", "memory": "1Ti", "pods": "250"}}}


class Plane:
    """`with Plane(nodes=250) as plane:`; everything it started is gone afterwards, whatever happens."""

    def __init__(self, nodes, api_server_flags=(), pods_end="kwok_ends_at_once.yaml", node=None, nodes_per=1):
        """`nodes_per`: of how many nodes $JOB of the template `node` is the same."""
        self.node_count, self.node, self.nodes_per = nodes, node or NODE, nodes_per
        self.stages = [HERE / "kwok.yaml", HERE / pods_end]
        self.api_server_flags = list(api_server_flags)
        self.state = pathlib.Path(tempfile.mkdtemp(prefix="pawl-bench."))
        self.endpoint = Endpoint("127.0.0.1", "127.0.0.1", port=free_port(), etcd_port=free_port())
        self.kubernetes = Kubernetes()
        self.control = ControlPlane(self.state, self.endpoint, self.kubernetes)
        self.load_program = str(tool("load"))
        self.daemons = {}

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def _end(self):
        kill_all(self.state, [])
        if os.environ.get("PAWL_BENCH_KEEP"):
            print(f"kept: {self.state}", file=sys.stderr)
        else:
            shutil.rmtree(self.state, ignore_errors=True)

    def _start(self):
        control = self.control
        control.start_etcd()
        control.create_identities()
        control.start_api_server(["--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
                                  *self.api_server_flags])
        control.wait_ready(120)
        control.start_controller_manager(["--secure-port=0", "--node-monitor-grace-period=3600s",
                                          "--node-startup-grace-period=3600s", "--node-monitor-period=5s", *RATE])
        control.start_scheduler(["--secure-port=0", *RATE])
        self.daemons["etcd"] = control.etcd
        self.daemons["kube-apiserver"] = control.api_server
        self.daemons["kube-controller-manager"] = control.controller_manager
        self.daemons["kube-scheduler"] = control.scheduler
        self.kubeconfig = control.kubeconfig
        self.start("kwok", [tool("kwok"), f"--kubeconfig={self.identity('kwok')}", "--manage-all-nodes=true",
                            *(f"--config={file}" for file in self.stages), "--node-lease-duration-seconds=0"])
        self.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        poll(lambda: control.api.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"),
             "the namespace's service account", 120)
        self.post("/api/v1/nodes", self.node, count=self.node_count, per=self.nodes_per)
        poll(self._nodes_are_ready, "ready nodes", 300, 1 if self.node_count > 500 else 0.2)

    def _nodes_are_ready(self):
        """No taint is left, so that pods can be placed on all of them."""
        return self.node_count == sum(1 for node in self.items("/api/v1/nodes")
                                      if not node["spec"].get("taints") and node["status"].get("conditions"))

    def items(self, path):
        """Of a collection, page by page."""
        start = ""
        while True:
            page = self.control.api.get(f"{path}?limit=500&continue={start}")
            yield from page["items"]
            start = page["metadata"].get("continue", "")
            if not start:
                return

    def identity(self, name, group="system:masters", user=""):
        """A kubeconfig with a certificate of its own."""
        file = self.state / f"{name}.kubeconfig"
        credential = self.control.authority.issue(name, user or f"bench-{name}", group)
        return credential.write_kubeconfig(file, self.endpoint.url)

    def start(self, name, command, environment=None):
        daemon = Daemon(self.state, name)
        daemon.start([str(word) for word in command], environment=environment)
        self.daemons[name] = daemon
        return daemon

    def kubectl(self, *arguments, stdin=None):
        command = [self.kubernetes["kubectl"], f"--kubeconfig={self.kubeconfig}", *map(str, arguments)]
        result = subprocess.run(command, input=stdin, text=True, capture_output=True, check=False)
        if result.returncode:
            raise RuntimeError(f"kubectl {' '.join(map(str, arguments))}: {result.stderr.strip()}")
        return result.stdout

    def apply(self, *files):
        for file in files:
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", file)

    def wait_established(self, *definitions):
        """`kubectl wait` fails at once on a definition that has no conditions yet."""
        def is_established(name):
            item = self.control.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
            conditions = item.get("status", {}).get("conditions") or []
            return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

        poll(lambda: all(map(is_established, definitions)), f"established {', '.join(definitions)}", 60)

    def warm_up(self, pods):
        """So many pods come, run and go. A server that has served none yet gives its watchers little room, cuts off those
        that fall behind, and the fake kubelets do their work again when they list."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "warm-$I"},
               "spec": {"containers": [{"name": "worker", "image": "localhost/worker"}]}}
        self.post(path, pod, count=pods)
        poll(lambda: all(item["status"].get("podIP") for item in self.control.api.get(path)["items"]), "warm pods", 180, 1)
        self.post(f"{path}/warm-$I", {"gracePeriodSeconds": 0}, count=pods, method="DELETE")
        poll(lambda: not self.control.api.get(path)["items"], "the end of the warm pods", 180, 1)

    def wait_collected(self):
        """Until the garbage collector knows every kind that is defined by now. It looks for new ones each 30 s, and till
        then asks for the owner of each object of a new kind, which no cluster does on which they are for longer."""
        plural, group = f"canaries{random.getrandbits(32):x}", "bench.pawl.dev"
        self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": plural.capitalize()},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
        self.wait_established(f"{plural}.{group}")
        canary = {"apiVersion": f"{group}/v1", "kind": plural.capitalize(), "metadata": {"name": "canary"}}
        canaries, maps = f"/apis/{group}/v1/namespaces/{NAMESPACE}/{plural}", f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        self.post(canaries, canary)
        owner = {"apiVersion": canary["apiVersion"], "kind": canary["kind"], "name": "canary",
                 "uid": self.control.api.get(f"{canaries}/canary")["metadata"]["uid"]}
        self.post(maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": plural, "ownerReferences": [owner]}})
        self.post(f"{canaries}/canary", {"propagationPolicy": "Background"}, method="DELETE")
        poll(lambda: not self.control.api.exists(f"{maps}/{plural}"), "a collector that knows the new kinds", 180, 0.5)

    def load(self, *arguments):
        """The command line of one run of the load generator."""
        admin = self.control.authority.issue("load", "bench-load", "system:masters")
        verb, *rest = map(str, arguments)
        return [self.load_program, verb, "-server", self.endpoint.url, "-ca", str(admin.ca), "-cert",
                str(admin.certificate), "-key", str(admin.key), *rest]

    def post(self, path, template, count=1, per=1, method="POST", first=0, accept=0, parallel=32):
        """Sends `count` requests as fast as the server takes them; the seconds that took."""
        file = self.state / f"template-{random.getrandbits(48):x}.json"
        file.write_text(json.dumps(template) if template is not None else "")
        command = self.load("post", "-method", method, "-path", path, "-template", file, "-from", first, "-to",
                            first + count, "-per", per, "-accept", accept, "-parallel", parallel)
        result = subprocess.run(command, text=True, capture_output=True, check=False)
        file.unlink()
        if result.returncode:
            raise RuntimeError(result.stderr.strip()[:2000])
        return float(result.stdout.split()[2])
