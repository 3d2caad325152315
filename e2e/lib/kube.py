"""kubectl against the test cluster, and waiting for what should become true."""

import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "e2e" / "cluster" / "cluster.py"


class CommandFailed(AssertionError):
    def __init__(self, command, result):
        super().__init__(f"{' '.join(command)} → {result.returncode}: {result.stderr.strip() or result.stdout.strip()}")
        self.stderr = result.stderr


def run(*command, stdin=None, check=True, timeout=300):
    command = [str(part) for part in command]
    result = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=timeout)
    if check and result.returncode != 0:
        raise CommandFailed(command, result)
    return result


def cluster(*arguments, **options):
    return run(sys.executable, CLUSTER, *arguments, **options)


def kubectl(*arguments, **options):
    return cluster("kubectl", *arguments, **options).stdout


def refused(*arguments, stdin=None):
    """The message with which the API server refuses a kubectl command that must not succeed."""
    result = cluster("kubectl", *arguments, stdin=stdin, check=False)
    assert result.returncode != 0, f"kubectl {' '.join(arguments)} was accepted: {result.stdout}"
    return result.stderr


def get(kind, name=None, namespace=None, selector=None):
    arguments = ["get", kind, "-o", "json"]
    arguments += [name] if name else []
    arguments += ["-n", namespace] if namespace else []
    arguments += ["-l", selector] if selector else []
    return json.loads(kubectl(*arguments))


def until(claim, read, timeout=60, every=0.3):
    """Reads until the claim (a sentence) holds: read() returns something true. Returns that."""
    deadline = time.monotonic() + timeout
    last = None
    while time.monotonic() < deadline:
        try:
            last = read()
            if last:
                return last
        except (CommandFailed, KeyError, IndexError) as error:
            last = error
        time.sleep(every)
    raise AssertionError(f"not within {timeout} s: {claim} (last: {last})")


class Job:
    """One TrainingJob in its namespace."""

    def __init__(self, name, namespace):
        self.name, self.namespace = name, namespace

    def read(self):
        return get("trainingjob", self.name, self.namespace)

    def status(self):
        return self.read().get("status", {})

    def phase(self):
        return self.status().get("phase", "")

    def step(self):
        return self.status().get("progress", {}).get("step", 0)

    def checkpoint_step(self):
        return self.status().get("checkpoint", {}).get("step", 0)

    def pods(self):
        uid = self.read()["metadata"]["uid"]
        return get("pods", namespace=self.namespace, selector=f"pawl.dev/job-uid={uid}")["items"]

    def wait_for(self, condition, timeout=240):
        try:
            kubectl("wait", f"--for=condition={condition}", f"tj/{self.name}", "-n", self.namespace,
                    f"--timeout={timeout}s", timeout=timeout + 30)
        except CommandFailed as error:
            raise AssertionError(f"{error}; status: {json.dumps(self.status())}\n{self.story()}") from error

    def story(self):
        parts = [kubectl("describe", "tj", self.name, "-n", self.namespace)[-3000:],
                 kubectl("get", "pods", "-n", self.namespace, "-o", "wide")]
        for pod in get("pods", namespace=self.namespace)["items"]:
            name = pod["metadata"]["name"]
            log = cluster("kubectl", "logs", name, "-n", self.namespace, "--tail=30", check=False)
            parts.append(f"--- {name}\n{log.stdout}{log.stderr}")
        return "\n".join(parts)

    def patch(self, text):
        kubectl("patch", "tj", self.name, "-n", self.namespace, "--type=merge", "-p", text)
