"""A whole cluster: brings the parts up in order, takes them down, and breaks them for tests.

Clean-up never relies on what the last run recorded, so it works over the leftovers of a run
that was killed at any point, and may itself be stopped and called again.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import pathlib
import subprocess
import time

import addons
from api import ApiError, parse_time
from archive import image_of_archive
from control_plane import ControlPlane, Endpoint
from layout import Layout
from netns import AddressLock, Network
from node import Node, remove_cgroups
from pki import write_token_kubeconfig
from process import kill_all, poll, run
from tools import Kubernetes, check_machine


@contextlib.contextmanager
def exclusive(state: pathlib.Path):
    """One `up` or `down` of a state directory at a time. The file is beside it, as `down` removes it."""
    with open(str(state) + ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def clean_up(layout: Layout, keep: bool) -> None:
    """From any situation to: no process, namespace, mount or cgroup of ours, and unless `keep` no file."""
    network = Network(layout)
    kill_all(layout.state, network.namespaces)
    unmount_below(layout.state)
    network.destroy()
    remove_cgroups(layout.prefix)
    if keep:
        (layout.state / "kept").touch()
    elif layout.state.exists():
        run("rm", "-rf", "--one-file-system", layout.state)


def unmount_below(folder: pathlib.Path) -> None:
    lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1].encode().decode("unicode_escape") for line in lines]
    for point in sorted((p for p in points if p.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", point], capture_output=True, check=False)


class Cluster:
    def __init__(self, layout: Layout):
        self.layout = layout
        self.kubernetes = Kubernetes(layout.programs)  # of the nodes
        self.newest = Kubernetes(layout.newest or layout.programs)  # of the control plane
        self.network = Network(layout)
        self.nodes = {address.name: Node(layout, address) for address in layout.nodes}
        endpoint = Endpoint(layout.control_plane_ip, "0.0.0.0", layout.control_plane_netns)
        self.control_plane = ControlPlane(layout.state, endpoint, self.newest, has_pod_groups=bool(layout.newest))

    @classmethod
    def load(cls, state: pathlib.Path) -> "Cluster":
        return cls(Layout.load(state))

    @classmethod
    def up(cls, state: pathlib.Path, node_count: int, is_newest: bool = False) -> "Cluster":
        """`is_newest`: the control plane is of the newest release, before its nodes follow (three
        releases are allowed between them), and serves PodGroups."""
        check_machine()
        # Before anything runs: the first call may build for minutes.
        images, programs = addons.system_images(), str(Kubernetes().folder)
        newest = str(Kubernetes(release="kubernetes-newest").folder) if is_newest else ""
        state = state.resolve()
        layout = Layout(state, 0, node_count)
        kept = (state / "kept").exists()
        if kept:
            layout = Layout.load(state)
        clean_up(layout, keep=kept)
        with AddressLock() as addresses:
            if kept and not addresses.is_free(layout.index):
                print("the address range of the kept cluster is in use: starting a new one")
                clean_up(layout, keep=False)
                kept = False
            if not kept:
                layout = Layout(state, addresses.free_index(), node_count)
            layout.programs, layout.newest = programs, newest
            layout.save()
            cluster = cls(layout)
            cluster.network.create()
        (state / "kept").unlink(missing_ok=True)
        cluster._start(images)
        return cluster

    def _start(self, images) -> None:
        begin = time.time()
        plane = self.control_plane
        self.layout.api_ready.unlink(missing_ok=True)
        plane.start_etcd()
        plane.create_identities()
        for node in self.nodes.values():
            node.configure(plane.authority, self.layout.api_url)
            node.start(self.kubernetes, images)
        plane.start_api_server()
        plane.wait_ready()
        self.layout.api_ready.touch()
        plane.start_controller_manager()
        plane.start_scheduler()
        for name in self.nodes:
            self.wait_node_ready(name, begin)
        addons.install_dns(plane.api, self.layout.nodes[0].name)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        poll(lambda: plane.api.exists(account), "service account default/default")
        poll(lambda: addons.dns_is_ready(plane.api, begin), "CoreDNS")

    def wait_node_ready(self, name: str, since: float = 0, timeout_s: float = 60) -> None:
        """Ready by a report of the kubelet no older than `since`: a kept state holds old ones."""
        def ready() -> bool:
            try:
                node = self.control_plane.api.get(f"/api/v1/nodes/{name}")
            except (ApiError, OSError):
                return False
            for condition in node["status"].get("conditions", []):
                if condition["type"] == "Ready" and condition["status"] == "True":
                    taints = [taint["key"] for taint in node["spec"].get("taints", [])]
                    return (parse_time(condition["lastHeartbeatTime"]) >= int(since)
                            and "node.kubernetes.io/not-ready" not in taints)
            return False

        poll(ready, f"{name} to be Ready", timeout_s)
        poll(self.nodes[name].serves_services, f"kube-proxy of {name}", timeout_s)

    def node(self, name: str) -> Node:
        return self.nodes[self.layout.node(name).name]

    def start_node(self, name: str) -> None:
        begin = time.time()
        node = self.node(name)
        node.start(self.kubernetes, addons.system_images())
        self.wait_node_ready(node.address.name, begin)

    def start_api_server(self, restart_clients: bool) -> None:
        """After an outage every client's watches are in back-off for up to 30 s, so nodes turn
        NotReady and nothing is scheduled meanwhile; restarting the clients ends that. Containers
        do not notice."""
        begin = time.time()
        plane = self.control_plane
        plane.start_api_server()
        plane.wait_ready()
        if not restart_clients:
            return
        for daemon, start in ((plane.controller_manager, plane.start_controller_manager),
                              (plane.scheduler, plane.start_scheduler)):
            daemon.kill()
            start()
        running = [node for node in self.nodes.values() if node.holder.pid]
        for node in running:
            node.restart_program("kubelet")
            node.restart_program("kube-proxy")
        for node in running:
            self.wait_node_ready(node.address.name, begin)

    def load_image(self, archive: pathlib.Path) -> bool:
        """Imports a docker or OCI archive into every node that lacks it; False if none did."""
        image_id, tags = image_of_archive(archive)
        marker_text = f"{image_id} {' '.join(tags)}" if image_id else run("sha256sum", archive)
        name = "archive-" + "".join(c if c.isalnum() else "-" for c in (tags[0] if tags else archive.name))

        def load(node: Node) -> bool:
            marker = node.directory / "imported" / name
            if marker.exists() and marker.read_text() == marker_text:
                return False
            node.import_image(archive)
            marker.write_text(marker_text)
            return True

        with concurrent.futures.ThreadPoolExecutor() as pool:
            return any(list(pool.map(load, self.nodes.values())))

    def token_kubeconfig(self, token: str) -> pathlib.Path:
        folder = self.layout.state / "tokens"
        folder.mkdir(exist_ok=True)
        file = folder / (hashlib.sha256(token.encode()).hexdigest()[:16] + ".kubeconfig")
        write_token_kubeconfig(file, self.layout.api_url, self.control_plane.authority.ca, token)
        return file

    def variables(self) -> dict:
        return {
            "KUBECONFIG": self.control_plane.kubeconfig,
            "PAWL_CLUSTER_STATE": self.layout.state,
            "PAWL_CLUSTER_NODES": " ".join(self.nodes),
            "PAWL_CLUSTER_API": self.layout.api_url,
            "PAWL_CLUSTER_HOST_IP": self.layout.host_ip,
            "KUBECTL": self.newest["kubectl"],
        }
