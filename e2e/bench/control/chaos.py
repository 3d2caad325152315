"""1,000 jobs at once, half of them deleted at random, the operator killed again and again: every survivor completes,
nothing leaks, no gang runs twice. What happened is read from watches of an independent client, never from Pawl's words."""

import random
import sys
import threading
import time

from .contenders import Pawl, install_pawl
from .plane import NAMESPACE, Plane, poll
from .watcher import Watcher

JOBS = f"/apis/pawl.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs"
CHILDREN = {"pods": "/api/v1", "serviceaccounts": "/api/v1", "roles": "/apis/rbac.authorization.k8s.io/v1",
            "rolebindings": "/apis/rbac.authorization.k8s.io/v1", "poddisruptionbudgets": "/apis/policy/v1",
            "workergroups": "/apis/pawl.dev/v1alpha1"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(jobs, workers, nodes, kills, seed):
    """Raises AssertionError when a claim does not hold; returns what was seen."""
    rng = random.Random(seed)
    pawl = Pawl()
    with Plane(nodes) as plane:
        install_pawl(plane)
        pawl.start(plane)
        record = plane.state / "pods.jsonl"
        watcher = Watcher(plane, f"/api/v1/namespaces/{NAMESPACE}/pods", record=record)
        begin = time.time()
        plane.post(JOBS, pawl.job(workers, {"bench.pawl.dev/runs": "shortly"}), count=jobs)
        doomed = rng.sample(range(jobs), jobs // 2)
        deleter = threading.Thread(target=_delete, args=(plane, doomed, rng.random(), kills))
        deleter.start()
        _kill_often(plane, pawl, kills, rng)
        deleter.join()
        survivors = {f"job-{i}" for i in set(range(jobs)) - set(doomed)}
        poll(lambda: _are_complete(plane, survivors), "survivors that complete", 900, 2)
        took = time.time() - begin
        leaked = {}

        def is_tidy():
            leaked.clear()
            leaked.update(_leaks(plane, survivors, workers))
            return not leaked

        try:
            poll(is_tidy, "no child without its job", 180, 2)
        except TimeoutError:
            raise AssertionError(f"left behind after all survivors completed: {leaked}") from None
        events = watcher.stop()
        seen = check_record(events, workers)
    return {"jobs": jobs, "deleted": len(doomed), "kills": kills, "seconds": round(took, 1), "seed": seed, **seen}


def _delete(plane, doomed, start, kills):
    """In portions all along the time of the kills."""
    rng = random.Random(start)
    portions = max(1, kills * 2)
    for number in range(portions):
        for index in doomed[number::portions]:
            plane.post(f"{JOBS}/job-{index}", {"propagationPolicy": "Background"}, method="DELETE", accept=404)
        time.sleep(rng.uniform(0.0, 0.5))


def _kill_often(plane, pawl, kills, rng):
    for number in range(kills):
        time.sleep(rng.uniform(0.05, 1.5))
        plane.daemons["pawl-operator"].kill()
        pawl.start(plane)
        say(f"kill {number + 1} of {kills}")


def _are_complete(plane, survivors):
    items = list(plane.items(JOBS))
    failed = [item["metadata"]["name"] for item in items if item.get("status", {}).get("phase") == "Failed"]
    assert not failed, f"failed: {failed[:10]}"
    complete = {item["metadata"]["name"] for item in items if item.get("status", {}).get("phase") == "Complete"}
    return complete >= survivors


def _leaks(plane, survivors, workers):
    """By kind: children without a living job, and survivors with another number of children than they should have."""
    leaks = {}
    uids = {item["metadata"]["uid"]: item["metadata"]["name"] for item in plane.items(JOBS)}
    if set(uids.values()) != survivors:
        leaks["trainingjobs"] = sorted(set(uids.values()) ^ survivors)[:5]
    for kind, base in CHILDREN.items():
        per_job = {uid: 0 for uid in uids}
        for item in plane.items(f"{base}/namespaces/{NAMESPACE}/{kind}"):
            owners = [owner["uid"] for owner in item["metadata"].get("ownerReferences", [])]
            if not owners and kind == "serviceaccounts" and item["metadata"]["name"] == "default":
                continue
            if len(owners) != 1 or owners[0] not in uids:
                leaks.setdefault(kind, []).append(item["metadata"]["name"])
            else:
                per_job[owners[0]] += 1
        wanted = {workers if kind == "pods" else 1}
        if kind == "poddisruptionbudgets":
            wanted.add(0)  # made when all workers are ready, which a gang that ends quickly never was
        wrong = {uids[uid]: count for uid, count in per_job.items() if count not in wanted}
        if wrong:
            leaks.setdefault(kind + " a job", []).append(dict(list(wrong.items())[:5]))
    return {kind: found[:5] for kind, found in leaks.items()}


def check_record(events, workers):
    """No gang ran twice: of every job that ever was, deleted ones too, each place was filled by one pod in all its life.
    Nothing here but the operator's death and the deletions can go wrong, so no second pod has an excuse."""
    places, running, pods = {}, set(), set()
    for event in events:
        meta = event["object"]["metadata"]
        owners = [owner["uid"] for owner in meta.get("ownerReferences", []) if owner["kind"] == "TrainingJob"]
        assert len(owners) == 1, f"pod {meta['name']} has no TrainingJob as its owner"
        slot = meta["labels"]["pawl.dev/slot"]
        places.setdefault((owners[0], slot), set()).add(meta["uid"])
        pods.add(meta["uid"])
        if event["object"]["status"].get("phase") == "Running":
            running.add(meta["uid"])
    twice = {place: uids for place, uids in places.items() if len(uids) > 1}
    assert not twice, f"places filled twice: {list(twice.items())[:5]}"
    jobs = {}
    for job, slot in places:
        jobs.setdefault(job, set()).add(slot)
    wide = {job: slots for job, slots in jobs.items() if len(slots) > workers}
    assert not wide, f"gangs that were too large: {list(wide.items())[:5]}"
    return {"gangs_seen": len(jobs), "pods_seen": len(pods), "pods_ran": len(running), "places_filled_twice": 0}
