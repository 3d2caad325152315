"""A large gang whose membership changes again and again: processes and launchers are killed, the leading one as well, and
its size changes. For each change the time from the blow to the first step of the next generation, and what was written to
the gang's record: by the launchers (who leads, and the generation: one write each), apart from their progress, and by the
operator (names and UIDs of successors).
"""

import pathlib
import random
import re
import signal
import statistics
import sys
import tempfile
import time

from trainer import ROOT

sys.path.insert(0, str(ROOT / "tests" / "schedules"))
from job import JOBS, Job  # noqa: E402

TIMEOUT = 120


def count_in_logs(job, event):
    return sum(log.read_text(errors="replace").count(f'"event":"{event}"') for log in (job.run / "logs").glob("*.log"))


def wait_for_change(job, generation):
    """Until a step is made in a generation after this one."""
    deadline = time.time() + TIMEOUT
    while time.time() < deadline:
        now = job.status().get("generation", 0)
        log = job.run / "logs" / f"{job.leader()}.log"
        if now > generation and log.exists():
            runs = re.findall(r'"event":"generation_runs","text":"generation (\d+) ', log.read_text(errors="replace"))
            if runs and int(runs[-1]) >= now:
                return
        if not job.is_running():
            break
        time.sleep(0.01)
    raise SystemExit(f"changes: generation {generation} was followed by none within {TIMEOUT} s; "
                     f"{pathlib.Path(job.output.name).read_text(errors='replace')[-500:]}")


def change(job, rng, members):
    """Makes one, and returns what it was."""
    kind = rng.choice(["kill_process", "kill_launcher", "kill_leader", "resize"])
    if kind == "resize":
        wanted = rng.choice([one for one in range(members - 5, members + 1) if one != job.record()["spec"]["targetMembers"]])
        job.call("PATCH", f"{JOBS}/schedule", {"spec": {"replicas": wanted}})
        return kind
    leader = job.leader()
    chosen = [process for process in job.processes() if process.is_launcher == (kind != "kill_process")
              and (process.pod == leader) == (kind == "kill_leader")]
    rng.choice(chosen).signal(signal.SIGKILL)
    return kind


def writes_of(records):
    """Of the launchers' writes those that say more than progress; and the operator's."""
    routine = ("progress", "checkpoint", "goodput")

    def without_progress(record):
        return {key: value for key, value in record.get("status", {}).items() if key not in routine}

    by_launchers = by_operator = 0
    for (_, before), (_, after) in zip(records, records[1:]):
        by_launchers += without_progress(before) != without_progress(after)
        by_operator += before["spec"] != after["spec"]
    return by_launchers, by_operator


def measure(text, members, count, seed=1):
    rng = random.Random(seed)
    times = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        job = Job(folder, text, {"spec.replicas": members, "spec.failurePolicy.maxRestarts": 1000,
                                 "spec.checkpoint.everySeconds": 3600, "spec.runtime.config.steps": 100_000_000,
                                 "spec.runtime.config.log_every": 0})
        try:
            wait_until(lambda: job.step() > 0)
            first, conflicts = len(job.records) - 1, count_in_logs(job, "status_write_unclear")
            for _ in range(count):
                generation = job.status()["generation"]
                start = time.time()
                kind = change(job, rng, members)
                wait_for_change(job, generation)
                times.setdefault(kind, []).append(time.time() - start)
                time.sleep(0.3)
            by_launchers, by_operator = writes_of(job.records[first:])
            conflicts = count_in_logs(job, "status_write_unclear") - conflicts
            attempts, takeovers = job.status()["attempt"], job.status()["term"] - 1
        finally:
            job.close()
    return {"members": members, "changes": count, "seed": seed, "attempts": attempts,
            "change_s": {kind: round(statistics.median(found), 3) for kind, found in sorted(times.items())},
            "change_max_s": {kind: round(max(found), 3) for kind, found in sorted(times.items())},
            "writes_per_change": round((by_launchers - takeovers) / count, 3), "takeover_writes": takeovers,
            "operator_writes_per_change": round(by_operator / count, 3), "conflicts": conflicts}


def wait_until(condition):
    deadline = time.time() + TIMEOUT
    while not condition():
        if time.time() > deadline:
            raise SystemExit(f"changes: the gang made no step within {TIMEOUT} s")
        time.sleep(0.05)
