"""Where a cluster lives and how its parts are addressed. No side effects but cluster.json.

A cluster is named by its state directory: everything it writes is below it, its network
interfaces carry a prefix derived from it, and its processes carry it in their environment.
So two clusters on one machine do not meet, and clean-up can tell its own from others'.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import string

HERE = pathlib.Path(__file__).resolve().parent
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_SERVICE_IP = "10.96.0.10"
ISSUER = "https://kubernetes.default.svc"
OWNER_VARIABLE = "PAWL_CLUSTER_OWNER"


def cache_dir() -> pathlib.Path:
    default = pathlib.Path.home() / ".cache" / "pawl"
    return pathlib.Path(os.environ.get("PAWL_CACHE") or default)


def default_state_dir() -> pathlib.Path:
    return pathlib.Path(os.environ.get("PAWL_CLUSTER_DIR") or "/tmp/pawl-e2e")


@dataclasses.dataclass(frozen=True)
class NodeAddress:
    name: str       # node-a
    letter: str     # a
    ip: str
    pod_cidr: str


class Layout:
    """Paths and addresses. `index` (0-9) picks the address ranges, `node_count` the nodes;
    `programs` is the folder of the Kubernetes programs that the nodes were started with, and `newest` that
    of a newer release's, which the control plane was started with; empty: it has the same."""

    def __init__(self, state_dir, index: int = 0, node_count: int = 2, programs: str = "", newest: str = ""):
        self.state = pathlib.Path(state_dir).resolve()
        self.index = index
        self.node_count = node_count
        self.programs = programs
        self.newest = newest

    @classmethod
    def load(cls, state_dir) -> "Layout":
        """The layout of the cluster that was started in `state_dir`."""
        file = pathlib.Path(state_dir).resolve() / "cluster.json"
        if not file.exists():
            raise SystemExit(f"no cluster in {file.parent}: run 'cluster.py up' first")
        return cls(state_dir, **json.loads(file.read_text()))

    def save(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"index": self.index, "node_count": self.node_count, "programs": self.programs,
                           "newest": self.newest})
        (self.state / "cluster.json").write_text(text + "\n")

    # Names of interfaces have at most 15 characters, so the prefix is a short hash.
    @property
    def prefix(self) -> str:
        return "pw" + hashlib.sha256(str(self.state).encode()).hexdigest()[:6]

    def netns(self, letter: str) -> str:
        return f"{self.prefix}-{letter}"

    @property
    def control_plane_netns(self) -> str:
        return self.netns("cp")

    @property
    def subnet(self) -> str:
        return f"10.{77 + 2 * self.index}.0"

    @property
    def control_plane_ip(self) -> str:
        return self.subnet + ".1"

    @property
    def host_ip(self) -> str:
        """Where pods reach a server that the test runs outside of the cluster."""
        return self.subnet + ".254"

    @property
    def nodes(self) -> list:
        pods = f"10.{78 + 2 * self.index}"
        letters = string.ascii_lowercase[: self.node_count]
        return [
            NodeAddress(f"node-{l}", l, f"{self.subnet}.{11 + i}", f"{pods}.{11 + i}.0/24")
            for i, l in enumerate(letters)
        ]

    def node(self, name: str) -> NodeAddress:
        """By its name or letter: node-b, b."""
        for node in self.nodes:
            if name in (node.name, node.letter):
                return node
        known = ", ".join(n.name for n in self.nodes)
        raise SystemExit(f"unknown node {name!r}; there are {known}")

    def addresses(self, place: str) -> list:
        """Of `control-plane`, of a node with its pods, or of what is an address already."""
        if place == "control-plane":
            return [self.control_plane_ip]
        if place[:1].isdigit():
            return [place]
        node = self.node(place)
        return [node.ip, node.pod_cidr]

    def cgroup(self, node: NodeAddress) -> str:
        return f"{self.prefix}-{node.letter}"

    @property
    def api_ready(self) -> pathlib.Path:
        """Exists once the API server of this run has answered."""
        return self.state / "run" / "api-ready"

    @property
    def api_url(self) -> str:
        return f"https://{self.control_plane_ip}:6443"
