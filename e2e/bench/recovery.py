"""From the death of a training process to the next new step, beside torchrun on the same model.

Ours is `pawl run` of examples/gpt-text.yaml with four workers: one training process is killed with SIGKILL, again and
again, then one is stopped with SIGSTOP, then whole pods are killed (the launcher, and with it its processes), then the
pod of the leading launcher; who leads logs the first confirmed step of the next generation. A second run may go on with
three (`spec.elastic`): a launcher is told to terminate, the others go on without it, and its successor comes in some
seconds later; the pause of a growth is from the order to park to the first step of four. A third has 50 workers, whose
membership changes 200 times (changes.py). Theirs is
`torchrun --nproc-per-node 4 --max-restarts N` of the same model (torch_gpt.py), which restarts all workers: the time is
to the first step that they make, though nothing of the steps before is kept; one that is stopped is waited for a minute.
The same script runs under `pawl run`, too (`runtime.kind: Torch`, four workers), where all programs are started again in
the pods that stay. PAWL_TORCH_PYTHON names a Python that has torch.

PAWL_CALM_MINUTES=30 also runs four workers that long, undisturbed but for a program that uses all processors, and counts
who was taken for lost.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

import changes
from torch_recovery import WARM_STEPS, WORKERS, Torchrun, TorchUnderPawl, wait_for
from trainer import PAWL, ROOT, text_path, torch_python


def processes(mark):
    """PIDs of training processes below us, with their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().split(b"\0")
            environment = (path / "environ").read_bytes()
        except OSError:
            continue
        if mark in command[0].decode(errors="replace") and b"LOCAL_RANK=" in environment:
            found.append((int(path.name), environment))
    return found


def slot_of(environment):
    return int(re.search(rb"PAWL_SLOT=(\d+)", environment).group(1))


def pod_of(environment):
    return re.search(rb'"pod":"([^"]+)"', environment).group(1).decode()


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def events(folder, name):
    """Of all launchers' logs: (seconds since the epoch, text, log), in order."""
    found = []
    for log in pathlib.Path(folder, "logs").glob("*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if f'"event":"{name}"' not in line:
                continue
            entry = json.loads(line[line.index("{"):])
            stamp, fraction = entry["time"].rstrip("Z").split(".")
            seconds = time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(f"0.{fraction}")
            found.append((seconds, entry["text"], log))
    return sorted(found)


class Ours:
    """One run of four workers, in which processes are killed one after the other."""

    def __init__(self, text, folder, *sets):
        self.folder = f"{folder}/run"
        self.output = open(f"{folder}/out", "w+")
        self.process = subprocess.Popen(
            [PAWL, "run", ROOT / "examples" / "gpt-text.yaml", "--text", text, "--run-dir", self.folder,
             "--set", f"spec.replicas={WORKERS}", "--set", "spec.runtime.config.steps=1000000",
             *(word for one in sets for word in ("--set", one))],
            text=True, stdout=self.output, stderr=subprocess.STDOUT)
        wait_for("step", lambda: self.step() >= WARM_STEPS)

    def step(self):
        if self.process.poll() is not None:
            raise SystemExit(f"recovery: pawl run ended:\n{pathlib.Path(self.output.name).read_text()[-2000:]}")
        steps = re.findall(r"\s(\d+)/1000000\s", pathlib.Path(self.output.name).read_text())
        return int(steps[-1]) if steps else 0

    def kill(self, slot, number=signal.SIGKILL):
        """Seconds from the signal to the first step after it, and the confirmed steps that were made again."""
        return self.strike(next(pid for pid, found in processes("pawl-train") if slot_of(found) == slot), number)

    def kill_pod(self, is_leader, number=signal.SIGKILL):
        """The same for a launcher, which takes its processes along; its pod is replaced."""
        leader = pathlib.Path(events(self.folder, "leading")[-1][2]).stem
        for pid, environment in processes("pawl-train"):
            if (pod_of(environment) == leader) == is_leader:
                return self.strike(parent_of(pid), number)
        raise SystemExit("recovery: no such pod")

    def grow(self, known):
        """Seconds for which the gang made no step when it grew; `known` generations had run before."""
        runs = wait_for("growth", lambda: events(self.folder, "generation_runs")[known:])
        return int(re.search(r"step \d+, (\d+) ms after", runs[0][1]).group(1)) / 1000

    def strike(self, pid, number=signal.SIGKILL):
        known = len(events(self.folder, "generation_runs"))
        start = time.time()
        os.kill(pid, number)
        runs = wait_for("new generation", lambda: events(self.folder, "generation_runs")[known:])
        # What a leader had confirmed that is gone, all others had applied.
        known_steps = [int(re.search(pattern, text).group(1))
                       for name, pattern in (("gang_parks", r"confirmed step (\d+)"), ("process_parked", r"at step (\d+)"))
                       for at, text, _ in events(self.folder, name) if at > start - 0.01]
        begun = int(re.search(r"from step (\d+)", events(self.folder, "commit_proposed")[-1][1]).group(1))
        return runs[0][0] - start, max(0, max(known_steps) - begun)

    def close(self):
        self.process.kill()  # nothing that it started outlives it
        self.process.wait(60)


def calm(text, minutes):
    """Who was taken for lost, and generations beside the first, in a run that nobody disturbs but a CPU hog."""
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            run = Ours(text, folder)
            deadline = time.time() + 60 * minutes
            while time.time() < deadline:
                run.step()
                time.sleep(1)
            run.close()
            wrong = sum(len(events(run.folder, name)) for name in ("process_lost", "member_lost"))
            return wrong + len(events(run.folder, "generation_runs"))
    finally:
        for hog in hogs:
            hog.kill()


def come_and_go(text, rounds):
    """Of a gang that may be smaller: seconds from SIGTERM to the next step, of each growth without one, and steps made again."""
    drains, grows, redone = [], [], 0
    sets = [f"spec.elastic.minReplicas={WORKERS - 1}", "spec.elastic.stabilizationSeconds=0"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
            contextlib.closing(Ours(text, folder, *sets)) as run:
        for _ in range(rounds):
            known = len(events(run.folder, "generation_runs"))
            seconds, again = run.kill_pod(False, signal.SIGTERM)
            drains.append(seconds)
            redone += again
            grows.append(run.grow(known + 1))
            time.sleep(1)
    return drains, grows, redone


def median(seconds):
    return round(statistics.median(seconds), 3) if seconds else None


def torch_round(program, python, text, rounds):
    """A script of PyTorch's: seconds to the next step when a process is killed, one is stopped, and pods are killed."""
    found = {"kill": [], "stop": None, "pod": []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
            contextlib.closing(program(python, text, folder, rounds + 1)) as run:
        for _ in range(rounds):
            found["kill"].append(run.kill())
            time.sleep(2)
        if hasattr(run, "kill_pod"):
            for _ in range(3):
                found["pod"].append(run.kill_pod())
                time.sleep(2)
        found["stop"] = run.stop()
    return found


def measure(is_smoke):
    text, python = text_path(), torch_python()
    rounds = 1 if is_smoke else 7
    mine, rank0, stopped, pods, leaders, redone = [], [], [], [], [], 0
    peer, under_pawl = {"kill": [], "stop": None}, {"kill": [], "stop": None, "pod": []}
    false_positives = None
    # One after the other: each has the machine for itself.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
            contextlib.closing(Ours(text, folder)) as run:
        for number in range(rounds):
            seconds, again = run.kill(1 + number % (WORKERS - 1))
            mine.append(seconds)
            redone += again
            time.sleep(1)
        for _ in range(rounds):
            seconds, again = run.kill(0)
            rank0.append(seconds)
            redone += again
            time.sleep(1)
        for number in range(rounds):
            seconds, again = run.kill(number % WORKERS, signal.SIGSTOP)
            stopped.append(seconds)
            redone += again
            time.sleep(1)
        for number in range(2 * rounds):
            seconds, again = run.kill_pod(is_leader=number >= rounds)
            (leaders if number >= rounds else pods).append(seconds)
            redone += again
            time.sleep(1)
    if python and not is_smoke:
        peer = torch_round(Torchrun, python, text, rounds)
        under_pawl = torch_round(TorchUnderPawl, python, text, rounds)
    drains, grows, again = come_and_go(text, rounds)
    redone += again
    many = changes.measure(text, 5 if is_smoke else 50, 3 if is_smoke else 200)
    minutes = int(os.environ.get("PAWL_CALM_MINUTES", "0"))
    if minutes:
        false_positives = calm(text, minutes)
    later = ["torchft_kill_s"]
    why = "null keys: come with the parts that they measure"
    if not peer["kill"]:
        why += "; torchrun: " + ("smoke run" if is_smoke else "PyTorch is not installed, set PAWL_TORCH_PYTHON")
    return {"kill_s": round(statistics.median(mine), 3), "kill_all_s": [round(value, 3) for value in mine],
            "kill_rank0_s": round(statistics.median(rank0), 3), "kill_rank0_all_s": [round(v, 3) for v in rank0],
            "sigstop_s": round(statistics.median(stopped), 3), "sigstop_all_s": [round(v, 3) for v in stopped],
            "pod_s": round(statistics.median(pods), 3), "pod_all_s": [round(value, 3) for value in pods],
            "leader_s": round(statistics.median(leaders), 3), "leader_all_s": [round(value, 3) for value in leaders],
            "drain_s": round(statistics.median(drains), 3), "drain_all_s": [round(v, 3) for v in drains],
            "grow_pause_s": round(statistics.median(grows), 3), "grow_pause_all_s": [round(v, 3) for v in grows],
            "steps_redone": redone,
            "writes_per_change": many["writes_per_change"], "changes": many,
            "torchrun_kill_s": median(peer["kill"]), "torchrun_all_s": [round(value, 3) for value in peer["kill"]],
            "torchrun_sigstop_s": peer["stop"],
            "torch_kill_s": median(under_pawl["kill"]), "torch_all_s": [round(v, 3) for v in under_pawl["kill"]],
            "torch_pod_s": median(under_pawl["pod"]), "torch_sigstop_s": under_pawl["stop"],
            "false_positives": false_positives, "calm_minutes": minutes,
            **{key: None for key in later},
            "why": why}
