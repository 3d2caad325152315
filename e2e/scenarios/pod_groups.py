"""kube-scheduler places gangs as a whole (placement.podGroups), on a control plane that serves PodGroups: run.py --newest."""

from lib import install, jobs, running
from lib.kube import Job, get, kubectl, until
from scenarios.placement import start, upgraded

ALONE = True  # the operator makes PodGroups for everybody


def grouping(*options):
    """Gangs that the scheduler places begin in PodGroups."""
    return upgraded("--set", "placement.podGroups=true", *options)


def bound(job):
    return [pod for pod in running.living_pods(job) if pod["spec"].get("nodeName")]


def group_of(job):
    status, uid = job.status(), job.read()["metadata"]["uid"]
    return get("podgroup", f"{job.name}-{uid[:7]}-{status['attempt']}", job.namespace)


def in_group(pod):
    return "schedulingGroup" in pod["spec"]


def newest_of_two_gangs_one_has_all_its_nodes(namespace):
    """Each wants six of eight slots. Placed pod by pod, each could hold four, and wait for the other."""
    with grouping():
        both = [start(name, namespace, 3, 2, 20) for name in ("first", "second")]
        until("one of them runs", lambda: [job for job in both if job.phase() == "Running"], timeout=90)
        winner = next(job for job in both if job.phase() == "Running")
        loser = next(job for job in both if job is not winner)
        assert group_of(winner)["spec"]["schedulingPolicy"]["gang"]["minCount"] == 3, group_of(winner)
        assert "all" in group_of(winner)["spec"]["disruptionMode"], group_of(winner)
        placed_by = winner.status()["placedBy"]
        assert placed_by.startswith("kube-scheduler, all pods together (as a PodGroup): "), placed_by
        until("the other one says why it waits", lambda: loser.status()["reason"] == "Unschedulable", timeout=30)
        print(f"       {loser.status()['message']}", flush=True)
        assert len(loser.pods()) == 3 and not bound(loser), loser.pods()
        for job in (winner, loser):
            job.wait_for("Complete", timeout=120)


def newest_a_gang_that_trains_needs_no_group(namespace):
    """A worker that is lost has a successor, and the gang grows, without waiting for anybody; the next attempt has another
    group, of another priority."""
    urgent = f"urgent-{namespace}"
    with grouping("--set", "placement.enabled=true"):
        install.shared_volume(namespace)
        manifest = jobs.spread(jobs.tiny_gpt("gpt", replicas=2, steps=100_000))
        kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
        job = Job("gpt", namespace)
        until("a checkpoint is published", job.checkpoint_step, timeout=90)
        placed_by = job.status()["placedBy"]
        assert placed_by.endswith(": the template says where other pods are, which only the scheduler heeds"), placed_by
        group = group_of(job)
        assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2 and all(map(in_group, job.pods())), group
        kubectl("delete", "pod", "gpt-1-1-0", "-n", namespace, "--wait=false")
        until("another one takes its place", lambda: running.record_of(job)["generation"] > 1 and
              "gpt-1-1-1" in [pod["metadata"]["name"] for pod in bound(job)], timeout=90)
        running.goes_on(job, running.record_of(job))
        kubectl("scale", "tj/gpt", "-n", namespace, "--replicas=4")
        until("it grows in place", lambda: job.status()["ready"] == "4/4" and len(running.record_of(job)["members"]) == 4,
              timeout=90)
        assert job.status()["attempt"] == 1, job.status()
        assert sum(map(in_group, bound(job))) == 1, job.pods()
        kubectl("create", "priorityclass", urgent, "--value=10")
        manifest["spec"]["replicas"] = 2
        manifest["spec"]["template"]["spec"]["priorityClassName"] = urgent
        kubectl("patch", "tj", "gpt", "-n", namespace, "--type=merge", "-p", '{"spec": {"suspend": true}}')
        until("it is suspended", lambda: job.phase() == "Suspended" and not job.pods(), timeout=60)
        kubectl("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
        kubectl("patch", "tj", "gpt", "-n", namespace, "--type=merge", "-p", '{"spec": {"suspend": false}}')
        until("it trains again", lambda: job.status()["attempt"] == 2 and job.phase() == "Running", timeout=90)
        spec = group_of(job)["spec"]
        assert (spec["priority"], spec["schedulingPolicy"]["gang"]["minCount"]) == (10, 2), spec
        until("the first group is gone", lambda: len(get("podgroups", namespace=namespace)["items"]) == 1, timeout=30)
        kubectl("delete", "tj", "gpt", "-n", namespace, "--wait")
        until("the group is gone", lambda: not get("podgroups", namespace=namespace)["items"], timeout=30)
        kubectl("delete", "priorityclass", urgent)
