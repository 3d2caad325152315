"""PyTorch that stays in memory over NCCL: three ranks on one GPU under `pawl run`, disturbed, beside a run that nobody disturbs.

A rank is killed, one is stopped, and an elastic gang loses a worker; those that stay go on with what they hold, in the
same processes, and end with the loss of the undisturbed run, to the bit where the world size was the same throughout.
Skips (exit status 77) where PAWL_TORCH_PYTHON (or python3) has no PyTorch that sees a GPU.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAWL = pathlib.Path(os.environ.get("PAWL_BIN", ROOT / "build" / "release" / "bin")) / "pawl"
PYTHON = os.environ.get("PAWL_TORCH_PYTHON", "python3")
WORKERS, STEPS, SECONDS, SKIPPED = 3, 1500, 120, 77


class Run:
    def __init__(self, folder, pause=0.0, elastic=None):
        self.folder = pathlib.Path(folder)
        container = {"name": "worker", "image": "none", "command": [PYTHON, str(HERE / "nccl_train.py"), str(STEPS), str(pause)],
                     "env": [{"name": "PAWL_STANDBY_SECONDS", "value": "1"}, {"name": "OMP_NUM_THREADS", "value": "1"}]}
        spec = {"replicas": WORKERS, "runtime": {"kind": "Torch", "inPlace": True},
                "checkpoint": {"uri": f"file://{self.folder}/saved"}, "template": {"spec": {"containers": [container]}}}
        job = self.folder / "job.json"
        job.write_text(json.dumps({"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "nccl"},
                                   "spec": {**spec, **({"elastic": elastic} if elastic else {})}}))
        self.output = open(self.folder / "out", "w+")
        self.process = subprocess.Popen([PAWL, "run", job, "--run-dir", self.folder / "run"], stdout=self.output,
                                        stderr=subprocess.STDOUT)

    def said(self):
        return "\n".join(log.read_text(errors="replace") for log in sorted(self.folder.glob("run/logs/*.log")))

    def starts(self, size=WORKERS):
        """The steps with which generations of this size began, one of each rank; they only grow."""
        return sorted(int(step) for step in re.findall(rf"rank \d of {size} goes on with step (\d+)", self.said()))

    def wait_for(self, what, condition):
        deadline = time.time() + SECONDS
        while not condition():
            if self.process.poll() is not None or time.time() > deadline:
                raise AssertionError(f"no {what}")
            time.sleep(0.005)

    def program(self, slot):
        """The PID of the training process in this place."""
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environment = (path / "environ").read_bytes().split(b"\0")
                if (f"PAWL_SLOT={slot}".encode() in environment
                        and str(self.folder).encode() in b" ".join(environment)
                        and str(HERE / "nccl_train.py").encode() in (path / "cmdline").read_bytes().split(b"\0")
                        and (path / "comm").read_text() not in ("pawl-standby\n", "pawl-launch\n")):
                    return int(path.name)
        raise AssertionError("no program")

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
        time.sleep(3)

    def end(self):
        """The loss with which all ranks end."""
        if self.process.wait(SECONDS) != 0:
            raise AssertionError("pawl run failed")
        losses = re.findall(rf"done after {STEPS} steps, loss (\S+)", self.said())
        if not losses or len(set(losses)) != 1:
            raise AssertionError(f"the ranks end with {losses}")
        return float(losses[0])

    def close(self):
        self.process.kill()  # nothing that it started outlives it
        self.process.wait()
        self.output.close()


@contextlib.contextmanager
def job(**options):
    """A run whose failure shows what was said in it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, contextlib.closing(Run(folder, **options)) as run:
        try:
            run.wait_for("start", lambda: len(run.starts()) >= WORKERS)
            yield run
        except AssertionError as error:
            raise AssertionError(f"{error}\n{run.said()[-9000:]}\n{(run.folder / 'out').read_text()[-2000:]}") from None


def fixed_size():
    with job() as run:
        expected = run.end()
    with job(pause=0.02) as run:
        time.sleep(4)  # for those that stand by, too
        survivors = {run.program(0), run.program(1)}
        run.strike("kill -9 of rank 2", run.program(2), signal.SIGKILL)
        if {run.program(0), run.program(1)} != survivors:
            raise AssertionError("the survivors were started again")
        run.strike("SIGSTOP of rank 1", run.program(1), signal.SIGSTOP)
        run.strike("kill -9 of rank 0", run.program(0), signal.SIGKILL)
        loss = run.end()
    if loss != expected:
        raise AssertionError(f"the loss is {loss}, and {expected} of the run that nobody disturbed")
    return expected


def elastic(expected):
    with job(pause=0.02, elastic={"minReplicas": 2, "maxReplicas": 3}) as run:
        time.sleep(2)
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
