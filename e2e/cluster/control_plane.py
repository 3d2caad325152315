"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler as background processes.

The same class serves the cluster (in its own network namespace, fixed ports) and
apiserver-only (on free loopback ports); Endpoint holds the difference.
"""

import dataclasses
import pathlib

import layout as names
from api import Api
from pki import Authority
from process import Daemon, poll

_SERVICE_NAMES = ["kubernetes", "kubernetes.default", "kubernetes.default.svc",
                  "kubernetes.default.svc.cluster.local", "localhost"]


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where the control plane runs. netns "" is the caller's own."""
    address: str
    bind: str
    netns: str = ""
    port: int = 6443
    etcd_port: int = 2379

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"


class ControlPlane:
    def __init__(self, state: pathlib.Path, endpoint: Endpoint, programs, has_pod_groups: bool = False):
        self._state = state
        self._endpoint = endpoint
        self._programs = programs
        self._node_grace_s = 8
        # A beta: off unless all of them are told. The controller manager takes a finalizer off groups without pods.
        self._gates = ["--feature-gates=GenericWorkload=true"] if has_pod_groups else []
        self._apis = ["--runtime-config=scheduling.k8s.io/v1beta1=true"] if has_pod_groups else []
        self.authority = Authority(state / "pki")
        self.etcd = Daemon(state, "etcd")
        self.api_server = Daemon(state, "kube-apiserver")
        self.controller_manager = Daemon(state, "kube-controller-manager")
        self.scheduler = Daemon(state, "kube-scheduler")

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self._state / "kubeconfig"

    @property
    def api(self) -> Api:
        return Api(self._endpoint.url, self._admin())

    def _admin(self):
        return self.authority.issue("admin", "pawl-e2e-admin", "system:masters")

    def create_identities(self) -> None:
        self.authority.create()
        addresses = sorted({self._endpoint.address, "127.0.0.1", names.API_SERVICE_IP})
        self.authority.issue("apiserver", "kube-apiserver", names=_SERVICE_NAMES + addresses)
        self._admin().write_kubeconfig(self.kubeconfig, self._endpoint.url)
        for part in ("kube-controller-manager", "kube-scheduler"):
            self._kubeconfig(part)

    def _kubeconfig(self, part: str) -> pathlib.Path:
        credential = self.authority.issue(part, f"system:{part}")
        return credential.write_kubeconfig(self._state / f"{part}.kubeconfig", self._endpoint.url)

    def start_etcd(self) -> None:
        """Without fsync: what it wrote outlives its kill, only not the machine's."""
        client = f"http://127.0.0.1:{self._endpoint.etcd_port}"
        self.etcd.start([
            self._programs["etcd"], f"--data-dir={self._state / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            "--listen-peer-urls=http://127.0.0.1:0", "--log-level=warn",
        ], self._endpoint.netns)

    def start_api_server(self, extra=()) -> None:
        """When etcd listens: whoever asks earlier waits out a back-off of 5 s."""
        poll(self._etcd_listens, "etcd", 30, 0.02)
        pki, endpoint, admin = self.authority.folder, self._endpoint, self._admin()
        self.api_server.start([
            self._programs["kube-apiserver"],
            f"--etcd-servers=http://127.0.0.1:{endpoint.etcd_port}",
            f"--bind-address={endpoint.bind}", f"--advertise-address={endpoint.address}",
            f"--secure-port={endpoint.port}", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={admin.certificate}",
            f"--kubelet-client-key={admin.key}",
            # Nodes have no DNS names here, so exec and logs must go by address.
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-issuer={names.ISSUER}",
            f"--service-account-jwks-uri={names.ISSUER}/openid/v1/jwks",
            f"--service-account-key-file={self.authority.service_account_public}",
            f"--service-account-signing-key-file={self.authority.service_account_key}",
            f"--service-cluster-ip-range={names.SERVICE_CIDR}",
            # No kube-proxy beside the API server: webhooks are called at their endpoints.
            "--enable-aggregator-routing=true", "--shutdown-delay-duration=0s", "--profiling=false",
            *self._gates, *self._apis, *extra,
        ], endpoint.netns)

    def _etcd_listens(self) -> bool:
        self._must_run(self.etcd)
        return self.etcd.is_listening(self._endpoint.etcd_port)

    @staticmethod
    def _must_run(daemon: Daemon) -> None:
        if not daemon.pid:
            raise DiedError(f"{daemon.log.name} ended:\n{daemon.log_tail()}")

    def wait_ready(self, timeout_s: float = 60) -> None:
        api = self.api

        def ready() -> bool:
            self._must_run(self.etcd)
            self._must_run(self.api_server)
            return api.is_ready()

        poll(ready, f"API server at {self._endpoint.url}", timeout_s, 0.05)

    def start_controller_manager(self, extra=()) -> None:
        """No leader election: with it, both exit when the API server is away for a while."""
        pki = self.authority.folder
        self.controller_manager.start([
            self._programs["kube-controller-manager"],
            f"--kubeconfig={self._state / 'kube-controller-manager.kubeconfig'}",
            "--leader-elect=false", "--use-service-account-credentials",
            f"--root-ca-file={pki / 'ca.crt'}",
            f"--service-account-private-key-file={self.authority.service_account_key}",
            f"--cluster-signing-cert-file={pki / 'ca.crt'}",
            f"--cluster-signing-key-file={pki / 'ca.key'}",
            "--node-monitor-period=1s", f"--node-monitor-grace-period={self._node_grace_s}s",
            "--node-startup-grace-period=15s", "--pvclaimbinder-sync-period=1s",
            # At the default rate its controllers take 5 s to start, one after the other.
            "--kube-api-qps=200", "--kube-api-burst=400", *self._gates, *extra,
        ], self._endpoint.netns)

    def start_scheduler(self, extra=()) -> None:
        self.scheduler.start([
            self._programs["kube-scheduler"], "--leader-elect=false",
            f"--kubeconfig={self._state / 'kube-scheduler.kubeconfig'}",
            "--kube-api-qps=200", "--kube-api-burst=400", *self._gates, *extra,
        ], self._endpoint.netns)


class DiedError(RuntimeError):
    """A program ended while it was waited for."""
