"""PyTorch that stays in memory over NCCL: three ranks on one GPU under `pawl run`, disturbed, beside a run that nobody disturbs.

A rank is killed, one is stopped, and an elastic gang loses a worker; those that stay go on with what they hold, in the
same processes, and end with the loss of the undisturbed run, to the bit where the world size was the same throughout.
Skips (exit status 77) where PAWL_TORCH_PYTHON (or python3) has no PyTorch that sees a GPU.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
sys.dont_write_bytecode = True

from local_run import LocalRun, shown

SCRIPT = HERE / "nccl_train.py"
PYTHON = os.environ.get("PAWL_TORCH_PYTHON", "python3")
WORKERS, STEPS, SKIPPED = 3, 3000, 77


class Run(LocalRun):
    def __init__(self, folder, pause=0.0, elastic=None):
        variables = {"PAWL_STANDBY_SECONDS": 1, "OMP_NUM_THREADS": 1}
        spec = {"replicas": WORKERS, "runtime": {"kind": "Torch", "inPlace": True}, "checkpoint": {"uri": f"file://{folder}/saved"},
                "template": self.template([PYTHON, SCRIPT, STEPS, pause], variables)}
        super().__init__(folder, "nccl", {**spec, **({"elastic": elastic} if elastic else {})})

    def starts(self, size=WORKERS):
        """The steps with which generations of this size began, one of each rank; they only grow."""
        return sorted(int(step) for step in re.findall(rf"rank \d of {size} goes on with step (\d+)", self.said()))

    def program(self, slot):
        return self.process_of(slot, lambda _, command: str(SCRIPT) in command)

    def settle(self):
        """Until a process stands by in each place, as one does between two losses."""
        self.wait_for("those that stand by", lambda: self.standing_by() >= WORKERS)

    def strike(self, what, pid, number, size=WORKERS):
        """Seconds until all ranks of the next generation have begun, from memory."""
        before, start = len(self.starts(size)), time.time()
        os.kill(pid, number)
        self.wait_for(f"generation after {what}", lambda: len(self.starts(size)) >= before + size)
        seconds = time.time() - start
        begun = self.starts(size)[-size:]
        if len(set(begun)) != 1 or begun[0] == 1:
            raise AssertionError(f"after {what} the ranks went on with the steps {begun}")
        print(f"{what}: {seconds:.2f} s until all of {size} go on, with step {begun[0]}", flush=True)

    def end(self):
        """The loss with which all ranks end."""
        super().end()
        losses = re.findall(rf"done after {STEPS} steps, loss (\S+)", self.said())
        if not losses or len(set(losses)) != 1:
            raise AssertionError(f"the ranks end with {losses}")
        return float(losses[0])


@contextlib.contextmanager
def job(**options):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, shown(Run(folder, **options)) as run:
        run.wait_for("start", lambda: len(run.starts()) >= WORKERS)
        yield run


def fixed_size():
    with job() as run:
        expected = run.end()
    with job(pause=0.01) as run:
        run.settle()
        survivors = {run.program(0), run.program(1)}
        run.strike("kill -9 of rank 2", run.program(2), signal.SIGKILL)
        if {run.program(0), run.program(1)} != survivors:
            raise AssertionError("the survivors were started again")
        run.settle()
        run.strike("SIGSTOP of rank 1", run.program(1), signal.SIGSTOP)
        run.settle()
        run.strike("kill -9 of rank 0", run.program(0), signal.SIGKILL)
        loss = run.end()
    if loss != expected:
        raise AssertionError(f"the loss is {loss}, and {expected} of the run that nobody disturbed")
    return expected


def elastic(expected):
    with job(pause=0.01, elastic={"minReplicas": 2, "maxReplicas": 3}) as run:
        run.settle()
        launcher = int(pathlib.Path(f"/proc/{run.program(2)}/stat").read_text().rsplit(")", 1)[1].split()[1])
        run.strike("kill -9 of a worker with its launcher", launcher, signal.SIGKILL, size=2)
        run.wait_for("growth to three again", lambda: len(run.starts()) >= 2 * WORKERS)
        loss = run.end()
    if abs(loss - expected) > 1e-3 + 0.1 * abs(expected):
        raise AssertionError(f"the loss is {loss}, and {expected} of the run that nobody disturbed")


def main():
    look = subprocess.run([PYTHON, "-c", "import torch; assert torch.cuda.is_available(), 'PyTorch sees no GPU'"],
                          text=True, capture_output=True, check=False)
    if look.returncode != 0:
        print(f"skipped: {(look.stderr.strip().splitlines() or ['no Python'])[-1]}")
        return SKIPPED
    elastic(fixed_size())
    return 0


if __name__ == "__main__":
    sys.exit(main())
