"""A schedule of faults: a function of its seed. What it hits when it comes about also depends on the machine."""

import dataclasses
import random

# How often each is drawn. A freeze is SIGSTOP, and SIGCONT some time later: who wakes up late must change nothing.
KINDS = {"kill_process": 4, "freeze_process": 2, "kill_launcher": 3, "freeze_launcher": 1, "freeze_pod": 2, "drain": 3,
         "delete_pod": 2, "freeze_api": 2, "scale": 3, "kill_all": 1}
WORKERS_MAX = 5


@dataclasses.dataclass
class Fault:
    at: float  # seconds after the first steps
    kind: str
    target: float  # which of those that there are then, from 0 to 1; -1: whoever leads
    seconds: float  # of a freeze
    workers: int  # of a scale

    def __str__(self):
        what = {"scale": f" to {self.workers}", "freeze_api": f" for {self.seconds:.1f} s"}.get(self.kind, "")
        if self.kind in ("freeze_process", "freeze_launcher", "freeze_pod"):
            what = f" for {self.seconds:.1f} s"
        return f"{self.kind}{' (leader)' if self.target < 0 else ''}{what} at {self.at:.1f} s"


@dataclasses.dataclass
class Plan:
    seed: int
    workers: int
    per_worker: int
    least: int  # 0: not elastic
    sets: dict
    faults: list

    @property
    def is_sharded(self):
        return "spec.runtime.config.parallel.zero" in self.sets

    @property
    def compression(self):
        return self.sets.get("spec.runtime.config.parallel.compression", "")

    def __str__(self):
        size = ("sharded, " if self.is_sharded else self.compression + ", " if self.compression else "") + f"{self.workers} workers" + (f" x {self.per_worker}" if self.per_worker > 1 else "")
        size += f", at least {self.least}" if self.least else ""
        return f"seed {self.seed}: {size}; " + ", ".join(map(str, self.faults))


def draw(seed):
    rng = random.Random(seed)
    workers = rng.choice([2, 3, 3, 4, 4, 5])
    per_worker = 2 if workers <= 3 and rng.random() < 0.2 else 1
    least = rng.randint(1, workers) if rng.random() < 0.5 else 0
    sets = {"spec.replicas": workers, "spec.processesPerWorker": per_worker, "spec.failurePolicy.maxRestarts": 50,
            "spec.checkpoint.everySeconds": rng.choice([1, 2, 5]),
            "spec.template.spec.terminationGracePeriodSeconds": rng.choice([2, 5, 30])}
    if least:
        sets["spec.elastic.minReplicas"] = least
        sets["spec.elastic.stabilizationSeconds"] = rng.choice([0, 1, 3])
    faults, at = [], 0.0
    for _ in range(rng.randint(1, 6)):
        at += rng.choice([0.0, 0.05, rng.uniform(0.1, 1), rng.uniform(0.5, 3)])
        faults.append(Fault(at, rng.choices(list(KINDS), list(KINDS.values()))[0],
                            -1.0 if rng.random() < 0.3 else rng.random(), rng.choice([rng.uniform(0.1, 1.5), rng.uniform(1.5, 9)]),
                            rng.randint(max(1, least), WORKERS_MAX)))
    # Nobody holds the whole state: what is lost is made again, with the same bits.
    if rng.random() < 0.2:
        sets["spec.runtime.config.parallel.zero"] = 1
    # What a lost rank had not sent yet is lost: no bits to compare, but those of the ranks.
    elif rng.random() < 0.25:
        sets["spec.runtime.config.parallel.compression"] = rng.choice(["bf16", "int8", "sign", "top_k"])
        sets["spec.runtime.config.determinism"] = "none"
        sets["spec.runtime.config.guard.digest_every"] = 5
    return Plan(seed, workers, per_worker, least, sets, faults)
