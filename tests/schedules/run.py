"""Randomized schedules of faults on real launchers and training processes: run.py [--count N] [--seed S] [--at-once N].

Each schedule is one `pawl run` (the operator's own code, an embedded API, launchers and processes as on a cluster) of 2 to
5 workers that is hit by up to six faults: processes, launchers and whole pods are killed, frozen and woken up late, told
to terminate and deleted, the leading one as well; the API is away; the size changes. It has to complete, with the bits of a
run that nobody disturbed (or, with compressed gradients, near its losses), and oracle.py has more. A failure leaves its folder, and prints the command that tries the
schedule again. The last line is RESULT {json}.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import oracle  # noqa: E402
import plan as plans  # noqa: E402
from job import JOBS, PODS, ROOT, Job, Reference  # noqa: E402

END_SECONDS = 120  # after the last fault


class Schedule:
    """One plan being carried out on one job."""

    def __init__(self, plan, job):
        self.plan, self.job = plan, job
        self.hits = []  # (seconds, UID of the pod)
        self.wakes = []  # (seconds, processes)
        self.struck = 0

    def sleep_until(self, at):
        """Whether the job still runs then."""
        while time.time() < at and self.job.is_running():
            self.wake_due()
            time.sleep(0.02)
        return self.job.is_running()

    def wake_due(self, is_all=False):
        for wake in [one for one in self.wakes if is_all or one[0] <= time.time()]:
            self.wakes.remove(wake)
            for process in wake[1]:
                process(signal.SIGCONT)

    def call(self, *request):
        """A request that may have to wait for the API, whose time to wake up comes meanwhile."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.job.call, *request)
            while not answer.done():
                self.wake_due()
                time.sleep(0.02)
            return answer.result()

    def choose(self, fault, found):
        """The pod that is hit, and its processes."""
        pods = sorted({process.pod for process in found})
        if not pods:
            return "", []
        pod = pods[int(max(fault.target, 0) * len(pods))]
        if fault.target < 0 and self.job.leader() in pods:
            pod = self.job.leader()
        return pod, [process for process in found if process.pod == pod]

    def note_hit(self, pod):
        for one in self.job.record().get("spec", {}).get("pods", []):
            if one["name"] == pod:
                self.hits.append((time.time(), one.get("uid")))

    def strike(self, fault):
        found = self.job.processes()
        pod, mine = self.choose(fault, found)
        launchers = [process for process in mine if process.is_launcher]
        workers = [process for process in mine if not process.is_launcher]
        if fault.kind == "scale":
            self.call("PATCH", f"{JOBS}/schedule", {"spec": {"replicas": fault.workers}})
            for one in self.job.record().get("spec", {}).get("pods", [])[fault.workers:]:
                self.note_hit(one["name"])
        elif fault.kind == "freeze_api":
            self.job.process.send_signal(signal.SIGSTOP)
            self.wakes.append((time.time() + fault.seconds, [self.job.process.send_signal]))
        elif fault.kind == "kill_all":
            for process in found:
                self.note_hit(process.pod)
                if not process.is_launcher:
                    process.signal(signal.SIGKILL)
        elif mine:
            self.note_hit(pod)
            if fault.kind == "delete_pod":
                self.call("DELETE", f"{PODS}/{pod}")
            elif fault.kind in ("kill_process", "freeze_process"):
                self.hit(fault, workers[:1] if fault.target < 0.5 else workers[-1:])
            elif fault.kind == "freeze_pod":
                self.hit(fault, mine)
            else:
                self.hit(fault, launchers)
        self.struck += 1

    def hit(self, fault, processes):
        number = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "drain": signal.SIGTERM}[fault.kind.split("_")[0]]
        for process in processes:
            process.signal(number)
        if number == signal.SIGSTOP:
            self.wakes.append((time.time() + fault.seconds, [process.signal for process in processes]))

    def carry_out(self):
        deadline = time.time() + 60
        while self.job.step() < 3 and self.job.is_running() and time.time() < deadline:
            time.sleep(0.02)
        start = time.time()
        for fault in self.plan.faults:
            if not self.sleep_until(start + fault.at):
                break
            self.strike(fault)
        while self.wakes and self.sleep_until(min(wake[0] for wake in self.wakes)):
            self.wake_due()
        self.wake_due(is_all=True)
        return self.job.wait(END_SECONDS)


def try_one(plan, text, reference, is_kept):
    start = time.time()
    folder = tempfile.mkdtemp(prefix=f"pawl-schedule-{plan.seed}-")
    job = Job(folder, text, plan.sets)
    schedule = Schedule(plan, job)
    try:
        code = schedule.carry_out()
        errors = [] if code == 0 else [f"pawl run ended with {code}: " + tail(job)]
        errors += oracle.errors(job, plan, reference, schedule.hits) if code == 0 else []
    except Exception:  # noqa: BLE001: a schedule may fail in any way; the others still run
        errors = [traceback.format_exc()]
    finally:
        job.close()
    seconds = time.time() - start
    found = oracle.generations(job)
    print(f"{'ok    ' if not errors else 'FAILED'} {plan}: {schedule.struck} faults, {len(found)} generations, "
          f"{job.status().get('attempt', 0)} attempts, {seconds:.1f} s", flush=True)
    for error in errors:
        print(f"       {error}", flush=True)
    if errors:
        print(f"       {folder}; again: python3 tests/schedules/run.py --seed {plan.seed} --count 1", flush=True)
    elif not is_kept:
        shutil.rmtree(folder, ignore_errors=True)
    return {"is_failed": bool(errors), "faults": schedule.struck, "generations": len(found),
            "attempts": job.status().get("attempt", 0), "seconds": seconds}


def end_all():
    for job in list(Job.running):
        job.close()
    os._exit(143)


def tail(job):
    return pathlib.Path(job.output.name).read_text(errors="replace")[-500:]


def main():
    signal.signal(signal.SIGTERM, lambda *_: end_all())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="the folders of all schedules")
    options = parser.parse_args()
    source = subprocess.run([ROOT / "tools" / "demo_text.sh"], text=True, capture_output=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text"
        text.write_bytes(pathlib.Path(source).read_bytes()[:200_000])
        reference = Reference(folder, text)
        with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
            plan_of = [plans.draw(options.seed + number) for number in range(options.count)]
            results = list(pool.map(lambda plan: try_one(plan, text, reference, options.keep), plan_of))
    failed = sum(one["is_failed"] for one in results)
    print("RESULT " + json.dumps({
        "schedules": len(results), "failures": failed, "faults": sum(one["faults"] for one in results),
        "generations": sum(one["generations"] for one in results),
        "attempts": sum(one["attempts"] for one in results), "seed": options.seed,
        "seconds": round(sum(one["seconds"] for one in results) / max(1, len(results)), 1)}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
