"""etcd and kube-apiserver on free loopback ports, for tests of an API client.

No network namespaces, no nodes, no root needed. Every state directory is its own server,
so test programs can each have one at the same time. Authentication is by static tokens,
which a test can put into a header without client certificates.
"""

import pathlib
import shutil
import subprocess

from control_plane import ControlPlane, DiedError, Endpoint
from layout import HERE
from pki import write_token_kubeconfig
from process import free_port, kill_all, poll
from tools import Kubernetes

# name: (token, user, groups). `nobody` is authenticated and may do nothing.
_USERS = {
    "admin": ("pawl-e2e-admin-token", "admin", "system:masters"),
    "nobody": ("pawl-e2e-nobody-token", "nobody", ""),
}


class ApiServerOnly:
    def __init__(self, state):
        self.state = pathlib.Path(state).resolve()

    def up(self, with_controller_manager: bool, with_garbage_collector: bool = False) -> None:
        self.down()
        self.state.mkdir(parents=True, exist_ok=True)
        for attempt in range(3):  # someone else may take a port between the probe and the bind
            try:
                self._start(with_controller_manager, with_garbage_collector)
                return
            except DiedError:
                kill_all(self.state, [])
                if attempt == 2:
                    raise

    def _start(self, with_controller_manager: bool, with_garbage_collector: bool) -> None:
        port, etcd_port = free_port(), free_port()
        endpoint = Endpoint("127.0.0.1", "127.0.0.1", port=port, etcd_port=etcd_port)
        plane = ControlPlane(self.state, endpoint, Kubernetes())
        plane.start_etcd()
        plane.create_identities()
        self._write_tokens(endpoint.url, plane.authority.ca)
        extra = [f"--token-auth-file={self.state / 'tokens.csv'}"]
        with_accounts = with_controller_manager or with_garbage_collector
        if not with_accounts:
            # It would refuse every pod, as nobody creates the namespace's service account.
            extra.append("--disable-admission-plugins=ServiceAccount")
        plane.start_api_server(extra)
        plane.wait_ready()
        if with_accounts:
            arguments = ["--secure-port=0"]
            if not with_controller_manager:
                self._apply_crds(plane)
                arguments.append("--controllers=garbage-collector-controller,serviceaccount-controller")
            plane.start_controller_manager(arguments)
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            poll(lambda: plane.api.exists(account), "service account default/default")
        self._write_variables(endpoint.url, plane.authority.ca)

    @staticmethod
    def _apply_crds(plane: ControlPlane) -> None:
        """Before the collector looks which kinds there are: it looks again only every 30 s."""
        kubectl = [Kubernetes()["kubectl"], f"--kubeconfig={plane.kubeconfig}"]
        crds = ["-f", str(HERE.parents[1] / "crds")]
        subprocess.run([*kubectl, "apply", "--server-side", *crds], check=True, stdout=subprocess.DEVNULL)
        # `kubectl wait` fails at once on a definition that has no conditions yet.
        wait = [*kubectl, "wait", "--for=condition=Established", *crds]
        poll(lambda: subprocess.run(wait, check=False, capture_output=True).returncode == 0, "established CRDs")

    def _write_tokens(self, url: str, ca: pathlib.Path) -> None:
        rows = []
        for name, (token, user, groups) in _USERS.items():
            rows.append(f'{token},{user},{user},"{groups}"')
            file = self.state / f"{name}.token"
            file.write_text(token)
            file.chmod(0o600)
            write_token_kubeconfig(self.state / f"{name}-token.kubeconfig", url, ca, token)
        (self.state / "tokens.csv").write_text("\n".join(rows) + "\n")

    def _write_variables(self, url: str, ca: pathlib.Path) -> None:
        values = {
            "KUBECONFIG": self.state / "kubeconfig",
            "PAWL_API_SERVER": url,
            "PAWL_API_CA_FILE": ca,
            "PAWL_API_TOKEN_FILE": self.state / "admin.token",
            "PAWL_API_TOKEN_KUBECONFIG": self.state / "admin-token.kubeconfig",
            "PAWL_API_NOBODY_TOKEN_FILE": self.state / "nobody.token",
            "PAWL_API_PID": (self.state / "run" / "kube-apiserver.pid").read_text().strip(),
        }
        text = "".join(f"{name}={value}\n" for name, value in values.items())
        (self.state / "env").write_text(text)

    @property
    def variables(self) -> str:
        return (self.state / "env").read_text()

    def down(self) -> None:
        kill_all(self.state, [])
        if (self.state / "run" / "etcd.pid").exists() or (self.state / "pki").exists():
            shutil.rmtree(self.state)
