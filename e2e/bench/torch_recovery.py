"""A PyTorch script that knows nothing of Pawl (torch_gpt.py), under torchrun and under `pawl run`, disturbed in the same ways.

Nothing of the steps before is kept: all of its processes are started again, and the time is to the first step that they make.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

from trainer import HERE, PAWL

WORKERS = 4
WARM_STEPS = 30
TIMEOUT = 120
PROVEN = 61  # Timings.foreign_proven of the launcher, and a little


def wait_for(what, condition):
    deadline = time.time() + TIMEOUT
    while time.time() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise SystemExit(f"recovery: no {what} within {TIMEOUT} s")


class Script:
    """`self.process` is what runs it, and writes to `self.output`."""

    stop_seconds = 60

    def __init__(self, text, folder):
        config = {"model": {"layers": 4, "heads": 4, "channels": 128, "context": 64}, "data": {"paths": [text]},
                  "batch": {"global": 16}, "optimizer": {"learning_rate": 0.003}, "schedule": {"warmup_steps": 50},
                  "seed": 1, "device": os.environ.get("PAWL_BENCH_DEVICE", "cpu")}
        self.config = pathlib.Path(folder) / "config.json"
        self.config.write_text(json.dumps(config))
        self.output = open(f"{folder}/output", "a+")  # several programs write to it

    def warm_up(self):
        try:
            wait_for(f"step of {type(self).__name__}", lambda: len(self.steps()) >= WARM_STEPS)
        except SystemExit:
            self.close()
            raise

    def steps(self):
        """(seconds since the epoch, step)"""
        found = re.findall(r"STEP (\d+) (\d+\.\d+) ", self.said())
        return sorted((float(at), int(step)) for step, at in found)

    def said(self):
        return pathlib.Path(self.output.name).read_text()

    mark = rb"(?:^|\0)RANK=(\d+)"  # in the environment that a process was started with

    def ranks(self):
        """PIDs, by rank."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_ours = str(self.config).encode() in (path / "cmdline").read_bytes().split(b"\0")
                rank = re.search(self.mark, (path / "environ").read_bytes())
                stands_by = (path / "comm").read_text() == "pawl-standby\n"
            except OSError:
                continue
            if is_ours and rank and not stands_by:
                found[int(rank.group(1))] = int(path.name)
        return found

    def settle(self):
        """Until it is as ready for a blow as it will be."""

    def strike(self, pid, number=signal.SIGKILL):
        start = time.time()
        os.kill(pid, number)
        first = wait_for("step", lambda: [at for at, step in self.steps() if at > start and step == 1])
        wait_for("steps", lambda: self.steps()[-1][1] >= 5)
        return first[0] - start

    def kill(self):
        self.settle()
        return self.strike(self.ranks()[WORKERS - 1])

    def stop(self):
        """Seconds until it goes on without one that is stopped; None if it does not within `stop_seconds`."""
        self.settle()
        os.kill(self.ranks()[WORKERS - 1], signal.SIGSTOP)
        start = time.time()
        time.sleep(1)  # what was under way
        known = len(self.steps())
        while time.time() < start + self.stop_seconds:
            if len(self.steps()) > known:
                return round(self.steps()[known][0] - start, 3)
            time.sleep(0.05)
        return None


class Torchrun(Script):
    def __init__(self, python, text, folder, restarts):
        super().__init__(text, folder)
        self.process = self.start(python, ["--nproc-per-node", str(WORKERS), "--max-restarts", str(restarts)])
        self.warm_up()

    def start(self, python, options):
        return subprocess.Popen(
            [python, "-m", "torch.distributed.run", *options, HERE / "torch_gpt.py", self.config, "1000000"],
            text=True, stdout=self.output, stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})

    def close(self):
        self.process.terminate()
        self.process.wait(60)


class GrowingTorchrun(Torchrun):
    """An agent for each rank; all but the last one begin, by the defaults 30 s after they have met."""

    def __init__(self, python, text, folder):
        Script.__init__(self, text, folder)
        with socket.create_server(("localhost", 0)) as free:
            port = free.getsockname()[1]
        self.python, self.agents = python, []
        self.options = ["--nnodes", f"{WORKERS - 1}:{WORKERS}", "--nproc-per-node", "1", "--max-restarts", "3",
                        "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "grow"]
        for _ in range(WORKERS - 1):
            self.agents.append(self.start(python, self.options))
        self.warm_up()

    def grow(self):
        """From the last step of those that are there to the first one with the last rank."""
        begun = time.time()
        self.agents.append(self.start(self.python, self.options))
        first = wait_for("step of all", lambda: [at for at, step in self.steps() if at > begun and step == 1])[0]
        wait_for("steps", lambda: self.steps()[-1][1] >= 5)
        if len(self.ranks()) != WORKERS:
            raise SystemExit(f"recovery: torchrun has grown to {len(self.ranks())}")
        return first - max(at for at, _ in self.steps() if at < first)

    def close(self):
        for agent in self.agents:
            agent.terminate()
        for agent in self.agents:
            agent.wait(60)


class TorchUnderPawl(Script):
    # One that has stood by had no rank then. Nobody moves between these pods: the slot is the rank.
    mark = rb"(?:^|\0)PAWL_SLOT=(\d+)"

    def __init__(self, python, text, folder, _):
        super().__init__(text, folder)
        container = {"name": "worker", "image": "none", "command": [str(python), str(HERE / "torch_gpt.py")],
                     "args": [str(self.config), "1000000"], "env": [{"name": "OMP_NUM_THREADS", "value": "1"}]}
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(json.dumps({
            "apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "torch"},
            "spec": {"replicas": WORKERS, "runtime": {"kind": "Torch"},
                     "template": {"spec": {"containers": [container]}}}}))
        self.lost = 0
        self.folder = pathlib.Path(folder) / "run"
        self.process = subprocess.Popen([PAWL, "run", job, "--run-dir", self.folder], text=True, stdout=self.output,
                                        stderr=subprocess.STDOUT)
        self.warm_up()

    def said(self):
        return "\n".join(log.read_text() for log in self.folder.glob("logs/*.log"))

    def settle(self):
        """Those that stand by are there, in each pod, since the last blow, and the gang has run for long enough to count as
        having got somewhere: it tells no steps, and is not started in place again and again."""
        def are_there():
            logs = [log.read_text() for log in self.folder.glob("logs/*.log")]
            started, taken = (sum(text.count(f'"event":"{name}"') for text in logs) for name in ("standby_ready", "standby_taken"))
            return started - taken - self.lost >= WORKERS
        wait_for("those that stand by", are_there)
        began = max(at for at, step in self.steps() if step == 1)
        time.sleep(max(0, began + PROVEN - time.time()))

    def kill_pod(self):
        """The launcher of a rank, and with it its process; its pod is replaced."""
        self.settle()
        self.lost += 1  # what stood by there
        rank = self.ranks()[WORKERS - 1]
        return self.strike(int(pathlib.Path(f"/proc/{rank}/stat").read_text().rsplit(")", 1)[1].split()[1]))

    def close(self):
        self.process.kill()  # nothing that it started outlives it
        self.process.wait(60)
