"""The end-to-end tests: images from our Dockerfile, the Helm chart, jobs that train on a real two-node Kubernetes.

run.py [--long] [--newest] [--keep] [SCENARIO…]: brings the cluster up, installs Pawl, runs the scenarios, each in a namespace of its
own that enforces the restricted Pod Security Standard: two at a time, then one by one those of modules that say ALONE,
because they break what all share. The last line is "N passed, N failed".
"""

import argparse
import concurrent.futures
import importlib
import os
import pathlib
import signal
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib import install  # noqa: E402
from lib.kube import cluster, kubectl, until  # noqa: E402

LANES = 2  # most of a scenario is waiting
MODULES = ["training", "recovery", "operator_loss", "suspend", "deletion", "refusals", "failures", "foreign", "tokens",
           "placement", "provisioning", "interruptions", "partitions", "pod_groups"]


def scenarios(kinds):
    for name in MODULES:
        module = importlib.import_module(f"scenarios.{name}")
        for key, value in vars(module).items():
            kind, _, rest = key.partition("_")
            if kind in kinds and rest:
                yield f"{name}.{rest}", value


def fresh_namespace(name):
    namespace = name.replace(".", "-").replace("_", "-")[:50].strip("-")
    kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait")
    kubectl("create", "namespace", namespace)
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    until("the namespace has its default ServiceAccount",
          lambda: kubectl("get", "sa", "default", "-n", namespace))
    return namespace


def run_one(name, function):
    start = time.monotonic()
    try:
        namespace = fresh_namespace(name)
        function(namespace)
        kubectl("delete", "namespace", namespace, "--wait=false")
    except Exception:  # noqa: BLE001: a scenario may fail in any way; the others still run
        print(f"FAILED {name} ({time.monotonic() - start:.1f} s)", flush=True)
        traceback.print_exc()
        return False
    print(f"ok     {name} ({time.monotonic() - start:.1f} s)", flush=True)
    return True


def run_all(chosen):
    """Whether each passed."""
    alone = [one for one in chosen if needs_all(one[1])]
    lanes = concurrent.futures.ThreadPoolExecutor(LANES)
    try:
        results = list(lanes.map(lambda one: run_one(*one), [one for one in chosen if one not in alone]))
    finally:
        lanes.shutdown(wait=False, cancel_futures=True)  # a cancelled run does not wait for the others
    return results + [run_one(*one) for one in alone]


def needs_all(function):
    return getattr(sys.modules[function.__module__], "ALONE", False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="also the scenarios that take minutes")
    parser.add_argument("--newest", action="store_true",
                        help="on the newest Kubernetes' control plane; also the scenarios that need one")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    parser.add_argument("--reuse", action="store_true", help="use the cluster that is up and installed")
    parser.add_argument("only", nargs="*", help="names or their beginnings")
    options = parser.parse_args()
    kinds = {"test"} | ({"long"} if options.long else set()) | ({"newest"} if options.newest else set())
    chosen = [(name, function) for name, function in scenarios(kinds)
              if not options.only or any(name.startswith(prefix) for prefix in options.only)]
    passed = failed = 0
    is_cancelled = False
    # A cancelled run takes its cluster down, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if not options.reuse:
            install.bring_up(options.newest)
        results = run_all(chosen)
        passed, failed = results.count(True), results.count(False)
    except SystemExit:
        is_cancelled = True
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        failed += 1
    finally:
        if not options.keep and not options.reuse:
            cluster("down", check=False)
    if is_cancelled:
        os._exit(143)  # scenarios under way would wait for a cluster that is gone
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
