"""Ten wrong manifests; each gets one clear error that says what to change."""

from lib import jobs
from lib.kube import Job, kubectl, refused, until


def changed(**spec):
    job = jobs.tiny_gpt("wrong")
    job["spec"].update(spec)
    return job


def wrong_manifests():
    """(manifest, words that the one error must hold)"""
    unknown = jobs.tiny_gpt("wrong")
    unknown["spec"]["replica"] = 3
    no_command = jobs.foreign("wrong", "localhost/x", ["/x"])
    del no_command["spec"]["template"]["spec"]["containers"][0]["command"]
    reserved = jobs.foreign("wrong", "localhost/x", ["/x"])
    reserved["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "PAWL_SLOT", "value": "1"}]
    long_name = jobs.tiny_gpt("x" * 47)
    return [
        (unknown, ["replica"]),
        (changed(replicas=0), ["spec.replicas", "1"]),
        (changed(replicas="two"), ["spec.replicas", "integer"]),
        (changed(failurePolicy={"maxRestarts": -1}), ["spec.failurePolicy.maxRestarts", "0"]),
        (changed(runtime={"kind": "Horovod"}), ["spec.runtime.kind", "Torch"]),
        (changed(checkpoint={"uri": "/data"}), ["spec.checkpoint.uri", "file://"]),
        (changed(checkpoint={"uri": "file:///data", "keep": 0}), ["spec.checkpoint.keep", "1"]),
        (no_command, ["command"]),
        (reserved, ["PAWL_"]),
        (long_name, ["46"]),
    ]


def test_ten_wrong_manifests(namespace):
    for manifest, words in wrong_manifests():
        message = refused("apply", "-n", namespace, "-f", "-", stdin=jobs.text(manifest))
        for word in words:
            assert word in message, f"{word!r} is not in the error: {message}"
    assert not kubectl("get", "tj", "-n", namespace, "-o", "name"), "a wrong manifest was stored"


def test_running_template_is_frozen(namespace):
    kubectl("apply", "-n", namespace, "-f", "-",
            stdin=jobs.text(jobs.foreign("frozen", "localhost/absent:1", ["/x"])))
    job = Job("frozen", namespace)
    until("the job exists", lambda: job.status().get("phase"), timeout=30)
    message = refused("patch", "tj", "frozen", "-n", namespace, "--type=merge", "-p",
                      '{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":99}}}}')
    assert "suspend" in message, message
    applied_again_changes_nothing(job, namespace)


def applied_again_changes_nothing(job, namespace):
    """What admission and defaults fill in is no difference to whoever applies the same file again."""
    before = job.read()["metadata"]["generation"]
    manifest = jobs.text(jobs.foreign("frozen", "localhost/absent:1", ["/x"]))
    for arguments in ([], ["--server-side", "--force-conflicts"], ["--server-side"]):
        kubectl("apply", *arguments, "-n", namespace, "-f", "-", stdin=manifest)
        assert job.read()["metadata"]["generation"] == before, f"apply {arguments} made another generation"


def test_unpullable_image_is_named_in_message(namespace):
    kubectl("apply", "-n", namespace, "-f", "-",
            stdin=jobs.text(jobs.foreign("no-image", "localhost/absent:1", ["/x"])))
    job = Job("no-image", namespace)
    until("the message names the image problem",
          lambda: "ImagePull" in job.status().get("message", "") or "ErrImage" in job.status().get("message", ""),
          timeout=60)
