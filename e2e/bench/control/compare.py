"""The same work by every contender: so many jobs of so many pods, on a fresh control plane each time, in turns."""

import dataclasses
import statistics
import sys
import time

from .contenders import Contender
from .figures import Requests, cpu_seconds, difference, memory_mib, wait_until_idle
from .plane import NAMESPACE, Plane
from .watcher import Watcher

# What one job may cost beyond its pods, by kind; measured to all pods Running and until everything that follows from
# that is written. The user's own request is the first.
PAWL_MAX_PER_JOB = {
    "POST trainingjobs": 1, "PATCH trainingjobs/status": 3, "POST events": 1,
    "POST serviceaccounts": 1, "POST roles": 1, "POST rolebindings": 1, "POST poddisruptionbudgets": 1,
    "POST workergroups": 1, "PATCH workergroups": 1,
    "PUT poddisruptionbudgets/status": 1,  # by the disruption controller
}
PAWL_MAX_SUM = 12
# Written by KWOK alone (in a kubelet's place), by how fast it is, which pods with probes and an init container make slower:
# where bare_same is measured beside, what counts is what is beyond the bare client's pods of the same kind.
OF_THE_PODS = {"PATCH pods/status"}


@dataclasses.dataclass
class Size:
    jobs: int = 100
    workers: int = 8
    nodes: int = 250
    timeout: int = 900


class NotUp(Exception):
    """A peer that cannot be measured, and why."""


def run_one(contender: Contender, size, plane=None):
    """One contender on a control plane of its own; the figures of that."""
    if plane is None:
        with Plane(size.nodes) as fresh:
            fresh.warm_up(size.jobs * size.workers)
            _prepare(contender, size, fresh)
            return _measure(contender, size, fresh)
    _prepare(contender, size, plane)
    return _measure(contender, size, plane)


def _prepare(contender, size, plane):
    try:
        contender.prepare(plane, size.workers)
    except (RuntimeError, TimeoutError) as error:
        if not contender.is_peer:
            raise
        raise NotUp(str(error)) from error


def _measure(contender, size, plane):
    pods = size.jobs * size.workers
    plane.wait_collected()
    wait_until_idle(plane)
    requests = Requests(plane)
    watcher = Watcher(plane, f"/api/v1/namespaces/{NAMESPACE}/pods", expect=pods)
    counted = [name for name, daemon in plane.daemons.items() if daemon.pid]
    requests_before = requests.settled()
    cpu_before = {name: cpu_seconds(plane.daemons[name].pid) for name in counted}
    begin = time.time()
    contender.submit(plane, size.jobs, size.workers)
    created = watcher.wait("created", size.timeout) - begin
    running = watcher.wait("running", size.timeout) - begin
    requests_after = requests.settled()
    watcher.stop()
    return {
        "created_s": created, "running_s": running, "requests": difference(requests_after, requests_before),
        "cpu": {name: cpu_seconds(plane.daemons[name].pid) - cpu_before[name] for name in counted},
        "rss_mib": sum(memory_mib(plane.daemons[name].pid, "VmHWM") for name in contender.controllers),
    }


def run_rounds(contenders, size, rounds):
    """name → its figures in each round, and name → why it has none. The order turns, so that no one is always first."""
    figures, absent = {contender.name: [] for contender in contenders}, {}
    for number in range(rounds):
        turn = number % len(contenders)
        for contender in contenders[turn:] + contenders[:turn]:
            if contender.name in absent:
                continue
            try:
                figure = run_one(contender, size)
            except NotUp as why:
                absent[contender.name], figures[contender.name] = str(why), []
                print(f"round {number + 1} {contender.name}: left out: {why}", file=sys.stderr, flush=True)
                continue
            figures[contender.name].append(figure)
            show(contender.name, figure, number)
    return figures, absent


def show(name, figure, number):
    cpu = ", ".join(f"{part} {seconds:.1f}" for part, seconds in figure["cpu"].items())
    print(f"round {number + 1} {name:18} created {figure['created_s']:6.2f} s, running {figure['running_s']:6.2f} s, "
          f"{sum(figure['requests'].values())} requests, CPU s: {cpu}; {figure['rss_mib']:.0f} MiB", file=sys.stderr, flush=True)


def median(figures, key):
    return statistics.median(figure[key] for figure in figures)


def median_requests(figures):
    """By kind; a kind that a round lacks counts as 0 there."""
    kinds = sorted({kind for figure in figures for kind in figure["requests"]})
    return {kind: statistics.median(figure["requests"].get(kind, 0) for figure in figures) for kind in kinds}


def ratios(figures, over, under):
    """Of the times to all pods Running, round by round, then the median: what disturbed a round disturbed both."""
    if not figures.get(over) or not figures.get(under):
        return None
    return round(statistics.median(a["running_s"] / b["running_s"] for a, b in zip(figures[over], figures[under])), 3)


def beyond(figures, jobs, base):
    """Requests a job that Pawl causes and this bare client does not, by kind."""
    bare, pawl = median_requests(figures[base]), median_requests(figures["pawl"])
    extra = {kind: (count - bare.get(kind, 0)) / jobs for kind, count in pawl.items()}
    return {kind: round(value, 2) for kind, value in extra.items() if abs(value) >= 0.005}


def check_requests(extra, extra_same=None):
    """The kinds that cost more than they may, in words; empty if none does. `extra_same`: beyond equal pods."""
    if extra_same is not None:
        extra = {kind: max(extra_same.get(kind, 0), 0) if kind in OF_THE_PODS else value for kind, value in extra.items()}
    excess = [f"{kind}: {value} a job, at most {PAWL_MAX_PER_JOB.get(kind, 0)}" for kind, value in extra.items()
              if value > PAWL_MAX_PER_JOB.get(kind, 0) + 0.05]
    total = round(sum(extra.values()), 2)
    if total > PAWL_MAX_SUM + 0.05:
        excess.append(f"in sum {total} a job, at most {PAWL_MAX_SUM}")
    return excess
