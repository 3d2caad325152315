"""An independent client that records what happens to one kind of object (load/watch.go)."""

import json
import queue
import subprocess
import threading
import time


class Watcher:
    """`created`, `running` and `succeeded` come when that many different objects were seen so."""

    def __init__(self, plane, path, expect=0, selector="", record=None):
        arguments = ["watch", "-path", path, "-expect", expect, "-selector", selector]
        if record:
            arguments += ["-record", record]
        self._record = record
        self._child = subprocess.Popen(plane.load(*arguments), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._lines = queue.Queue()
        self._seen = {}
        threading.Thread(target=self._read, daemon=True).start()
        self.wait("ready", 60)

    def _read(self):
        for line in self._child.stdout:
            self._lines.put(line.split())
        self._lines.put(None)

    def wait(self, milestone, timeout):
        """The UNIX time at which the milestone was reached (0 for "ready")."""
        deadline = time.monotonic() + timeout
        while milestone not in self._seen:
            try:
                words = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"not within {timeout} s: {milestone} (seen: {self._seen})") from None
            if words is None:
                raise RuntimeError(f"the watcher ended: {self._child.stderr.read()}")
            self._seen[words[0]] = float(words[2]) if len(words) > 2 else 0.0
        return self._seen[milestone]

    def stop(self):
        """All recorded events, if there is a record."""
        self._child.terminate()
        if self._child.wait(60):
            raise RuntimeError(f"the watcher failed: {self._child.stderr.read()}")
        if not self._record:
            return []
        with open(self._record, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]
