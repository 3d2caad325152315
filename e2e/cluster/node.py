"""One node: a network namespace and a holder, the PID 1 of a private PID and mount namespace,
with a containerd, a kubelet and a kube-proxy of its own (node/init.sh)."""

import http.client
import os
import pathlib
import string
import subprocess
import time

import layout as names
from process import Daemon, poll, run, send_kill

_CGROUPS = pathlib.Path("/sys/fs/cgroup")


class Node:
    def __init__(self, layout: names.Layout, address: names.NodeAddress):
        self.address = address
        self._layout = layout
        self.directory = layout.state / address.name
        self.holder = Daemon(layout.state, address.name)
        self.socket = self.directory / "containerd.sock"

    def configure(self, authority, api_url: str) -> None:
        for folder in ("cni", "imported"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        (self.directory / "resolv.conf").write_text("")
        name = self.address.name
        node = authority.issue(name, f"system:node:{name}", "system:nodes", [name, self.address.ip])
        node.write_kubeconfig(self._kubelet_kubeconfig, api_url)
        proxy = authority.issue("kube-proxy", "system:kube-proxy")
        proxy_kubeconfig = proxy.write_kubeconfig(self.directory / "kube-proxy.kubeconfig", api_url)
        values = {
            "dir": self.directory, "name": name, "pod_cidr": self.address.pod_cidr,
            "dns_ip": names.DNS_SERVICE_IP, "ca": authority.ca, "certificate": node.certificate,
            "key": node.key, "cgroup": self._layout.cgroup(self.address),
            "proxy_kubeconfig": proxy_kubeconfig,
        }
        for file in ("containerd.toml", "kubelet.yaml", "kube-proxy.yaml"):
            self._fill(file, self.directory / file, values)
        self._fill("cni.conflist", self.directory / "cni" / "10-pods.conflist", values)

    @property
    def _kubelet_kubeconfig(self) -> pathlib.Path:
        return self.directory / "kubelet.kubeconfig"

    @staticmethod
    def _fill(template: str, target: pathlib.Path, values) -> None:
        text = (names.HERE / "node" / template).read_text()
        target.write_text(string.Template(text).substitute(values))

    def start(self, kubernetes, images=()) -> None:
        """Power on. Returns at once; the API tells when the node is Ready."""
        if self.holder.pid:
            return
        for mark in self.directory.glob("stopped-*"):
            mark.unlink()
        pathlib.Path("/var/log/containers").mkdir(parents=True, exist_ok=True)
        create_cgroup(self._layout.cgroup(self.address))
        self.holder.start(
            ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
             "--mount-proc", "bash", names.HERE / "node" / "init.sh"],
            self._layout.netns(self.address.letter),
            {"DIR": str(self.directory), "NAME": self.address.name, "IP": self.address.ip,
             "KUBERNETES": str(kubernetes.folder), "KUBECONFIG": str(self._kubelet_kubeconfig),
             "API_READY": str(self._layout.api_ready), "IMAGES": " ".join(str(image) for image in images)})

    def serves_services(self) -> bool:
        """kube-proxy has written its rules at least once. Before that a connection to a Service
        goes nowhere, and who opens one waits out a time-out of many seconds."""
        connection = http.client.HTTPConnection(self.address.ip, 10256, timeout=1)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _init_pid(self) -> int:
        """PID 1 of the node as this namespace numbers it: the only child of the holder."""
        pid = self.holder.pid
        if not pid:
            return 0
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def kill(self) -> None:
        """Power-off: every process of the node, its containers too, is gone on return."""
        namespace = self._pid_namespace(self._init_pid())
        self.holder.kill()
        if namespace:
            poll(lambda: not self._pids_in(namespace), f"power-off of {self.address.name}", 20, 0.02)

    @staticmethod
    def _pid_namespace(pid: int) -> int:
        try:
            return os.stat(f"/proc/{pid}/ns/pid").st_ino if pid else 0
        except OSError:
            return 0

    def _pids_in(self, namespace: int) -> list:
        pids = (int(entry.name) for entry in pathlib.Path("/proc").glob("[0-9]*"))
        return [pid for pid in pids if self._pid_namespace(pid) == namespace]

    def stop_program(self, program: str) -> None:
        """kill -9, and init.sh does not start it again before restart_program()."""
        (self.directory / f"stopped-{program}").touch()
        self._kill_program(program)

    def restart_program(self, program: str) -> None:
        """kill -9 of the node's kubelet, containerd or kube-proxy; init.sh starts it again."""
        (self.directory / f"stopped-{program}").unlink(missing_ok=True)
        self._kill_program(program)

    def _kill_program(self, program: str) -> None:
        for pid in self._pids_in(self._pid_namespace(self._init_pid())):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if pathlib.Path(words[0].decode()).name == program:
                send_kill(pid)

    def _ctr(self, *words) -> str:
        return run("ctr", "-a", self.socket, "-n", "k8s.io", *words)

    def import_image(self, archive: pathlib.Path) -> None:
        if not self.holder.pid:
            raise SystemExit(f"{self.address.name} is off; start it before loading images")
        poll(self._containerd_answers, f"containerd of {self.address.name}")
        self._ctr("images", "import", archive)

    def _containerd_answers(self) -> bool:
        probe = ["ctr", "-a", str(self.socket), "version"]
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0

    def images(self) -> list:
        return self._ctr("images", "ls", "-q").split()


def _hierarchies() -> list:
    return [path for path in _CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def create_cgroup(name: str) -> None:
    """In every hierarchy of cgroup v1; a new cpuset is unusable until it is filled."""
    for hierarchy in _hierarchies():
        folder = hierarchy / name
        folder.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / setting).exists() and (folder / setting).exists():
                (folder / setting).write_text((hierarchy / setting).read_text())


def remove_cgroups(prefix: str, timeout_s: float = 5) -> None:
    """After the processes are gone; the kernel takes a moment to notice the last of them."""
    deadline = time.monotonic() + timeout_s
    while True:
        left = []
        for hierarchy in _hierarchies():
            for root in hierarchy.glob(prefix + "-*"):
                for folder, _, _ in os.walk(root, topdown=False):
                    try:
                        os.rmdir(folder)
                    except OSError:
                        left.append(folder)
        if not left or time.monotonic() > deadline:
            return
        time.sleep(0.05)
