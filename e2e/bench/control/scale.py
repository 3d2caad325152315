"""Pawl alone at scale: memory with 1,000 running gangs on 5,000 nodes, what they write while they run, and what 10,000
jobs cost that wait or have ended."""

import subprocess
import sys
import time

from .contenders import Pawl, install_pawl
from .figures import Requests, cpu_seconds, difference, memory_mib
from .plane import NAMESPACE, Plane, poll
from .watcher import Watcher

JOBS = f"/apis/pawl.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs"


def measure(share):
    return {**running(share), **idle(share), "scale_share": share}


def say(text):
    print(text, file=sys.stderr, flush=True)


def running(share, seconds=120):
    jobs, workers, nodes = max(1, int(1000 * share)), 8, max(4, int(5000 * share))
    pawl = Pawl()
    with Plane(nodes) as plane:
        say(f"{nodes} nodes are ready")
        pawl.prepare(plane, workers)
        empty = memory_mib(plane.daemons["pawl-operator"].pid)
        watcher = Watcher(plane, f"/api/v1/namespaces/{NAMESPACE}/pods", expect=jobs * workers)
        begin = time.time()
        pawl.submit(plane, jobs, workers)
        seconds_to_run = watcher.wait("running", 1800) - begin
        watcher.stop()
        requests = Requests(plane)
        requests.settled(3, 40)
        grown = _memory(plane)
        say(f"{jobs} jobs × {workers} pods run after {seconds_to_run:.0f} s; operator {grown}")
        plane.daemons["pawl-operator"].kill()
        pawl.start(plane)
        requests.settled(3, 40)
        restarted = _memory(plane)
        say(f"started again beside them: {restarted}")
        writes = reports(plane, requests, seconds)
        after_reports = _memory(plane)
    figure = max(grown["rss"], restarted["rss"], after_reports["rss"])
    return {"rss_mib_1000_jobs": figure, "rss_mib": {"empty": round(empty, 1), "grown": grown, "restarted": restarted,
                                                     "after_reports": after_reports},
            "rss_jobs": jobs, "rss_nodes": nodes, "jobs_running_s": round(seconds_to_run, 1), **writes}


def _memory(plane):
    pid = plane.daemons["pawl-operator"].pid
    return {"rss": round(memory_mib(pid), 1), "peak": round(memory_mib(pid, "VmHWM"), 1)}


def reports(plane, requests, seconds):
    """Every gang reports, by a client that stands for its launcher, as often as its WorkerGroup says."""
    child = subprocess.Popen(plane.load("report", "-seconds", seconds, "-settle", 30), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if child.stdout.readline().strip() != "reporting":
        raise RuntimeError(child.communicate()[1][:2000])
    before, cpu, begin = requests.read(), cpu_seconds(plane.daemons["pawl-operator"].pid), time.time()
    output, errors = child.communicate()
    if child.returncode:
        raise RuntimeError(errors[:2000])
    took = time.time() - begin
    used = (cpu_seconds(plane.daemons["pawl-operator"].pid) - cpu) / took
    counts = {kind: count / took for kind, count in difference(requests.read(), before).items()}
    jobs, launchers = counts.get("PATCH trainingjobs/status", 0.0), counts.get("PATCH workergroups/status", 0.0)
    say(f"reports: {output.strip()}; a second: {jobs:.1f} job status writes, {launchers:.1f} reports, CPU {100 * used:.1f} %")
    return {"running_writes_per_s": round(jobs + launchers, 2),
            "running_writes": {"trainingjobs_status": round(jobs, 2), "workergroups_status": round(launchers, 2)},
            "running_cpu": round(used, 4)}


def idle(share, seconds=60):
    """Half of the jobs are suspended from the start, half have ended."""
    count = max(2, int(10000 * share)) // 2
    pawl = Pawl()
    with Plane(4) as plane:
        install_pawl(plane)
        pawl.start(plane)
        status = _finished_status(plane, pawl)
        plane.daemons["pawl-operator"].kill()
        plane.post(JOBS, pawl.job(2), count=count)
        plane.post(JOBS + "/job-$I/status", {"status": status}, count=count, method="PATCH")
        plane.post(JOBS, pawl.job(2, suspend=True), count=count, first=count)
        say(f"{count} finished and {count} suspended jobs are stored")
        pawl.start(plane)
        requests = Requests(plane)
        poll(lambda: _are_settled(plane, 2 * count), "settled jobs", 900, 3)
        requests.settled(5, 60)
        pid = plane.daemons["pawl-operator"].pid
        before, cpu, begin = requests.read(), cpu_seconds(pid), time.time()
        time.sleep(seconds)
        took, used = time.time() - begin, cpu_seconds(pid) - cpu
        done = difference(requests.read(), before)
        memory = _memory(plane)
    writes = {kind: number for kind, number in done.items() if not kind.startswith("GET ")}
    say(f"{2 * count} idle jobs: {used:.2f} CPU s in {took:.0f} s, writes {writes}, operator {memory}")
    return {"idle_writes": sum(writes.values()), "idle_cpu": round(used / took, 5), "idle_jobs": 2 * count,
            "idle_rss_mib": memory, "idle_requests": done}


def _finished_status(plane, pawl):
    """Of a job that KWOK's pods have brought to its end, without a report of any launcher."""
    job = pawl.job(2, {"bench.pawl.dev/runs": "shortly"})
    job["metadata"]["name"] = "first"
    plane.post(JOBS, job)
    poll(lambda: _phase(plane, "first") == "Complete", "a job that completes by its pods alone", 120, 0.5)
    return plane.control.api.get(f"{JOBS}/first")["status"]


def _phase(plane, name):
    return plane.control.api.get(f"{JOBS}/{name}").get("status", {}).get("phase", "")


def _are_settled(plane, count):
    return count <= sum(1 for item in plane.items(JOBS) if item.get("status", {}).get("phase") in ("Complete", "Suspended"))
