"""Networks that fail in part, nodes that die or live on without their kubelet, an API server that is away: the job goes on,
nothing is counted, and a worker that the others have given up changes nothing when it is back."""

import contextlib
import os
import signal
import time

from lib import running
from lib.kube import cluster, get, kubectl, until
from lib.running import living_pods, pods_on, reasons, record_of

ALONE = True
NODES = ("node-a", "node-b")


@contextlib.contextmanager
def healed():
    """Whatever happens, the network is whole and all programs run behind it."""
    try:
        yield
    finally:
        cluster("unblock")
        for node in NODES:
            cluster("node-heal", node)


def member_uids(job):
    return sorted(member["uid"] for member in record_of(job)["members"])


def leaders_node(job):
    uid = record_of(job)["leader"]["uid"]
    return next(pod["spec"]["nodeName"] for pod in job.pods() if pod["metadata"]["uid"] == uid)


def other_than(node):
    return next(one for one in NODES if one != node)


def gang(namespace, name, least=None, replicas=3, is_spread=False):
    """On both nodes. Its training takes longer than anything here; complete() ends that."""
    until("both nodes take pods", lambda: not any(get("node", node)["spec"].get("taints") for node in NODES), timeout=120)
    job = running.start(name, namespace, steps=9000, replicas=replicas, least=least, is_spread=is_spread)
    assert all(pods_on(job, node) for node in NODES), kubectl("get", "pods", "-n", namespace, "-o", "wide")
    until("all are ready", lambda: job.status().get("ready") == f"{replicas}/{replicas}", timeout=60)
    return job


def steps_on(job, count=20, timeout=90):
    step = job.step()
    until(f"{count} more steps than {step}", lambda: job.step() >= step + count, timeout=timeout)


def complete(job, attempt=1):
    job.wait_for("Complete", timeout=400)
    status = job.status()
    assert status["progress"]["step"] == 9000 and status["attempt"] == attempt, status
    assert status["restarts"].get("counted", 0) == 0, status["restarts"]
    return status


def long_cut_node(namespace):
    """A node that reaches nobody: the others go on without its workers, which come back with it."""
    job = gang(namespace, "gpt-cut", least=1)
    lost = other_than(leaders_node(job))
    before, uids = record_of(job), member_uids(job)
    with healed():
        cluster("node-cut", lost)
        until("the others are a gang", lambda: len(record_of(job)["members"]) < 3, timeout=60)
        record = record_of(job)
        assert record["attempt"] == 1 and record["startStep"] >= before["progress"]["step"], (record, before)
        steps_on(job)
        cluster("node-heal", lost)
        until("three are members again", lambda: len(record_of(job)["members"]) == 3, timeout=120)
    print(f"       the same pods: {member_uids(job) == uids}")
    complete(job)


def long_cut_node_of_a_whole_gang(namespace):
    """Without spec.elastic the others wait with their state in memory: for the node, or for other pods."""
    job = gang(namespace, "gpt-cut-all")
    lost = other_than(leaders_node(job))
    before = record_of(job)
    with healed():
        cluster("node-cut", lost)
        time.sleep(6)  # longer than silence is borne, shorter than a node needs to be NotReady
        cluster("node-heal", lost)
        until("the gang goes on", lambda: record_of(job)["generation"] > before["generation"] and
              len(record_of(job)["members"]) == 3 and job.step() > before["progress"]["step"], timeout=120)
    record = record_of(job)
    assert record["attempt"] == 1 and record["startStep"] >= before["progress"]["step"], (record, before)
    complete(job)


def check_api_cut(job, node):
    """Its pods train on, and are not replaced."""
    uids, attempt = member_uids(job), record_of(job)["attempt"]
    pods = sorted(pod["metadata"]["uid"] for pod in living_pods(job))
    with healed():
        cluster("block", node, "control-plane")
        until("the node is NotReady", lambda: "Ready=True" not in conditions(node), timeout=60)
        steps_on(job)
        assert member_uids(job) == uids, (member_uids(job), uids)
    until("the node is Ready", lambda: "Ready=True" in conditions(node), timeout=120)
    steps_on(job)
    assert member_uids(job) == uids and record_of(job)["attempt"] == attempt, record_of(job)
    assert sorted(pod["metadata"]["uid"] for pod in living_pods(job)) == pods, kubectl("get", "pods", "-n", job.namespace)


def conditions(node):
    return " ".join(f"{one['type']}={one['status']}" for one in get("node", node)["status"]["conditions"])


def long_node_without_api(namespace):
    job = gang(namespace, "gpt-no-api")
    check_api_cut(job, other_than(leaders_node(job)))
    complete(job)


def long_leaders_node_without_api(namespace):
    """Steps go on; who leads then hands over, or speaks through another."""
    job = gang(namespace, "gpt-no-api-led")
    check_api_cut(job, leaders_node(job))
    complete(job)


def long_leader_without_api_and_a_death(namespace):
    """The record must change, and its leader cannot write it."""
    job = gang(namespace, "gpt-no-api-death", replicas=4, is_spread=True)
    node = leaders_node(job)
    # A member that reaches the API server is left.
    victim, _ = pods_on(job, other_than(node))
    before = record_of(job)
    with healed():
        cluster("block", node, "control-plane")
        time.sleep(3)
        os.kill(running.launcher_of(job, victim), signal.SIGKILL)
        until("the gang goes on", lambda: record_of(job)["generation"] > before["generation"] and
              len(record_of(job)["members"]) == 4 and job.step() > before["progress"]["step"], timeout=150)
        record = record_of(job)
        assert record["attempt"] == 1 and record["term"] > before["term"], (record, before)
        assert record["startStep"] >= before["progress"]["step"], (record, before)
    status = complete(job)
    assert status["lastFailure"]["pod"] == victim, status["lastFailure"]


def long_nodes_that_do_not_reach_each_other(namespace):
    """Both reach the API server: one part goes on, not two."""
    job = gang(namespace, "gpt-split", least=1)
    before = record_of(job)
    with healed():
        cluster("block", *NODES)
        until("one part is the gang", lambda: len(record_of(job)["members"]) < 3, timeout=60)
        steps_on(job)
        members = {pod["spec"]["nodeName"] for pod in job.pods() if pod["metadata"]["uid"] in member_uids(job)}
        assert len(members) == 1, members
    until("three are members again", lambda: len(record_of(job)["members"]) == 3, timeout=120)
    assert record_of(job)["attempt"] == before["attempt"], record_of(job)
    complete(job)


def long_two_that_do_not_reach_each_other(namespace):
    """A third one sees both. The gang goes on without one of the two."""
    job = gang(namespace, "gpt-pair", least=2)
    leader = record_of(job)["leader"]["uid"]
    pods = {pod["metadata"]["uid"]: pod for pod in living_pods(job)}
    first = next(uid for uid in pods if uid != leader)
    second = next(uid for uid in pods if uid != leader and
                  pods[uid]["spec"]["nodeName"] != pods[first]["spec"]["nodeName"]) \
        if len({pods[uid]["spec"]["nodeName"] for uid in pods if uid != leader}) == 2 else leader
    before = record_of(job)
    with healed():
        cluster("block", pods[first]["status"]["podIP"], pods[second]["status"]["podIP"])
        until("the gang is smaller", lambda: len(record_of(job)["members"]) == 2, timeout=60)
        steps_on(job)
        assert record_of(job)["startStep"] >= before["progress"]["step"], (record_of(job), before)
    until("three are members again", lambda: len(record_of(job)["members"]) == 3, timeout=150)
    complete(job)


def long_zombie_node(namespace):
    """Its kubelet and containerd are dead, its pods live: nobody is replaced."""
    job = gang(namespace, "gpt-zombie")
    node = other_than(leaders_node(job))
    uids = member_uids(job)
    try:
        for program in ("kubelet", "containerd"):
            cluster("node-stop", node, program)
        until("the node is NotReady", lambda: "Ready=True" not in conditions(node), timeout=60)
        steps_on(job, 200)
        assert member_uids(job) == uids and record_of(job)["attempt"] == 1, record_of(job)
    finally:
        for program in ("containerd", "kubelet"):
            cluster("node-restart", node, program)
    until("the node is Ready", lambda: "Ready=True" in conditions(node), timeout=120)
    complete(job)
    assert member_uids(job) == uids, record_of(job)


def long_power_off(namespace):
    """Every process of a node is gone at once. Its workers are replaced on the other one, in place."""
    job = gang(namespace, "gpt-off")
    node = other_than(leaders_node(job))
    lost = pods_on(job, node)
    before = record_of(job)
    begin = time.monotonic()
    try:
        cluster("node-kill", node)
        until("the gang goes on with other pods", lambda: record_of(job)["generation"] > before["generation"] and
              len(record_of(job)["members"]) == 3 and job.step() > before["progress"]["step"], timeout=240)
        print(f"       {time.monotonic() - begin:.1f} s from the end of the node to the next step of all three")
        record = record_of(job)
        assert record["attempt"] == 1 and record["startStep"] >= before["progress"]["step"], (record, before)
        assert not [pod for pod in lost if pod in pods_on(job, node)], kubectl("get", "pods", "-n", namespace, "-o", "wide")
    finally:
        cluster("node-start", node)
    status = complete(job)
    assert status["lastFailure"]["pod"] in lost, status["lastFailure"]
    assert "MemberReplaced" in reasons(namespace), reasons(namespace)


def long_two_pods_with_ten_seconds(namespace):
    """Two of three are deleted with 10 s of grace, the leading one among them: both leave in time, and the third feeds their successors."""
    job = gang(namespace, "gpt-grace")
    before = record_of(job)
    leader = before["leader"]["uid"]
    pods = sorted(living_pods(job), key=lambda pod: pod["metadata"]["uid"] != leader)
    told = [pod["metadata"]["name"] for pod in pods[:2]]
    kubectl("delete", "pod", *told, "-n", namespace, "--grace-period=10", "--wait=false")
    until("three are members again", lambda: len(record_of(job)["members"]) == 3 and
          not {pod["metadata"]["uid"] for pod in pods[:2]} & set(member_uids(job)), timeout=120)
    record = record_of(job)
    assert record["attempt"] == 1 and record["startStep"] >= before["progress"]["step"], (record, before)
    status = complete(job)
    assert status["lastFailure"]["pod"] in told, status["lastFailure"]
    assert status["restarts"].get("free", 0) == 0, status["restarts"]


def long_late_pod(namespace):
    """Deleted by force while its node is cut off: the old worker runs on there, and comes back beside its successor."""
    job = gang(namespace, "gpt-late")
    node = other_than(leaders_node(job))
    late = pods_on(job, node)
    late_uids = [pod["metadata"]["uid"] for pod in job.pods() if pod["metadata"]["name"] in late]
    with healed():
        pids = [running.launcher_of(job, pod) for pod in late]
        cluster("node-cut", node)
        kubectl("cordon", node)
        try:
            kubectl("delete", "pod", *late, "-n", namespace, "--force", "--grace-period=0", "--wait=false")
            until("the gang is whole without them", lambda: len(record_of(job)["members"]) == 3 and
                  not set(member_uids(job)) & set(late_uids), timeout=150)
            steps_on(job)
            record = record_of(job)
            assert all(os.path.exists(f"/proc/{pid}") for pid in pids), "the old workers run no more: nothing is tested"
            cluster("node-heal", node)
            time.sleep(15)
        finally:
            kubectl("uncordon", node)
    after = record_of(job)
    for key in ("attempt", "term", "generation", "members", "lineage"):
        assert after.get(key) == record.get(key), (key, after, record)
    complete(job)
    assert not set(member_uids(job)) & set(late_uids), record_of(job)


def long_api_server_away(namespace):
    """For a minute in mid-training: steps go on, and the job ends as if nothing had been."""
    job = gang(namespace, "gpt-outage")
    before, uids = record_of(job), member_uids(job)
    cluster("apiserver-kill")
    try:
        time.sleep(60)
    finally:
        cluster("apiserver-start")
    step = until("the API server answers", job.step, timeout=60)
    steps_on(job, 1)
    print(f"       step {before['progress']['step']} before, {step} a minute later, {job.step()} now")
    status = complete(job)
    assert member_uids(job) == uids and record_of(job)["generation"] == before["generation"], record_of(job)
    assert status["restarts"].get("free", 0) == 0, status
