"""Starts, finds and ends the programs of a cluster.

Every program gets the state directory in its environment (OWNER_VARIABLE). That mark, and
not a name or a command line, says that a process is ours: clean-up after a killed run finds
all of them and nobody else's. Containers have no mark but die with their node's PID 1.
"""

import os
import pathlib
import random
import signal
import socket
import subprocess
import time

from layout import OWNER_VARIABLE


def run(*command, **options) -> str:
    """Runs to the end; its standard output. A failure shows the command's own message."""
    options = {"check": False, "text": True, "capture_output": True, **options}
    result = subprocess.run([str(word) for word in command], **options)
    if result.returncode:
        words = " ".join(str(word) for word in command)
        raise RuntimeError(f"{words}: exit {result.returncode}: {(result.stderr or '').strip()}")
    return result.stdout


def free_port() -> int:
    """Below the range of ports for outgoing connections: none of those may take it while a test
    restarts what listens there."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def poll(condition, what: str, timeout_s: float = 60, interval_s: float = 0.1):
    """Calls `condition` until it gives something true, and returns that."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {timeout_s:.0f} s")
        time.sleep(interval_s)


def clean_environment(state: pathlib.Path) -> dict:
    """A small one: a proxy or a KUBECONFIG of the caller must not reach the cluster."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOME": str(state), OWNER_VARIABLE: str(state)}


class Daemon:
    """One background program of the cluster in `state`: a pid file and a log."""

    def __init__(self, state: pathlib.Path, name: str):
        self.state = state
        self.pid_file = state / "run" / f"{name}.pid"
        self.log = state / "log" / f"{name}.log"

    def start(self, command, netns: str = "", environment=None) -> None:
        for file in (self.pid_file, self.log):
            file.parent.mkdir(parents=True, exist_ok=True)
        if netns:  # not 'ip netns exec': that remounts /sys and hides the cgroups
            command = ["nsenter", f"--net=/run/netns/{netns}", *command]
        with open(self.log, "ab") as log:
            child = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, cwd=self.state,
                env={**clean_environment(self.state), **(environment or {})})
        self.pid_file.write_text(f"{child.pid}\n")

    @property
    def pid(self) -> int:
        """0 when it is not running; a number that now belongs to someone else counts as that."""
        try:
            pid = int(self.pid_file.read_text())
        except (OSError, ValueError):
            return 0
        # In the middle of its exec a process shows no environment.
        for _ in range(100):
            if not is_running(pid) or environment_of(pid):
                break
            time.sleep(0.01)
        return pid if is_owned(pid, self.state) and is_running(pid) else 0

    def is_listening(self, port: int) -> bool:
        """On a TCP port, whatever its network namespace. Go's programs take IPv4 on IPv6 sockets."""
        rows = []
        try:
            for table in ("tcp", "tcp6"):
                rows += pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            return False
        sockets = (row.split() for row in rows)
        return any(int(s[1].split(":")[1], 16) == port and s[3] == "0A" for s in sockets)

    def kill(self, timeout_s: float = 10) -> None:
        """Like a crash: no chance to clean up. Returns when the process is gone."""
        pid = self.pid
        if pid:
            send_kill(pid)
            poll(lambda: not is_running(pid), f"end of process {pid}", timeout_s, 0.02)
        self.pid_file.unlink(missing_ok=True)

    def log_tail(self, lines: int = 15) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"


def send_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_running(pid: int) -> bool:
    """A zombie does not run: its parent only has not asked yet."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def environment_of(pid: int) -> bytes:
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def is_owned(pid: int, state: pathlib.Path) -> bool:
    return f"{OWNER_VARIABLE}={state}".encode() in environment_of(pid).split(b"\0")


def _ancestors() -> set:
    pids, pid = set(), os.getpid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            pid = int(stat.rpartition(")")[2].split()[1])
        except OSError:
            break
    return pids


def _in_netns(pid: int, inodes: set) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino in inodes
    except OSError:
        return False


def kill_all(state: pathlib.Path, netns_names) -> None:
    """Ends every process of the cluster in `state` and all in its network namespaces."""
    inodes = set()
    for name in netns_names:
        try:
            inodes.add(os.stat(f"/run/netns/{name}").st_ino)
        except OSError:
            pass
    inodes.discard(os.stat("/proc/self/ns/net").st_ino)
    spared = _ancestors()

    empty_sweeps = 0  # two in a row: one may miss a process in the middle of its exec or fork

    def sweep() -> bool:
        nonlocal empty_sweeps
        pids = [int(p.name) for p in pathlib.Path("/proc").glob("[0-9]*")]
        left = [p for p in pids if p not in spared and is_running(p)
                and (is_owned(p, state) or _in_netns(p, inodes))]
        for pid in left:
            send_kill(pid)
        empty_sweeps = 0 if left else empty_sweeps + 1
        return empty_sweeps == 2

    poll(sweep, f"end of the processes of {state}", 20, 0.05)
