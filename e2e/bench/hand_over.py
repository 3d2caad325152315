"""How long nobody leads: two operators above a real API server (no nodes), with the rights that the chart gives them.

hand_over.py OPERATOR [--rounds N] [--kills N] [--idle SECONDS]: OPERATOR is the program. The leader is told to go (SIGTERM), N
times; the gap ends with the time that its successor writes into the lease. Then it is killed (kill -9). Then nothing happens
for a while, and the requests that the API server counted meanwhile are told. The last line is RESULT {json}."""

import argparse
import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "e2e" / "cluster"
sys.path.insert(0, str(CLUSTER))
from tools import Kubernetes, tool  # noqa: E402

NAMESPACE = "pawl-system"


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.kubectl_program = Kubernetes()["kubectl"]

    def __enter__(self):
        subprocess.run([sys.executable, CLUSTER / "cluster.py", "apiserver-only", "up", "--dir", self.folder], check=True,
                       stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        subprocess.run([sys.executable, CLUSTER / "cluster.py", "apiserver-only", "down", "--dir", self.folder],
                       check=False)

    def kubectl(self, *arguments, stdin=None):
        command = [self.kubectl_program, "--kubeconfig", self.folder / "kubeconfig", *arguments]
        return subprocess.run(command, input=stdin, text=True, check=True, capture_output=True).stdout

    def install(self):
        """The chart without its Deployment having anywhere to run; a kubeconfig with the operator's own token."""
        self.kubectl("apply", "--server-side", "-f", ROOT / "charts" / "pawl" / "crds")
        self.kubectl("create", "namespace", NAMESPACE)
        images = [part for name in ("operator", "launcher", "worker") for part in ("--set", f"image.{name}={name}")]
        manifests = subprocess.run([tool("helm"), "template", "pawl", ROOT / "charts" / "pawl", "-n", NAMESPACE, *images],
                                   text=True, check=True, capture_output=True).stdout
        self.kubectl("apply", "-f", "-", stdin=manifests)
        token = self.kubectl("create", "token", "pawl-operator", "-n", NAMESPACE).strip()
        config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        for user in config["users"]:
            user["user"] = {"token": token}
        file = self.folder / "operator.kubeconfig"
        file.write_text(json.dumps(config))
        return file

    def lease(self):
        try:
            text = self.kubectl("get", "lease", "pawl-operator", "-n", NAMESPACE, "-o", "json")
        except subprocess.CalledProcessError:
            return {}
        return json.loads(text)["spec"]

    def requests(self):
        """What this API server has counted so far, of the kinds that an operator touches: {"PATCH leases": 7}."""
        out = {}
        for line in self.kubectl("get", "--raw", "/metrics").splitlines():
            if not line.startswith("apiserver_request_total{"):
                continue
            labels = dict(part.split("=", 1) for part in line[line.index("{") + 1:line.rindex("}")].split(",") if "=" in part)
            verb, resource = labels["verb"].strip('"'), labels["resource"].strip('"')
            is_own = labels["group"].strip('"') == "pawl.dev" or resource in ("pods", "leases", "events")
            # The API server renews a lease of its own, by PUT.
            if is_own and verb in ("POST", "PATCH", "DELETE", "GET", "LIST", "WATCH"):
                key = f"{verb} {resource}"
                out[key] = out.get(key, 0) + int(float(line.rsplit(" ", 1)[1]))
        return out


class Operator:
    count = 0

    def __init__(self, program, kubeconfig, folder):
        Operator.count += 1
        self.log = folder / f"operator-{Operator.count}.log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [program, "--kubeconfig", kubeconfig, "--lease", f"{NAMESPACE}/pawl-operator", "--health-address",
                 "127.0.0.1:0"], stderr=out)
        until(lambda: any(event in self.text() for event in ("leader_seen", "leader_gained")))
        self.identity = next(json.loads(line)["identity"] for line in self.text().splitlines() if '"started"' in line)

    def text(self):
        return self.log.read_text()

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(timeout=30)


def until(read, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := read():
            return value
        time.sleep(0.02)
    raise AssertionError("it never came true")


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def change(server, operators, number):
    """Ends the leader; seconds from the signal until another has taken the lease, by the time that it wrote."""
    holder = server.lease()["holderIdentity"]
    leader = next(item for item in operators if item.identity == holder)
    operators.remove(leader)
    sent = time.time()
    leader.end(number)
    state = until(lambda: (lambda spec: spec if spec.get("holderIdentity") not in ("", holder) else None)(server.lease()))
    return moment(state["acquireTime"]) - sent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operator", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--idle", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pawl-hand-over-") as name, Server(pathlib.Path(name) / "api") as server:
        folder = pathlib.Path(name)
        kubeconfig = server.install()
        operators = [Operator(options.operator, kubeconfig, folder) for _ in range(2)]
        try:
            given, killed = [], []
            for signals, out in ((options.rounds, given), (options.kills, killed)):
                for _ in range(signals):
                    gap = change(server, operators, signal.SIGTERM if out is given else signal.SIGKILL)
                    out.append(gap)
                    operators.append(Operator(options.operator, kubeconfig, folder))
                    print(f"{'SIGTERM' if out is given else 'SIGKILL'}: another leads after {gap:.3f} s", flush=True)
            before = server.requests()
            time.sleep(options.idle)
            after = server.requests()
        finally:
            for item in operators:
                item.end(signal.SIGKILL)
        idle = {key: count - before.get(key, 0) for key, count in sorted(after.items()) if count > before.get(key, 0)}
        result = {"handover_s": round(statistics.median(given), 3), "handover_worst_s": round(max(given), 3),
                  "takeover_s": round(statistics.median(killed), 1) if killed else None,
                  "takeover_worst_s": round(max(killed), 1) if killed else None,
                  "idle_seconds": options.idle, "idle_requests": idle, "rounds": len(given), "kills": len(killed)}
        print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    os.environ["LANG"] = "C.UTF-8"
    main()
