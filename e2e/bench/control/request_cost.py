"""What one request costs kube-apiserver: processor time of one kind after the other, sent singly to an idle server, with
the very objects of a job of Pawl's."""

import copy
import sys
import time

from .contenders import CONTAINER, Pawl, install_pawl
from .figures import cpu_seconds, wait_until_idle
from .plane import NAMESPACE, Plane, poll

COUNT = 300
_CORE, _PAWL = f"/api/v1/namespaces/{NAMESPACE}", f"/apis/pawl.dev/v1alpha1/namespaces/{NAMESPACE}"
_RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
PATHS = {"serviceaccounts": f"{_CORE}/serviceaccounts", "roles": f"{_RBAC}/roles", "rolebindings": f"{_RBAC}/rolebindings",
         "poddisruptionbudgets": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
         "workergroups": f"{_PAWL}/workergroups", "trainingjobs": f"{_PAWL}/trainingjobs", "pods": f"{_CORE}/pods"}


def measure():
    """"VERB resource" → milliseconds."""
    with Plane(4) as plane:
        install_pawl(plane)
        pawl = Pawl()
        pawl.start(plane)
        plane.post(Pawl.path, pawl.job(2))
        poll(lambda: _phase(plane) == "Running", "a running job", 60)
        samples = {name: _sample(plane, path) for name, path in PATHS.items()}
        for daemon in ("pawl-operator", "kwok", "kube-scheduler", "kube-controller-manager"):
            plane.daemons[daemon].kill()
        wait_until_idle(plane)
        return {"request_ms": _costs(plane, samples)}


def _phase(plane):
    return plane.control.api.get(f"{Pawl.path}/job-0").get("status", {}).get("phase", "")


def _sample(plane, path):
    """An object of the job's; lists do not say of what kind their items are, so it is read by itself."""
    names = [item["metadata"]["name"] for item in plane.control.api.get(path)["items"]]
    return plane.control.api.get(f"{path}/{next(name for name in names if name.startswith('job-0'))}")


def _anew(sample):
    """To be created under another name."""
    new = copy.deepcopy(sample)
    kept = ("labels", "annotations", "ownerReferences")
    new["metadata"] = {"name": "copy-$I", **{key: sample["metadata"][key] for key in kept if key in sample["metadata"]}}
    new.pop("status", None)
    new.get("spec", {}).pop("nodeName", None)
    return new


def _costs(plane, samples):
    costs = {}

    def take(what, path, body, method="POST"):
        pid = plane.daemons["kube-apiserver"].pid
        time.sleep(1)
        before = cpu_seconds(pid)
        plane.post(path, body, count=COUNT, method=method, parallel=1)
        costs[what] = round(1000 * (cpu_seconds(pid) - before) / COUNT, 2)
        print(f"{what:32} {costs[what]:6.2f} ms", file=sys.stderr, flush=True)

    for name, path in PATHS.items():
        take(f"POST {name}", path, _anew(samples[name]))
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare-$I"},
            "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    take("POST pods (bare)", PATHS["pods"], bare)
    pod_status = {"status": samples["pods"]["status"]}
    take("PATCH pods/status", f"{PATHS['pods']}/copy-$I/status", pod_status, "PATCH")
    take("PATCH pods/status (bare)", f"{PATHS['pods']}/bare-$I/status", pod_status, "PATCH")
    take("PATCH trainingjobs/status", f"{PATHS['trainingjobs']}/copy-$I/status",
         {"status": samples["trainingjobs"]["status"]}, "PATCH")
    take("PATCH workergroups", f"{PATHS['workergroups']}/copy-$I", {"spec": {"reportSeconds": 17}}, "PATCH")
    return costs
