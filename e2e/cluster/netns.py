"""The network of a cluster: one namespace for the control plane, one for each node.

  P-cp : bridge br0 .1, etcd, API server ...   P-a : eth0 .11, pods 10.78.11.0/24   P-b : ...
  root : veth P-host .254; the test reaches the API and the pods' IPs, not ClusterIPs

In the root namespace there is one veth end and its routes, so no port, bridge or packet
filter rule of the machine is met or changed. P is the layout's prefix.
"""

import fcntl
import json
import os
import subprocess
import tempfile

from layout import Layout
from process import run

MAX_CLUSTERS = 10


def _batch(lines, netns: str = "") -> None:
    place = ["-n", netns] if netns else []
    run("ip", *place, "-batch", "-", input="\n".join(lines) + "\n")


def existing_namespaces() -> set:
    try:
        return set(os.listdir("/run/netns"))
    except FileNotFoundError:
        return set()


class AddressLock:
    """Held while a cluster picks its address range and creates the interface that claims it."""

    def __enter__(self):
        self._file = open(os.path.join(tempfile.gettempdir(), "pawl-cluster-addresses.lock"), "w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *unused):
        self._file.close()

    @staticmethod
    def is_free(index: int) -> bool:
        """No interface of the machine uses the range."""
        used = {a["local"].rpartition(".")[0] for link in json.loads(run("ip", "-j", "-4", "addr"))
                for a in link.get("addr_info", []) if "local" in a}
        return Layout("/", index).subnet not in used

    def free_index(self) -> int:
        for index in range(MAX_CLUSTERS):
            if self.is_free(index):
                return index
        raise SystemExit(f"{MAX_CLUSTERS} clusters run already")


class Network:
    def __init__(self, layout: Layout):
        self._layout = layout
        self._host_link = f"{layout.prefix}-host"

    @property
    def namespaces(self) -> list:
        """Ours that exist; by prefix, so that a run with more nodes is cleaned up too."""
        return sorted(n for n in existing_namespaces() if n.startswith(self._layout.prefix + "-"))

    def create(self) -> None:
        layout, control = self._layout, self._layout.control_plane_netns
        _batch([f"netns add {control}"] + [f"netns add {layout.netns(n.letter)}" for n in layout.nodes])
        _batch([f"link add {self._host_link} type veth peer name host netns {control}",
                f"addr add {layout.host_ip}/24 dev {self._host_link}",
                f"link set {self._host_link} up"]
               + [f"route add {n.pod_cidr} via {n.ip}" for n in layout.nodes])
        lines = ["link set lo up", "link add br0 type bridge", "link set host master br0",
                 "link set host up", f"addr add {layout.control_plane_ip}/24 dev br0", "link set br0 up"]
        for node in layout.nodes:
            lines += [f"link add v{node.letter} type veth peer name eth0 netns {layout.netns(node.letter)}",
                      f"link set v{node.letter} master br0", f"link set v{node.letter} up"]
        lines += [f"route add {n.pod_cidr} via {n.ip}" for n in layout.nodes]
        _batch(lines, control)
        self._sysctl(control, "net.ipv4.ip_forward=1")
        for node in layout.nodes:
            self._create_node(node)

    def _create_node(self, node) -> None:
        layout, name = self._layout, self._layout.netns(node.letter)
        _batch(["link set lo up", f"addr add {node.ip}/24 dev eth0", "link set eth0 up",
                f"route add default via {layout.control_plane_ip}"]
               + [f"route add {o.pod_cidr} via {o.ip}" for o in layout.nodes if o != node], name)
        self._sysctl(name, "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                     "net.ipv4.conf.default.rp_filter=0", "net.ipv4.conf.eth0.rp_filter=0")

    @staticmethod
    def _sysctl(netns: str, *settings) -> None:
        run("nsenter", f"--net=/run/netns/{netns}", "sysctl", "-qw", *settings)

    def cut(self, node) -> None:
        """A partition: the node runs on and reaches nobody."""
        self._set_link(node, "down")

    def heal(self, node) -> None:
        self._set_link(node, "up")

    def block(self, first, second) -> None:
        """Packets between the two lists of addresses are lost, in both directions, wherever a node receives
        them. The API server is met by its answers: a pod's way to it is translated later than this."""
        for node in self._layout.nodes:
            for sources, targets in ((first, second), (second, first)):
                for source in sources:
                    for target in targets:
                        self._iptables(node, "-I", "PREROUTING", "-s", source, "-d", target, "-j", "DROP")

    def unblock(self) -> None:
        """Ends all of block(); nobody else uses this table here."""
        for node in self._layout.nodes:
            self._iptables(node, "-F", "PREROUTING")

    def _iptables(self, node, *words) -> None:
        run("nsenter", f"--net=/run/netns/{self._layout.netns(node.letter)}", "iptables", "-w", "-t", "raw", *words)

    def _set_link(self, node, how: str) -> None:
        run("ip", "-n", self._layout.control_plane_netns, "link", "set", f"v{node.letter}", how)

    def destroy(self) -> None:
        """After the processes are gone. Bridges, routes and rules go with the namespaces."""
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._host_link], capture_output=True, check=False)
        if self.namespaces:
            raise RuntimeError(f"network namespaces left: {', '.join(self.namespaces)}")
