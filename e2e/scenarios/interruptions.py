"""Machines that go, and say so before: by a taint or a condition of the node as clouds set them, or by the cloud's metadata
service, which launchers ask. Workers leave in time, nothing is counted, and the job goes on."""

import email.utils
import http.server
import json
import threading
import time

from lib import install, running
from lib.kube import ROOT, get, kubectl, until
from lib.running import pods_on, reasons, record_of

ALONE = True  # nodes are everybody's


class Cloud:
    """One metadata service for all machines, which tells them apart by their addresses; `told` are those that go."""

    def __init__(self, answer):
        self.told, self.asked = set(), set()
        cloud = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                cloud.asked.add(self.client_address[0])
                status, headers, body = answer(self, self.client_address[0] in cloud.told)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_PUT = do_GET

            def log_message(self, *_):
                pass

        address = (install.host_ip(), install.METADATA_PORT)
        self.server = http.server.ThreadingHTTPServer(address, Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def aws(request, is_told):
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html, with IMDSv2."""
    if request.command == "PUT" and request.path == "/latest/api/token":
        has_ttl = request.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        return (200, {}, "token-7") if has_ttl else (400, {}, "")
    if request.headers.get("X-aws-ec2-metadata-token") != "token-7":
        return 401, {}, ""
    if request.path == "/latest/meta-data/spot/instance-action" and is_told:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 120))
        return 200, {}, json.dumps({"action": "terminate", "time": at})
    return 404, {}, "not found"


def google(request, is_told):
    """https://cloud.google.com/compute/docs/instances/create-use-preemptible, detecting preemption."""
    flavor = {"Metadata-Flavor": "Google"}
    if request.headers.get("Metadata-Flavor") != "Google":
        return 403, flavor, "Missing Metadata-Flavor:Google header."
    if request.path == "/computeMetadata/v1/instance/preempted":
        return 200, flavor, "TRUE" if is_told else "FALSE"
    if request.path == "/computeMetadata/v1/instance/maintenance-event":
        return 200, flavor, "NONE"
    return 404, flavor, ""


def azure(request, is_told):
    """https://learn.microsoft.com/en-us/azure/virtual-machines/linux/scheduled-events."""
    if request.headers.get("Metadata") != "true":
        return 400, {}, '{"error":"Bad request. Required metadata header not specified"}'
    machine = "vmss_" + request.client_address[0]
    if request.path.startswith("/metadata/instance/compute/name?"):
        return 200, {}, machine
    if request.path.startswith("/metadata/scheduledevents?api-version="):
        event = {"EventId": "7", "EventType": "Preempt", "ResourceType": "VirtualMachine", "EventStatus": "Scheduled",
                 "Resources": [machine], "NotBefore": email.utils.formatdate(time.time() + 30, usegmt=True)}
        return 200, {}, json.dumps({"DocumentIncarnation": 1, "Events": [event] if is_told else []})
    return 404, {}, ""


def set_condition(node, kind, is_true, message=""):
    condition = {"type": kind, "status": "True" if is_true else "False", "reason": "SpotEvictionIncoming",
                 "message": message, "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p",
            json.dumps({"status": {"conditions": [condition]}}))


def check_notice(namespace, speak):
    with Cloud(speak) as cloud:
        job = running.start("gpt-notice", namespace, steps=2000, replicas=3)
        before = record_of(job)
        leader = before["leader"]["uid"]
        victim = next(pod for pod in job.pods() if pod["metadata"]["uid"] != leader)
        until("each launcher asks", lambda: len(cloud.asked) >= 3, timeout=30)
        told_at = time.monotonic()
        cloud.told.add(victim["status"]["podIP"])
        until("the gang goes on with another pod", lambda: record_of(job)["generation"] > before["generation"], timeout=90)
        print(f"       {speak.__name__}: {time.monotonic() - told_at:.1f} s from the notice to the next generation")
        record = record_of(job)
        assert record["attempt"] == 1 and record["startStep"] >= before["progress"]["step"], (record, before)
        job.wait_for("Complete", timeout=180)
    status = job.status()
    assert status["attempt"] == 1 and status["restarts"].get("counted", 0) == 0, status
    assert status["restarts"].get("free", 0) == 0, status
    failure = status["lastFailure"]
    assert failure["cause"] == "Interrupted" and failure["pod"] == victim["metadata"]["name"], failure
    excluded = status["excludedNodes"]
    assert [item["name"] for item in excluded] == [victim["spec"]["nodeName"]], excluded


def test_metadata_notice(namespace):
    check_notice(namespace, aws)


def long_metadata_notice_google(namespace):
    check_notice(namespace, google)


def long_metadata_notice_azure(namespace):
    check_notice(namespace, azure)


def test_announced_nodes_are_left(namespace):
    job = running.start("gpt-spot", namespace, steps=4000, replicas=3)
    budget = until("the disruption controller has seen the gang",
                   lambda: get("pdb", "gpt-spot-pawl-worker", namespace)["status"].get("currentHealthy") == 3 and
                   get("pdb", "gpt-spot-pawl-worker", namespace)["status"])
    assert budget["expectedPods"] == 3 and budget["disruptionsAllowed"] == 1, budget
    nodes = sorted({pod["spec"]["nodeName"] for pod in job.pods()})
    assert len(nodes) == 2, nodes
    first, second = sorted(nodes, key=lambda node: len(pods_on(job, node)))
    taint = "aws-node-termination-handler/spot-itn"
    before = record_of(job)
    try:
        kubectl("taint", "node", first, f"{taint}=true:NoSchedule")
        until(f"{first} is left, and the gang goes on", lambda: not pods_on(job, first) and
              record_of(job)["generation"] > before["generation"] and job.status()["ready"] == "3/3", timeout=90)
    finally:
        kubectl("taint", "node", first, f"{taint}-", "--overwrite")
    status = job.status()
    assert status["attempt"] == 1 and status["restarts"].get("free", 0) == 0, status
    assert status["lastFailure"]["cause"] == "Interrupted" and taint in status["lastFailure"]["message"], status
    assert "Interrupted" in reasons(namespace) and "MemberReplaced" in reasons(namespace), reasons(namespace)

    # Now all three are on the other one, which says that it goes in half a minute: they save, and begin again elsewhere.
    before = record_of(job)
    deadline = email.utils.formatdate(time.time() + 30, usegmt=True)
    try:
        set_condition(second, "PreemptionScheduled", True, f"Preempt Scheduled: {deadline}. For more information, see x.")
        until("the job begins again on the first", lambda: len(pods_on(job, first)) == 3 and
              job.status()["ready"] == "3/3" and record_of(job)["attempt"] == 2, timeout=120)
    finally:
        set_condition(second, "PreemptionScheduled", False)
    assert record_of(job)["startStep"] >= before["progress"]["step"], (record_of(job), before)
    job.wait_for("Complete", timeout=240)
    status = job.status()
    assert status["progress"]["step"] == 4000 and status["restarts"].get("counted", 0) == 0, status
    assert status["restarts"]["byCause"] == {"Interrupted": 1}, status["restarts"]


def long_drained_node(namespace):
    """kubectl drain of the node that has most of the workers: one at a time, and the gang goes on in between."""
    job = running.start("gpt-drain", namespace, steps=running.ENDLESS, replicas=3)
    node = max(("node-a", "node-b"), key=lambda one: len(pods_on(job, one)))
    evicted = pods_on(job, node)
    before = record_of(job)
    try:
        kubectl("drain", node, f"--pod-selector=pawl.dev/job-uid={job.read()['metadata']['uid']}", "--delete-emptydir-data",
                "--ignore-daemonsets", "--force", "--timeout=150s", timeout=180)
        until("all work elsewhere", lambda: not pods_on(job, node) and job.status()["ready"] == "3/3", timeout=60)
    finally:
        kubectl("uncordon", node)
    record = record_of(job)
    assert len(evicted) >= 2 and record["generation"] >= before["generation"] + len(evicted), (evicted, record)
    status = job.status()
    assert status["attempt"] == 1, status
    assert status["restarts"].get("counted", 0) == 0 and status["restarts"].get("free", 0) == 0, status
    kubectl("delete", "tj", job.name, "-n", namespace)


def long_every_signal_is_heard(namespace):
    """Row by row of the chart's table, on one node and the other in turns."""
    job = running.start("gpt-signals", namespace, steps=running.ENDLESS, replicas=3)
    nodes = ["node-a", "node-b"]
    for number, row in enumerate(json.loads((ROOT / "charts" / "pawl" / "signals.json").read_text())):
        order = nodes[number % 2:] + nodes[:number % 2]
        node = until("a worker has a node", lambda: next((one for one in order if pods_on(job, one)), None), timeout=90)
        name = row.get("taint") or row["condition"]
        step = job.step()
        begin = time.monotonic()
        try:
            if "taint" in row:
                kubectl("taint", "node", node, f"{name}=:NoSchedule")
            else:
                set_condition(node, name, True)
            until(f"{name}: {node} is left, and training goes on",
                  lambda: not pods_on(job, node) and job.status()["ready"] == "3/3" and job.step() > step, timeout=120)
            print(f"       {name}: {time.monotonic() - begin:.1f} s")
        finally:
            if "taint" in row:
                kubectl("taint", "node", node, f"{name}-")
            else:
                set_condition(node, name, False)
    status = job.status()
    assert status["restarts"].get("counted", 0) == 0, status
    kubectl("delete", "tj", job.name, "-n", namespace)
