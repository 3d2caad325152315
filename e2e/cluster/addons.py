"""What a cluster needs beyond its programs: the pause and CoreDNS images, CoreDNS itself,
volumes that several nodes share, and GPUs that only the API knows of."""

import hashlib
import pathlib

import layout as names
from api import Api, parse_time
from archive import File, write_image
from process import poll, run
from tools import tool

_COREFILE = """.:5353 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa {
        pods insecure
        ttl 5
    }
    cache 5
}
"""


def compile_static(source: pathlib.Path, compiler: str = "gcc", flags=("-static",)) -> pathlib.Path:
    """The program of one C file, cached by its content."""
    words = [compiler, "-O2", "-s", "-Wall", "-Werror", *flags]
    key = hashlib.sha256(source.read_bytes() + " ".join(words).encode()).hexdigest()[:12]
    target = names.cache_dir() / "programs" / f"{source.stem}-{compiler}-{key}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{id(words)}")
        run(*words, "-o", partial, source)
        partial.rename(target)
    return target


def system_images() -> list:
    """Archives that every node has before its first pod."""
    folder = names.cache_dir() / "images"
    pause = compile_static(names.HERE / "programs" / "pause.c")
    coredns = tool("coredns")
    return [
        write_image(folder / "pause.tar", "localhost/pause:1", [File("pause", pause)], ["/pause"]),
        write_image(folder / "coredns.tar", "localhost/coredns:1", [File("coredns", coredns)], ["/coredns"]),
    ]


def _dns_pod_spec(node: str) -> dict:
    """On one fixed node, the one that failure tests leave alone, so that names always resolve."""
    return {
        "nodeName": node, "serviceAccountName": "coredns",
        "tolerations": [{"operator": "Exists"}],
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "coredns", "image": "localhost/coredns:1", "imagePullPolicy": "Never",
            "args": ["-conf", "/etc/coredns/Corefile"],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
            "securityContext": {"runAsUser": 1000, "runAsNonRoot": True, "readOnlyRootFilesystem": True,
                                "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
        }],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }


def install_dns(api: Api, node: str) -> None:
    meta = {"name": "coredns", "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "coredns"}
    watch = ["list", "watch"]
    labels = {"k8s-app": "kube-dns"}
    core, rbac = "/api/v1/namespaces/kube-system", "/apis/rbac.authorization.k8s.io/v1"
    api.apply(f"{core}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    api.apply(f"{core}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
                                     "data": {"Corefile": _COREFILE}})
    api.apply(f"{rbac}/clusterroles", {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "coredns"},
        "rules": [{"apiGroups": [""], "resources": ["services", "namespaces", "pods"], "verbs": watch},
                  {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch}]})
    api.apply(f"{rbac}/clusterrolebindings", {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "coredns"}, "roleRef": role,
        "subjects": [{"kind": "ServiceAccount", **meta}]})
    api.apply(f"{core}/services", {
        "apiVersion": "v1", "kind": "Service", "metadata": {**meta, "name": "kube-dns"},
        "spec": {"clusterIP": names.DNS_SERVICE_IP, "selector": labels, "ports": [
            {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "targetPort": 5353, "protocol": "TCP"}]}})
    api.apply("/apis/apps/v1/namespaces/kube-system/deployments", {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "strategy": {"type": "Recreate"},
                 "template": {"metadata": {"labels": labels}, "spec": _dns_pod_spec(node)}}})


def dns_is_ready(api: Api, since: float) -> bool:
    """By a container that started after `since`: a kept state holds the readiness of the last run."""
    path = "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns"
    for pod in api.get(path)["items"]:
        for container in pod.get("status", {}).get("containerStatuses", []):
            started = container["state"].get("running", {}).get("startedAt")
            if container["ready"] and started and parse_time(started) >= int(since):
                return True
    return False


def create_volume(api: Api, folder: pathlib.Path, name: str, namespace: str, size: str) -> pathlib.Path:
    """A claim that any number of pods on all nodes write to. A `local` volume and not a
    hostPath: only for the former the kubelet gives the pod's fsGroup the folder."""
    target = folder / f"{namespace}.{name}"
    target.mkdir(parents=True, exist_ok=True)
    volume = f"{namespace}.{name}"
    claim = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    any_node = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    api.apply("/api/v1/persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteMany"],
                 "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "e2e-shared",
                 "claimRef": {"namespace": namespace, "name": name},
                 "local": {"path": str(target)},
                 "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [any_node]}]}}}})
    if api.get(f"/api/v1/persistentvolumes/{volume}").get("status", {}).get("phase") == "Released":
        # Bound to a claim of the same name that is gone: a deleted namespace that came back.
        api.call("PATCH", f"/api/v1/persistentvolumes/{volume}",
                 {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}, "application/merge-patch+json")
    api.apply(claim, {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "e2e-shared",
                 "volumeName": volume, "resources": {"requests": {"storage": size}}}})
    poll(lambda: api.get(f"{claim}/{name}").get("status", {}).get("phase") == "Bound",
         f"claim {namespace}/{name} to be bound", 30)
    return target


def set_gpus(api: Api, node: str, count: int) -> None:
    """The scheduler counts them as real; in the container there are no devices. Allocatable
    follows with the kubelet's next status, which this waits for."""
    patch = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(count)}]
    api.call("PATCH", f"/api/v1/nodes/{node}/status", patch, "application/json-patch+json")
    poll(lambda: api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"].get("nvidia.com/gpu") == str(count),
         f"{count} GPUs on {node}", 30)
