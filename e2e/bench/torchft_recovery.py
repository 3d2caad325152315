"""torch_gpt.py under torchft (torchft_gpt.py), disturbed as torch_recovery.py disturbs torchrun.

Four replicas of one process each, and a lighthouse. Survivors keep what they hold, so the time is to the first step that
all of them have made as three. Who was killed is started anew; a growth is the longest time without a step of a
survivor, from when the new process has its imports behind it until five steps are made as four.

By torchft's defaults the lighthouse takes a replica for dead that it has not heard for 5 s, and a collective fails after
60 s: that long waits who has no connection to the dead one in the ring, and those who do wait for it. `HastyTorchft` gives
them 1 s and 5 s.
"""

import os
import re
import signal
import subprocess
import time

from torch_recovery import WORKERS, Script, wait_for
from trainer import HERE

LIGHTHOUSE = """
import sys, time
from torchft.coordination import LighthouseServer
server = LighthouseServer(bind="localhost:0", min_replicas=int(sys.argv[1]), heartbeat_timeout_ms=int(sys.argv[2]))
print("LIGHTHOUSE", server.address(), flush=True)
time.sleep(1e9)
"""
SURVIVORS, VICTIM = range(WORKERS - 1), WORKERS - 1


def has_torchft(python):
    return subprocess.run([python, "-c", "import torchft"], capture_output=True).returncode == 0


class Lost(Exception):
    """The job does not go on."""


class Torchft(Script):
    heartbeat_ms = 5000
    collective_seconds = 60

    def __init__(self, python, text, folder):
        super().__init__(text, folder)
        self.python, self.children = python, {}
        self.stop_seconds = self.collective_seconds + 30
        self.lighthouse = self.start([python, "-c", LIGHTHOUSE, str(WORKERS - 1), str(self.heartbeat_ms)], {})
        try:
            found = wait_for("lighthouse", lambda: re.search(r"LIGHTHOUSE (\S+)", self.said()))
        except SystemExit:
            self.close()
            raise
        self.address = found.group(1)
        for rank in range(WORKERS):
            self.start_rank(rank)
        self.warm_up()

    def start(self, command, environment):
        return subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT,
                                env={**os.environ, "OMP_NUM_THREADS": "1", **environment})

    def start_rank(self, rank):
        self.children[rank] = self.start([self.python, HERE / "torchft_gpt.py", self.config, "1000000"],
                                         {"RANK": str(rank), "TORCHFT_LIGHTHOUSE": self.address,
                                          "TORCHFT_TIMEOUT_SEC": str(self.collective_seconds)})

    def made(self, rank, replicas, since):
        """When a rank made steps of so many replicas."""
        found = re.findall(rf"STEP \d+ (\d+\.\d+) \S+ of {replicas} rank {rank}\n", self.said())
        return [float(at) for at in found if float(at) > since]

    def wait_for_steps(self, ranks, replicas, since):
        """Five of each rank; Lost when a survivor has ended."""
        def are_made():
            if any(self.children[rank].poll() is not None for rank in SURVIVORS):
                raise Lost("a survivor has ended")
            return all(len(self.made(rank, replicas, since)) >= 5 for rank in ranks)
        try:
            wait_for(f"steps of {replicas} replicas", are_made)
        except SystemExit as why:
            raise Lost(str(why)) from None

    def settle(self):
        self.wait_for_steps(range(WORKERS), WORKERS, time.time())

    def strike(self, pid, number=signal.SIGKILL):
        start = time.time()
        os.kill(pid, number)
        self.wait_for_steps(SURVIVORS, WORKERS - 1, start)
        return max(self.made(rank, WORKERS - 1, start)[0] for rank in SURVIVORS) - start

    def grow(self):
        """Brings back the one that strike() has killed."""
        self.children[VICTIM].wait()
        begun = time.time()
        self.start_rank(VICTIM)
        ready = wait_for("new process", lambda: [float(at) for at in re.findall(r"READY (\d+\.\d+)", self.said())
                                                 if float(at) > begun])[0]
        self.wait_for_steps(range(WORKERS), WORKERS, ready)
        gaps = []
        for rank in SURVIVORS:
            end = self.made(rank, WORKERS, ready)[4]
            steps = [at for at in self.made(rank, r"\d", begun) if at <= end]
            gaps += [after - before for before, after in zip(steps, steps[1:]) if after > ready]
        return max(gaps)

    def close(self):
        for child in [*self.children.values(), self.lighthouse]:
            child.kill()
            child.wait(60)


class HastyTorchft(Torchft):
    heartbeat_ms = 1000
    collective_seconds = 5
