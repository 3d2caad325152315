#!/usr/bin/env python3
"""Real MPIs under `pawl run`: run.py [--bin DIR] [NAME…]. Two workers sum over their ranks; in the middle something of the second
worker's is killed, and the job has to go on from its file in the same attempt. Needs the packages of packages.txt.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 60
TIMEOUT = 120


def fail(what, folder):
    raise SystemExit(f"mpi: {what}; see {folder}")


def processes(mark):
    """PID -> parent, of those that carry the mark."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            env = (path / "environ").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if f"MPI_TEST_MARK={mark}".encode() in env:
            found[int(path.name)] = parent
    return found


def launcher_of(pid, parents):
    """The topmost one of ours above a process: its worker's launcher."""
    while parents.get(pid) in parents:
        pid = parents[pid]
    return pid


class Job:
    def __init__(self, name, command, binaries, slots=1):
        self.name, self.mark = name, f"{name}-{os.getpid()}-{time.time_ns()}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"pawl-mpi-test-{name}-"))
        command = [word.replace("FILE", str(self.folder / "step")) for word in command]
        text = (HERE / "job.yaml").read_text().replace("@MARK@", self.mark)
        text = text.replace("@COMMAND@", json.dumps(command)).replace("@SLOTS@", str(slots))
        self.ranks = 2 * slots
        (self.folder / "job.yaml").write_text(text)
        self.output = open(self.folder / "output", "w+")
        self.process = subprocess.Popen(
            [str(binaries / "pawl"), "run", str(self.folder / "job.yaml"), "--run-dir", str(self.folder / "run")],
            stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def said(self):
        logs = sorted((self.folder / "run").glob("logs/*.log"))
        return "".join(path.read_text(errors="replace") for path in [self.folder / "output", *logs])

    def lives(self):
        """PIDs of a rank in each life, in order."""
        found = {rank: [] for rank in range(self.ranks)}
        for rank, pid in re.findall(rf"STEP \d+ rank (\d) of {self.ranks} pid (\d+)", self.said()):
            if int(pid) not in found[int(rank)]:
                found[int(rank)].append(int(pid))
        return found

    def wait_for_step(self, step):
        deadline = time.time() + TIMEOUT
        while time.time() < deadline:
            if f"STEP {step} rank 1" in self.said() and f"STEP {step} rank 0" in self.said():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        fail(f"{self.name}: no step {step}", self.folder)

    def strike(self, whom):
        """Kills rank 1's process, its agent, or its launcher."""
        pids = [self.lives()[rank][-1] for rank in (0, 1)]
        parents = processes(self.mark)
        launchers = [launcher_of(pid, parents) for pid in pids]
        if launchers[0] == launchers[1]:
            fail(f"{self.name}: both ranks run on one worker", self.folder)
        victim = pids[1]
        if victim not in parents or pids[0] not in parents:
            fail(f"{self.name}: {pids} have ended already", self.folder)
        if whom == "agent":
            while parents[victim] != launchers[1]:
                victim = parents[victim]
        elif whom == "launcher":
            victim = launchers[1]
        os.kill(victim, signal.SIGKILL)

    def check(self, whom):
        try:
            code = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            fail(f"{self.name}: does not end", self.folder)
        said = self.said()
        if code != 0:
            fail(f"{self.name}: pawl run ended with {code}", self.folder)
        for rank in range(self.ranks):
            if f"STEP {STEPS} rank {rank} of {self.ranks}" not in said:
                fail(f"{self.name}: rank {rank} has not made the last step", self.folder)
        lives = 1 if whom is None else 2
        if any(len(pids) != lives for pids in self.lives().values()):
            fail(f"{self.name}: not {lives} lives of each rank: {self.lives()}", self.folder)
        blamed = re.search(r"mpi-1-(\d)-0[^\n]*signal 9", said)
        if whom in ("rank", "agent") and (not blamed or blamed.group(1) != "1"):
            fail(f"{self.name}: the second worker is not named", self.folder)
        left = processes(self.mark)
        if left:
            fail(f"{self.name}: left running: {left}", self.folder)


def compile_c(folder):
    program = folder / "allreduce"
    subprocess.run(["mpicc.mpich", "-o", str(program), str(HERE / "allreduce.c")], check=True)
    return str(program)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parents[1] / "build/dev/bin")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="pawl-mpi-test-"))
    bad = 0
    kinds = {"openmpi": lambda: ["mpirun.openmpi", "/usr/bin/python3", str(HERE / "allreduce.py"), "FILE", str(STEPS)],
             "mpich": lambda: ["mpiexec.mpich", compile_c(scratch), "FILE", str(STEPS)]}
    for name, command in kinds.items():
        if options.names and name not in options.names:
            continue
        for whom, slots in ((None, 2), (None, 1), ("rank", 1), ("agent", 1), ("launcher", 1)):
            start = time.time()
            job = Job(name, command(), options.bin, slots)
            try:
                if whom:
                    job.wait_for_step(STEPS // 3)
                    job.strike(whom)
                job.check(whom)
                shutil.rmtree(job.folder)
                what = f"{whom} of the second worker killed" if whom else f"undisturbed, {2 * slots} ranks"
                print(f"{name}: {what}: ok, {time.time() - start:.1f} s", flush=True)
            except SystemExit as problem:
                print(problem, file=sys.stderr, flush=True)
                job.process.kill()
                bad += 1
    shutil.rmtree(scratch)
    return 1 if bad else 0


sys.exit(main())
