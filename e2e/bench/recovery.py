"""From the death of a training process to the next new step, beside torchrun on the same model.

Ours is `pawl run` of examples/gpt-text.yaml with four workers: one training process is killed with SIGKILL, again and
again, then one is stopped with SIGSTOP, then whole pods are killed (the launcher, and with it its processes), then the
pod of the leading launcher; who leads logs the first confirmed step of the next generation. A second run may go on with
three (`spec.elastic`): a launcher is told to terminate, the others go on without it, and its successor comes in some
seconds later; the pause of a growth is from the order to park to the first step of four. A third has 50 workers, whose
membership changes 200 times (changes.py). Theirs is
`torchrun --nproc-per-node 4 --max-restarts N` of the same model (torch_gpt.py), which restarts all workers: the time is
to the first step that they make, though nothing of the steps before is kept; one that is stopped is waited for a minute.
With `--nnodes 3:4` a fourth comes to three. Under torchft (torchft_recovery.py) survivors go on, as ours do.
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
import subprocess
import tempfile
import time

import changes
import peer_recovery
from peer_recovery import median, rounded
from torch_recovery import WARM_STEPS, WORKERS, wait_for
from trainer import PAWL, ROOT, text_path, torch_python


def trainers(folder):
    """PIDs of the training processes of the run in this folder, with their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().split(b"\0")
            environment = (path / "environ").read_bytes()
        except OSError:
            continue
        if b"pawl-train" in command[0] and b"LOCAL_RANK=" in environment and folder.encode() in environment:
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
        try:
            wait_for("step", lambda: self.step() >= WARM_STEPS)
        except BaseException:
            self.close()
            raise

    def step(self):
        if self.process.poll() is not None:
            raise SystemExit(f"recovery: pawl run ended:\n{pathlib.Path(self.output.name).read_text()[-2000:]}")
        steps = re.findall(r"\s(\d+)/1000000\s", pathlib.Path(self.output.name).read_text())
        return int(steps[-1]) if steps else 0

    def kill(self, slot, number=signal.SIGKILL):
        """Seconds from the signal to the first step after it, and the confirmed steps that were made again."""
        return self.strike(next(pid for pid, found in trainers(self.folder) if slot_of(found) == slot), number)

    def kill_pod(self, is_leader, number=signal.SIGKILL):
        """The same for a launcher, which takes its processes along; its pod is replaced."""
        leader = pathlib.Path(events(self.folder, "leading")[-1][2]).stem
        for pid, environment in trainers(self.folder):
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
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
                contextlib.closing(Ours(text, folder)) as run:
            deadline = time.time() + 60 * minutes
            while time.time() < deadline:
                run.step()
                time.sleep(1)
            wrong = sum(len(events(run.folder, name)) for name in ("process_lost", "member_lost"))
            return wrong + len(events(run.folder, "generation_runs"))
    finally:
        for hog in hogs:
            hog.kill()


def calm_minutes(text):
    minutes = int(os.environ.get("PAWL_CALM_MINUTES", "0"))
    return {"false_positives": calm(text, minutes) if minutes else None, "calm_minutes": minutes}


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


def disturbed(text, rounds):
    """What a run of four workers does when a process or a pod of it is killed, or stopped."""
    blows = [("kill", lambda run, number: run.kill(1 + number % (WORKERS - 1))),
             ("kill_rank0", lambda run, _: run.kill(0)),
             ("sigstop", lambda run, number: run.kill(number % WORKERS, signal.SIGSTOP)),
             ("pod", lambda run, _: run.kill_pod(is_leader=False)),
             ("leader", lambda run, _: run.kill_pod(is_leader=True))]
    found, redone = {}, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
            contextlib.closing(Ours(text, folder)) as run:
        for name, blow in blows:
            found[name] = []
            for number in range(rounds):
                seconds, again = blow(run, number)
                found[name].append(seconds)
                redone += again
                time.sleep(1)
    return found, redone


def ours(text, rounds, is_smoke):
    found, redone = disturbed(text, rounds)
    found["drain"], found["grow_pause"], again = come_and_go(text, rounds)
    many = changes.measure(text, 5 if is_smoke else 50, 3 if is_smoke else 200)
    result = {}
    for name, seconds in found.items():
        result |= {f"{name}_s": median(seconds), f"{name}_all_s": rounded(seconds)}
    return {**result, "steps_redone": redone + again, "writes_per_change": many["writes_per_change"], "changes": many,
            **calm_minutes(text)}


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", choices=["ours", "calm", "peers", "script", "torchft", "all"], default="all",
                        help="calm: only the PAWL_CALM_MINUTES of `ours`; "
                             "peers: the PyTorch script, under torchrun, torchft and `pawl run`; torchft: that alone; "
                             "script: the blows alone, under torchrun and `pawl run`, on PAWL_BENCH_DEVICE (cpu or cuda)")


def measure(is_smoke, options):
    """One after the other: each has the machine for itself."""
    text, rounds, result = text_path(), 1 if is_smoke else options.rounds, {}
    if options.part == "calm":
        return calm_minutes(text)
    if options.part in ("ours", "all"):
        result = ours(text, rounds, is_smoke)
        print("ours", json.dumps(result), flush=True)  # a peer that fails is no reason to measure it again
    if is_smoke:
        result |= peer_recovery.nothing("smoke run")
    elif options.part != "ours":
        result |= peer_recovery.measure(torch_python(), text, rounds, options.part)
    return result
