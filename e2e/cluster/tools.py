"""The Go programs, by way of tools.sh, which builds what the cache lacks."""

import pathlib
import subprocess

from layout import HERE


def tool(name: str) -> pathlib.Path:
    result = subprocess.run([str(HERE / "tools.sh"), name], stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"tools.sh {name} failed, see above")
    return pathlib.Path(result.stdout.strip())


class Kubernetes:
    """The folder with a link per program: etcd, kube-apiserver, kubelet, kubectl ..."""

    def __init__(self):
        self.folder = tool("kubernetes").parent

    def __getitem__(self, program: str) -> str:
        return str(self.folder / program)
