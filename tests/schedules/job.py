"""One `pawl run` that a schedule of faults is tried on: what it is asked for, its processes, its records as they change,
and its end. The job trains a tiny model with `determinism: exact`, so that no fault may change a bit of its curve."""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PAWL_BIN", ROOT / "build" / "release" / "bin"))
STEPS = 500
CONFIG = {"model": {"kind": "gpt", "layers": 2, "heads": 2, "channels": 64, "context": 32},
          "batch": {"global": 12, "micro": 1}, "optimizer": {"learning_rate": 0.003}, "schedule": {"warmup_steps": 20},
          "determinism": "exact", "log_every": 1, "steps": STEPS, "validate_batches": 12}
GROUPS = "/apis/pawl.dev/v1alpha1/namespaces/default/workergroups"
JOBS = "/apis/pawl.dev/v1alpha1/namespaces/default/trainingjobs"
PODS = "/api/v1/namespaces/default/pods"
PLAIN_LINE = re.compile(r"^(?:\[\d+\] )?step (\d+)/\d+ loss (\S+) learning", re.M)  # without `determinism: exact`
LINE = re.compile(r"^(?:\[\d+\] )?step (\d+)/\d+ loss \S+ \((\S+)\)", re.M)  # more than one rank a log: with the rank


def parameters(folder):
    """SHA-256 of each tensor of a checkpoint, whatever the number of its shards and of their pieces."""
    pieces = {}
    for shard in sorted(folder.glob("shard-*.safetensors")):
        data = shard.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        places = json.loads(header.pop("__metadata__", {}).get("pawl.pieces", "{}"))
        for name, tensor in header.items():
            first, last = tensor["data_offsets"]
            place = places.get(name, {})
            pieces.setdefault(place.get("tensor", name), []).append(
                (place.get("offset", 0), data[8 + size + first:8 + size + last]))
    return {name: hashlib.sha256(b"".join(part for _, part in sorted(parts))).hexdigest() for name, parts in pieces.items()}


class Reference:
    """The same training in one process that nobody disturbs: bits of the loss by step, the end's words and parameters."""

    def __init__(self, folder, text):
        config = pathlib.Path(folder) / "reference.json"
        config.write_text(json.dumps({**CONFIG, "data": {"kind": "text", "paths": [str(text)]}}))
        done = subprocess.run([BIN / "pawl-train", "--config", config, "--checkpoint-uri", f"file://{folder}/reference"],
                              text=True, capture_output=True, check=True)
        self.losses = {int(step): bits for step, bits in LINE.findall(done.stdout)}
        self.validation = re.search(r"^validation: .*$", done.stdout, re.M).group(0)
        self.parameters = parameters(next(pathlib.Path(folder, "reference").glob(f"step-*{STEPS}-*")))


class Process:
    def __init__(self, pid, is_launcher, environment):
        self.pid, self.is_launcher = pid, is_launcher
        self.pod = re.search(rb'"pod":"([^"]+)"', environment)
        self.pod = self.pod.group(1).decode() if self.pod else ""

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Job:
    running = []

    def __init__(self, folder, text, sets):
        self.folder = pathlib.Path(folder)
        manifest = {"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "schedule"},
                    "spec": {"runtime": {"kind": "Native", "config": {**CONFIG, "data": {"kind": "text", "paths": [str(text)]}}},
                             "template": {"spec": {"containers": [{"name": "worker"}]}}}}
        self.run = self.folder / "run"
        manifest["spec"]["checkpoint"] = {"uri": f"file://{self.run}/checkpoints"}
        self.path = self.folder / "job.json"
        self.path.write_text(json.dumps(manifest))
        self.output = open(self.folder / "out", "w")
        command = [BIN / "pawl", "run", self.path, "--run-dir", self.run]
        for name, value in sets.items():
            command += ["--set", f"{name}={value}"]
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT)
        Job.running.append(self)
        self.watch_errors = []
        self.records, self.jobs = [], []  # (seconds, object) as they changed
        self.watchers = [threading.Thread(target=self.watch, args=watched, daemon=True)
                         for watched in ((GROUPS, self.records), (JOBS, self.jobs))]
        for watcher in self.watchers:
            watcher.start()

    # ---- the API

    def connection(self, timeout=None):
        kubeconfig = self.run / "kubeconfig"
        deadline = time.time() + 20
        while not kubeconfig.exists() and time.time() < deadline and self.is_running():
            time.sleep(0.01)
        text = kubeconfig.read_text()
        host = re.search(r'http://([0-9.:]+)', text).group(1)
        token = re.search(r'token: "([0-9a-f]+)"', text).group(1)
        return http.client.HTTPConnection(host, timeout=timeout), {"Authorization": f"Bearer {token}"}

    def call(self, method, path, body=None):
        """The answer's object; None if the API does not answer (it may be stopped, or at its end)."""
        try:
            connection, headers = self.connection(timeout=10)
            headers["Content-Type"] = "application/merge-patch+json"
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = json.loads(connection.getresponse().read())
            connection.close()
            return answer
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def watch(self, path, seen):
        try:
            connection, headers = self.connection()
            connection.request("GET", path + "?watch=true", None, headers)
            for line in connection.getresponse():
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED"):
                    seen.append((time.time(), event["object"]))
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            self.watch_errors.append(repr(error))  # it ends with the run, and not before

    def record(self):
        return self.records[-1][1] if self.records else {}

    def status(self):
        return self.record().get("status", {})

    def step(self):
        return self.status().get("progress", {}).get("step", 0)

    # ---- its processes

    def is_running(self):
        return self.process.poll() is None

    def processes(self):
        mark, found = str(self.run).encode(), []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                name = (path / "cmdline").read_bytes().split(b"\0")[0].rsplit(b"/", 1)[-1]
                if name not in (b"pawl-train", b"pawl-launch"):
                    continue
                environment = (path / "environ").read_bytes()
            except OSError:
                continue
            if mark in environment:
                found.append(Process(int(path.name), name == b"pawl-launch", environment))
        return sorted(found, key=lambda one: (one.pod, not one.is_launcher, one.pid))

    def leader(self):
        return self.pod_of(self.status().get("leader", {}).get("uid"))

    def pod_of(self, uid):
        for pod in self.record().get("spec", {}).get("pods", []):
            if pod.get("uid") == uid:
                return pod["name"]
        return ""

    def wait(self, seconds):
        """Its exit code, when all that was to be seen of it has been; None if it does not end in time."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        for watcher in self.watchers:
            watcher.join(10)
        return code

    def close(self):
        if self in Job.running:
            Job.running.remove(self)
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        for process in self.processes():
            process.signal(signal.SIGKILL)
        self.output.close()

    # ---- what is left of it

    def losses(self, line=LINE):
        """(step, bits of its loss, log) of every line that any rank 0 wrote."""
        for log in sorted((self.run / "logs").glob("*.log")):
            for step, bits in line.findall(log.read_text(errors="replace")):
                yield int(step), bits, log.name

    def validations(self):
        return {words for log in (self.run / "logs").glob("*.log")
                for words in re.findall(r"^(?:\[\d+\] )?(validation: .*)$", log.read_text(errors="replace"), re.M)}

    def checkpoint(self, step):
        return next(iter(sorted((self.run / "checkpoints").glob(f"step-{step:08d}-*"))), None)
