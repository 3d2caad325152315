"""Programs of real frameworks, written as their users write them, under `pawl run`: run.py [torch] [jax] [tensorflow] [ray]
[horovod].

Two workers. When some steps are saved, one program is killed: all have to be started again, from those that stand by
and at the step that was saved, nothing may be counted, and the weights at the end must have the bits of a run that
nobody disturbed. Of Ray, whose driver runs once, a node's own process is killed; with it, and under mpirun, nobody stands
by. The frameworks come from the package registry into virtual environments below the cache; Horovod is compiled there. The last line is "N passed, N failed".
"""

import contextlib
import hashlib
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

CACHE = pathlib.Path(os.environ.get("PAWL_CACHE", pathlib.Path.home() / ".cache" / "pawl")) / "frameworks"
# (runtime.kind, packages)
FRAMEWORKS = {"torch": ("Torch", ["torch", "numpy"]), "jax": ("JAX", ["jax[cpu]", "numpy"]),
              "tensorflow": ("TensorFlow", ["tensorflow-cpu", "numpy"]), "ray": ("Ray", ["ray", "numpy"]),
              "horovod": ("MPI", ["torch", "numpy"])}
HOROVOD = ["horovod==0.28.1"]
HOROVOD_NEEDS = ["cloudpickle", "packaging", "psutil", "pyyaml", "setuptools>=77,<81", "wheel"]


def python_of(packages):
    folder = CACHE / hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / "complete").touch()
    return python


def add_horovod(python):
    """To the PyTorch that it is compiled for, which takes minutes, and never as it was compiled for another one."""
    done = python.parents[1] / "horovod"
    if done.exists():
        return
    subprocess.run([python, "-m", "pip", "install", "--quiet", *HOROVOD_NEEDS], check=True)
    variables = {"CXX": HERE / "cxx20", "HOROVOD_WITH_PYTORCH": 1, "HOROVOD_WITHOUT_TENSORFLOW": 1, "HOROVOD_WITHOUT_MXNET": 1,
                 "HOROVOD_WITH_MPI": 1, "HOROVOD_WITHOUT_GLOO": 1, "MAKEFLAGS": "-j2"}
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-build-isolation", "--no-deps", *HOROVOD],
                   check=True, env={**os.environ, **{key: str(value) for key, value in variables.items()}})
    done.touch()


class Run(LocalRun):
    """One job of two workers."""

    def __init__(self, name, folder, pause):
        self.kind, packages = FRAMEWORKS[name]
        self.script = HERE / f"{name}_train.py"
        python = python_of(packages)
        command = [python, self.script]
        if name == "horovod":
            add_horovod(python)
            command = ["mpirun.openmpi", *command]
        # In processes of Ray's and of mpirun's no program can be prepared.
        self.standbys = 0 if self.kind in ("Ray", "MPI") else 2
        variables = {"PATH": f"{python.parent}:{os.environ['PATH']}", "STEP_SECONDS": pause, "PAWL_STANDBY_SECONDS": 2, "OMP_NUM_THREADS": 1, "TF_CPP_MIN_LOG_LEVEL": 2,
                     "OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}
        super().__init__(folder, name, {
            "replicas": 2, "runtime": {"kind": self.kind}, "checkpoint": {"uri": f"file://{folder}/saved"},
            "failurePolicy": {"maxRestarts": 1}, "template": self.template(command, variables)})

    def program(self, slot):
        return self.process_of(slot, lambda name, command: name == "raylet" if self.kind == "Ray" else str(self.script) in command)

    def end(self):
        """The weights with which both ranks end."""
        super().end()
        ends = dict(re.findall(r"rank (\d+) ends with ([0-9a-f]+)", self.said()))
        if len(ends) != 2 or len(set(ends.values())) != 1:
            raise AssertionError(f"the ranks end with {ends}")
        return ends["0"]

    def check_same_pods(self):
        """Nothing was counted, and no pod replaced: there was one attempt, and one pod in each place."""
        pods = sorted(log.stem for log in self.folder.glob("run/logs/*.log"))
        if [pod[-5:] for pod in pods] != ["1-0-0", "1-1-0"]:
            raise AssertionError(f"there were the pods {pods}")


@contextlib.contextmanager
def job(name, pause):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, shown(Run(name, folder, pause)) as run:
        yield run


def check(name):
    with job(name, 0) as run:
        expected = run.end()
    with job(name, 0.5) as run:
        run.wait_for("saved state", lambda: (run.folder / "saved" / "state.npz").exists())
        run.wait_for("two that stand by", lambda: run.standing_by() == run.standbys)
        start = time.time()
        os.kill(run.program(1), signal.SIGKILL)
        run.wait_for("new start", lambda: len(re.findall(r"of 2 starts at step [1-9]", run.said())) == 2)
        again = time.time() - start
        if run.end() != expected:
            raise AssertionError("other weights than of the run that nobody disturbed")
        if run.said().count('"standby_taken"') != run.standbys:
            raise AssertionError("who stood by was not taken")
        run.check_same_pods()
    print(f"{name}: {again:.1f} s from the kill of a program to the start of both at a step that was saved")


def main():
    failed = 0
    names = sys.argv[1:] or list(FRAMEWORKS)
    for name in names:
        try:
            check(name)
        except (AssertionError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"FAILED {name}: {error}")
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
