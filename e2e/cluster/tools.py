"""The Go programs, by way of tools.sh, which builds what the cache lacks."""

import os
import pathlib
import shutil
import subprocess

from layout import HERE

_NEEDED = ["containerd", "ctr", "runc", "iptables", "conntrack", "ip", "nsenter", "unshare", "sysctl", "openssl",
           "gcc", "/usr/lib/cni/ptp"]


def check_machine() -> None:
    """Says what is missing before anything starts."""
    if os.geteuid() != 0:
        raise SystemExit("nodes need network namespaces and mounts: run as root")
    if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        raise SystemExit("this machine has cgroup v2 only, and the nodes need v1 or hybrid: boot with "
                         "systemd.unified_cgroup_hierarchy=0")
    missing = [program for program in _NEEDED if not shutil.which(program)]
    if missing:
        packages = HERE / "apt-packages.txt"
        raise SystemExit(f"missing: {', '.join(missing)}; install the packages of {packages}")


def tool(name: str) -> pathlib.Path:
    result = subprocess.run([str(HERE / "tools.sh"), name], stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"tools.sh {name} failed, see above")
    return pathlib.Path(result.stdout.strip())


class Kubernetes:
    """The folder with a link per program: etcd, kube-apiserver, kubelet, kubectl ..."""

    def __init__(self, folder: str = "", release: str = "kubernetes"):
        self.folder = pathlib.Path(folder) if folder else tool(release).parent

    def __getitem__(self, program: str) -> str:
        return str(self.folder / program)
