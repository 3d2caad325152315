"""One job under `pawl run`, as the tests of real programs look at it: what it said, and its processes."""

import contextlib
import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAWL = pathlib.Path(os.environ.get("PAWL_BIN", ROOT / "build" / "release" / "bin")) / "pawl"


class LocalRun:
    """Its folder holds job.json, the run folder `run`, and what `pawl run` prints, `out`."""

    seconds = 240  # for whatever is waited for

    def __init__(self, folder, name, spec):
        self.folder = pathlib.Path(folder)
        job = self.folder / "job.json"
        job.write_text(json.dumps({"apiVersion": "pawl.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
                                   "spec": spec}))
        self.output = open(self.folder / "out", "w+")
        self.process = subprocess.Popen([PAWL, "run", job, "--run-dir", self.folder / "run"], stdout=self.output,
                                        stderr=subprocess.STDOUT)

    @staticmethod
    def template(command, variables):
        container = {"name": "worker", "image": "none", "command": [str(word) for word in command],
                     "env": [{"name": key, "value": str(value)} for key, value in variables.items()]}
        return {"spec": {"containers": [container]}}

    def said(self):
        return "\n".join(log.read_text(errors="replace") for log in sorted(self.folder.glob("run/logs/*.log")))

    def wait_for(self, what, condition):
        deadline = time.time() + self.seconds
        while not condition():
            if self.process.poll() is not None or time.time() > deadline:
                raise AssertionError(f"no {what}")
            time.sleep(0.01)

    def standing_by(self):
        return self.said().count('"standby_ready"') - self.said().count('"standby_taken"')

    def process_of(self, slot, is_wanted):
        """The PID of the process in this place for which is_wanted(name in ps, command line) is true."""
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environment = (path / "environ").read_bytes()
                name = (path / "comm").read_text().strip()
                is_program = name not in ("pawl-standby", "pawl-launch") and str(self.folder).encode() in environment
                if is_program and f"PAWL_SLOT={slot}".encode() in environment.split(b"\0") and \
                        is_wanted(name, (path / "cmdline").read_bytes().decode(errors="replace").split("\0")):
                    return int(path.name)
        raise AssertionError("no program")

    def end(self):
        code = self.process.wait(self.seconds)
        if code != 0:
            raise AssertionError(f"pawl run ended with {code}")

    def close(self):
        self.process.kill()  # nothing that it started outlives it
        self.process.wait()
        self.output.close()


@contextlib.contextmanager
def shown(run):
    """A failure within shows what was said in it."""
    with contextlib.closing(run):
        try:
            yield run
        except AssertionError as error:
            raise AssertionError(f"{error}\n{run.said()[-9000:]}\n{(run.folder / 'out').read_text()[-2000:]}") from None
