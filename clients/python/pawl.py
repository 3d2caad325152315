"""What a training script can tell its launcher, and hear from it: steps and loss, where it is, when to save and stop.

For scripts under a Pawl TrainingJob with runtime.kind Torch, JAX, TensorFlow or Custom. Without Pawl every call is a
harmless no-op, so that the same script runs anywhere; so is every call in the children of the process that the launcher
started. Needs nothing but Python 3.8: install it, or copy this file. docs/programs.md says what comes of each call.
"""

import atexit
import collections
import contextlib
import json
import math
import mmap
import operator
import os
import select
import signal
import socket
import stat
import sys
import threading
import time
from typing import NamedTuple, Optional

__version__ = "0.1.0"
__all__ = ["EXIT_RETRY", "Gang", "Job", "PHASES", "Parking", "Place", "checkpoint_now", "exit_saved", "heartbeat",
           "is_active", "job", "phase", "report", "should_stop", "worker_init_fn"]

EXIT_RETRY = 75  # saved and stopped, or not my fault: run me again, free of charge
# By their numbers in common/api/pulse.h.
PHASES = ("other", "data", "forward", "backward", "reduce", "optimizer", "snapshot", "validate")
_REDUCE = PHASES.index("reduce")

_NOTE_MAX = 1000
_PACKET_BYTES_MAX = 128 * 1024
_SEND_WAIT_MS = 100
_BEAT_SECONDS = 0.5
# A collective that fails is nobody's bug if the launcher soon says that a peer is lost.
_TOLD_WAIT_SECONDS = 3
# Who does not come to rest by itself is blocked in a collective with somebody who is gone.
_BLOCKED_SECONDS = 1
_LOOK_MS = 20
_STEPS_REMEMBERED = 8
_LOST_WORDS = ("connection", "connect", "broken pipe", "reset by peer", "timed out", "timeout", "nccl", "gloo", "socket",
               "unavailable", "heartbeat")


class Job(NamedTuple):
    """Whose life this is, from the environment. Of a program that runs alone: rank 0 of 1, and no job."""

    name: str
    uid: str
    attempt: int  # grows with every set of new pods and every resume; 0: not under Pawl
    generation: int  # grows with every start of the gang's programs
    slot: int  # the worker's place, from 0
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    checkpoint_folder: Optional[str]  # spec.checkpoint.uri as a path; other jobs may share it
    checkpoint_seconds: int  # between two of them; 0: auto
    checkpoint_keep: int


def job() -> Job:
    """The facts of this start; they never change while the process lives."""
    uri = os.environ.get("PAWL_CHECKPOINT_URI", "")
    return Job(
        name=os.environ.get("PAWL_JOB_NAME", ""), uid=os.environ.get("PAWL_JOB_UID", ""),
        attempt=_number("PAWL_ATTEMPT", 0), generation=_number("PAWL_GENERATION", 0), slot=_number("PAWL_SLOT", 0),
        rank=_number("RANK", 0), world_size=_number("WORLD_SIZE", 1),
        local_rank=_number("LOCAL_RANK", 0), local_world_size=_number("LOCAL_WORLD_SIZE", 1),
        checkpoint_folder=uri[len("file://"):] if uri.startswith("file:///") else None,
        checkpoint_seconds=_number("PAWL_CHECKPOINT_SECONDS", 0), checkpoint_keep=_number("PAWL_CHECKPOINT_KEEP", 3))


def is_active() -> bool:
    """A launcher listens to this process."""
    return _attach().channel is not None


def report(step, total_steps=None, loss=None, samples_per_second=None, tokens_per_second=None, epoch=None, note=""):
    """The newest step that is done, counted from 1; the rates are of the whole gang.

    Rank 0's reports stand in `kubectl get tj`, give the time that is left, and restart the clock of
    deadlines.progressSeconds; other ranks' go nowhere. What is left out is not known, but for the loss, of which the
    last one told counts: a number that lies on a GPU need not be fetched in each step.
    """
    if len(note) > _NOTE_MAX or "\n" in note:
        raise ValueError(f"pawl.report: note is one line of at most {_NOTE_MAX} characters")
    message = {"type": "report", "step": _count("step", step)}
    if total_steps is not None:
        message["totalSteps"] = _count("total_steps", total_steps)
    if epoch is not None:
        message["epoch"] = _count("epoch", epoch)
    if samples_per_second is not None:
        message["samplesPerSecond"] = _rate("samples_per_second", samples_per_second)
    if tokens_per_second is not None:
        message["tokensPerSecond"] = _rate("tokens_per_second", tokens_per_second)
    if note:
        message["note"] = note
    client = _attach()
    if client.channel is None or client.place_rank() != 0:
        return
    if loss is not None:
        client.loss = float(loss)
    if client.loss is None:
        message["hasLoss"] = False
    else:
        message["loss"] = client.loss if math.isfinite(client.loss) else None  # JSON has no NaN
    if client.gang is None:
        client.channel.send(message)
    else:
        client.gang.tell_when_confirmed(message)


def should_stop() -> bool:
    """Somebody wants this process to end: save, and leave by exit_saved(). To be asked between two steps.

    The job is suspended, the worker drained, or the gang changes its size: SIGTERM has come, and SIGKILL follows 20 s
    later (5 s where a peer was lost). From the first call on SIGTERM only sets what this returns, and calls the handler
    that was there; so call it first in the main thread. Ranks learn of it in different steps: agree before you act.
    """
    client = _attach()
    if client.channel is None:
        return False
    client.catch_sigterm()
    client.channel.hear()
    return client.has_sigterm or client.channel.is_stop_told


def checkpoint_now() -> bool:
    """A checkpoint is wanted, after which training goes on (spec.checkpointNow of the WorkerGroup). True once a wish.

    A wish that comes before a call of this module is not heard. Ranks learn of it in different steps.
    """
    channel = _attach().channel
    if channel is None:
        return False
    channel.hear()
    is_asked, channel.is_checkpoint_asked = channel.is_checkpoint_asked, False
    return is_asked


def exit_saved():
    """Ends the process with code 75: what it has is saved, run it again. Costs the job no restart."""
    if _client is not None and _client.pulse is not None:
        _client.pulse.rest()
    sys.exit(EXIT_RETRY)


def phase(name, step=None):
    """Says that the training thread enters this phase (of this step), so that a hang is found, with the phase named.

    A process that stays in a phase, without heartbeat(), for five times what is usual there (at least 5 s, in `data`
    two minutes, ten minutes before anything is known) is killed, and the gang's programs are started again. `other` may
    take any time: start-up, saving, output. `reduce` is every place where this rank may have to wait for another one,
    or it would be taken for the culprit: DDP's backward, a collective, the first look at a number that a GPU makes. A
    thread says there that the process moves, so a hang in it is left to the framework's own time-out.
    """
    if name not in PHASES:
        raise ValueError(f"pawl.phase: there is no phase {name!r}; there are {', '.join(PHASES)}")
    at = None if step is None else _count("step", step)
    pulse = _attach().pulse
    if pulse is not None:
        pulse.enter(PHASES.index(name), at)


def heartbeat():
    """This process moves, in the phase where it is: for phases that take long, such as each batch of a validation."""
    pulse = _attach().pulse
    if pulse is not None:
        pulse.beat()


def worker_init_fn(_worker_id=0):
    """For torch.utils.data.DataLoader(worker_init_fn=…): SIGTERM, which goes to the whole process group, passes by.

    A loader's worker that it ends makes the next batch raise in the training process, before that could save.
    """
    if "PAWL_CHANNEL_FD" in os.environ:
        os.setpgid(0, 0)


# ---- programs that stay when the gang changes: spec.runtime.inPlace


class Place(NamedTuple):
    """Where this process stands in one generation of the gang."""

    rank: int
    world_size: int
    local_rank: int
    generation: int
    master_addr: str  # of rank 0, for whatever the framework meets by
    master_port: int  # free there, and the same in every generation of one rank 0
    start_step: int  # of the state that all go on from; 0: what was saved, or the beginning
    source: int  # the rank that holds this state in memory; -1: nobody does, load or begin
    has_state: bool  # this process holds it, too


class Parking(Exception):
    """The gang changes: come to rest. Raised by Gang.applied() between two steps, and taken by Gang.run()."""


class Gang:
    """This process as a member of a gang that changes while it lives (spec.runtime.inPlace: true).

    `Gang().run(train)` calls train(gang, place) once for each generation, until it returns. train makes the framework's
    process group of the place's world, gives the state of place.source to all ranks (or loads what was saved), waits for
    all of them, and calls begin(step); then applied(step) behind each update. When a peer is lost, or the gang gets
    another size, it ends with an exception; run() tells the launcher what this process holds, and calls it again with its
    next place. Whatever train makes must be gone when it ends: leave the process group in a `finally`.

    Collectives that run on a GPU (NCCL) do not fail by themselves where a peer is gone: abort_with(abort) says how they
    are ended, and check() stands between each collective and the use of what it left.

    Without Pawl, or without inPlace, the place comes from torchrun's variables, and an exception is just that.
    """

    def __init__(self, config=""):
        """config: what must be equal on all ranks, as text; other ranks than rank 0's alike end the attempt."""
        self._client = _attach()
        self._held = (0, 0)  # the newest generation whose start state this process held, and the last step applied
        self._unconfirmed = None
        self._abort, self._is_aborted, self._is_checked = None, False, False
        self._applied_at, self._step_seconds = None, collections.deque(maxlen=_STEPS_REMEMBERED)
        self._is_in_place = self._client.channel is not None and os.environ.get("PAWL_IN_PLACE") == "1"
        if not self._is_in_place:
            self._place = _place_from_environment()
            return
        if self._client.gang is not None:
            raise RuntimeError("pawl.Gang: there is one in a process")
        self._client.gang = self
        self._changed = threading.Condition()
        self._place, self._welcome, self._is_parking, self._is_resting = None, None, False, True
        self._is_gone = False  # the launcher is, or it said stop while this process was at rest
        self._sockets_before = frozenset()
        self._door = _reserve_port()
        self._client.channel.has_listener = True
        threading.Thread(target=self._listen, name="pawl-gang", daemon=True).start()
        self._client.channel.send({"type": "hello", "version": 1, "dataPort": self._door.getsockname()[1],
                                   "configHash": config})
        self._place = self._wait_for_place()

    @property
    def place(self) -> Place:
        return self._place

    def abort_with(self, abort):
        """abort() ends the collectives of this generation's process group under those that wait for them.

        It is called on a thread of its own where the gang changes and this process does not come to rest within the time
        of two steps, a second at most; and every second again, as a group may come into being only then. What a
        collective leaves that was ended so is garbage: see check(). Raises Parking where the gang changes already.
        """
        self._abort = abort
        if self._is_in_place and self._is_parking:
            raise Parking("the gang changes")

    def check(self):
        """Raises Parking where the collectives of this generation were aborted.

        To be called where their results are there (behind `loss.item()` or `torch.cuda.synchronize()`), before anything
        is made of them: before the optimizer's step, and before a state that was received is loaded.
        """
        if self._is_aborted:
            raise Parking("the collectives were aborted")
        self._is_checked = True

    def begin(self, step):
        """All ranks hold the state of this step, and train from here on."""
        self._held = (self._place.generation, _count("step", step))
        self._applied_at = time.monotonic()

    def applied(self, step):
        """This process has applied the update of this step. Raises Parking where the gang changes.

        To be called by every rank right behind each update: what is told as held must be what is held.
        """
        if (self._abort is not None or self._is_aborted) and not self._is_checked:
            raise RuntimeError("pawl.Gang: call check() behind the collectives of each step, before the update: "
                               "an aborted collective leaves garbage")
        self._held, self._is_checked = (self._held[0], _count("step", step)), False
        if not self._is_in_place:
            return
        now = time.monotonic()
        if self._applied_at is not None:
            self._step_seconds.append(now - self._applied_at)
        self._applied_at = now
        if self._unconfirmed is not None and self._unconfirmed["step"] < step:
            self._confirm()
        if self._is_parking:
            raise Parking("the gang changes")

    def done(self):
        """All ranks have made the last step, and have waited for each other behind it."""
        if self._is_in_place:
            self._confirm()
            self._client.channel.send({"type": "done", "step": self._held[1]})

    def run(self, train):
        """What train returns."""
        while True:
            try:
                result = train(self, self._place)
                self.done()
                return result
            except Parking as parking:
                if not self._is_in_place:
                    raise
                why = "" if self._is_parking else str(parking)
            except Exception as error:  # of whatever type a framework's lost peer is
                if not self._is_in_place or not self._is_lost_peer(error):
                    raise
                why = "" if self._is_parking else f"{type(error).__name__}: {error}"
                print(f"pawl: at rest after step {self._held[1]}: {type(error).__name__}: {str(error)[:300]}",
                      file=sys.stderr, flush=True)
            self._place = self._park(why)

    # ---- the launcher's

    def tell_when_confirmed(self, message):
        # Whoever comes to the next step has made the one before with all others.
        if self._unconfirmed is not None and self._unconfirmed["step"] < message["step"]:
            self._confirm()
        self._unconfirmed = message

    def _confirm(self):
        if self._unconfirmed is not None:
            self._client.channel.send(self._unconfirmed)
        self._unconfirmed = None

    def _is_lost_peer(self, error):
        if type(error).__name__ == "AcceleratorError" or str(error).startswith("CUDA error"):
            return False  # what this process holds can be read no more
        with self._changed:
            if self._changed.wait_for(lambda: self._is_parking or self._is_gone, _TOLD_WAIT_SECONDS):
                return True
        words = f"{type(error).__name__}: {error}".lower()
        return isinstance(error, OSError) or any(word in words for word in _LOST_WORDS)

    def _park(self, why):
        """Promises to contribute nothing more to this generation."""
        if self._client.pulse is not None:
            self._client.pulse.rest()
        self._unconfirmed = None
        with self._changed:
            self._is_resting, self._abort, self._applied_at = True, None, None
        self._client.channel.send({"type": "parked", "generation": self._held[0], "step": self._held[1],
                                   "why": why.replace("\n", " ")[:_NOTE_MAX]})
        return self._wait_for_place()

    def _wait_for_place(self):
        with self._changed:
            self._changed.wait_for(lambda: self._welcome is not None or self._is_gone)
            if self._welcome is None:
                sys.exit(EXIT_RETRY)
            welcome, self._welcome = self._welcome, None
            self._sockets_before = frozenset(inode for _, inode in _connections(with_listeners=True))
            self._is_resting = self._is_aborted = self._is_checked = False
        rank, world_size = welcome.get("rank", 0), welcome.get("worldSize", 1)
        address = next((peer["address"] for peer in welcome.get("peers", []) if peer.get("rank") == 0), "")
        host, _, port = address.rpartition(":")
        if rank == 0:
            host, port = "", self._door.getsockname()[1]
        base, start = welcome.get("baseGeneration", 0), welcome.get("startStep", 0)
        return Place(rank=rank, world_size=world_size, local_rank=welcome.get("localRank", 0),
                     generation=welcome.get("generation", 0), master_addr=host.strip("[]") or "127.0.0.1",
                     master_port=int(port), start_step=start, source=welcome.get("sourceRank", -1) if base else -1,
                     has_state=base > 0 and self._held == (base, start))

    def _listen(self):
        """On a thread of its own: the training thread may be blocked in a collective."""
        channel, ready, abort_at, shut_at = self._client.channel, select.poll(), None, None
        ready.register(channel.connection, select.POLLIN)
        while channel.is_open:
            events = ready.poll(_LOOK_MS if self._is_parking else None)
            with self._changed:
                for message in channel.hear_all() if events else []:
                    self._take(message)
                if not self._is_parking or self._is_resting:
                    abort_at = shut_at = None
                elif shut_at is None:
                    shut_at = time.monotonic() + _BLOCKED_SECONDS
                    abort_at = time.monotonic() + self._blocked_seconds()
                elif self._abort is not None and time.monotonic() >= abort_at:
                    self._end_collectives()
                    abort_at = time.monotonic() + _BLOCKED_SECONDS
                elif time.monotonic() >= shut_at:
                    # NCCL makes a group by connections that ranks wait for, and no abort reaches it before it has one.
                    sockets = _connections(with_listeners=self._abort is not None)
                    _shut_down(inode for _, inode in sockets if inode not in self._sockets_before)
                    shut_at = time.monotonic() + _BLOCKED_SECONDS  # a new one may come into being
                self._is_gone = self._is_gone or not channel.is_open
                self._changed.notify_all()

    def _blocked_seconds(self):
        """Who takes longer than this for a step waits for somebody who is gone."""
        return min([_BLOCKED_SECONDS, 2 * max(self._step_seconds, default=_BLOCKED_SECONDS)])

    def _end_collectives(self):
        self._is_aborted = True  # who waits for them sees this when they end
        threading.Thread(target=self._abort, name="pawl-abort", daemon=True).start()

    def _take(self, message):
        kind = message.get("type")
        if kind == "welcome":
            self._welcome, self._is_parking = message, False
        elif kind == "park":
            self._is_parking = True
        elif kind == "stop" and self._is_resting:
            self._is_gone = self._welcome is None  # a gang at rest may be put to work only to save


def _place_from_environment():
    return Place(rank=_number("RANK", 0), world_size=_number("WORLD_SIZE", 1), local_rank=_number("LOCAL_RANK", 0),
                 generation=_number("PAWL_GENERATION", 1), master_addr=os.environ.get("MASTER_ADDR", "127.0.0.1"),
                 master_port=_number("MASTER_PORT", 29500), start_step=0, source=-1, has_state=False)


def _reserve_port():
    """Bound and not listening: nobody is given this port, and whoever reuses addresses may listen on it."""
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("", 0))
    return door


def _connections(with_listeners=False):
    """(descriptor, inode) of this process's connections over TCP, whoever made them; and of what waits for some."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with _socket_of(int(name), with_listeners) as connection:
            if connection is not None:
                found.append((int(name), os.fstat(connection.fileno()).st_ino))
    return found


def _shut_down(inodes):
    """Ends these connections under whoever waits for them: a call that waits for a peer fails at once."""
    wanted = set(inodes)
    for fd, inode in _connections(with_listeners=True):
        with _socket_of(fd, with_listeners=True) as connection:
            if connection is not None and inode in wanted:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # closed meanwhile


@contextlib.contextmanager
def _socket_of(fd, with_listeners):
    """A duplicate of it, if it is a connection over TCP, or waits for some; None otherwise."""
    connection = None
    try:
        copy = os.dup(fd)
        try:
            connection = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
    except OSError:
        pass
    try:
        yield connection if connection is not None and _is_tcp(connection, with_listeners) else None
    finally:
        if connection is not None:
            connection.close()


def _is_tcp(connection, with_listeners):
    try:
        connection.getpeername()
    except OSError:
        if not (with_listeners and connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
            return False
    return connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM


# ---- the launcher's side of it: common/api/channel.h, common/api/pulse.h


class _Channel:
    """JSON packets over the inherited socket. It never holds training up: what cannot be sent is dropped."""

    def __init__(self, connection):
        self.connection = connection
        self.is_open, self.is_behind = True, False
        self.has_listener = False  # a thread of a Gang hears for all
        self.is_checkpoint_asked = self.is_stop_told = False

    def send(self, message):
        if not self.is_open or self._has_sent(message):
            return
        if not self.is_behind:  # the launcher has a moment, once
            room = select.poll()
            room.register(self.connection, select.POLLOUT)
            room.poll(_SEND_WAIT_MS)
            self.is_behind = not self._has_sent(message)

    def _has_sent(self, message):
        try:
            self.connection.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)
            self.is_behind = False
        except BlockingIOError:
            return False
        except OSError:
            self.hang_up()
        return True

    def hear(self):
        if not self.has_listener:
            self.hear_all()

    def hear_all(self):
        """The messages that have come."""
        messages = []
        while self.is_open:
            try:
                packet = self.connection.recv(_PACKET_BYTES_MAX)
            except BlockingIOError:
                return messages
            except OSError:
                packet = b""
            if not packet:
                self.hang_up()
                return messages
            messages.append(json.loads(packet))
            kind = messages[-1].get("type")
            self.is_checkpoint_asked = self.is_checkpoint_asked or kind == "checkpoint_now"
            self.is_stop_told = self.is_stop_told or kind == "stop"
        return messages

    def hang_up(self):
        """The launcher is gone, and with it the process's place in the gang."""
        self.is_open = False
        self.is_stop_told = True


class _Pulse:
    """The page of shared memory that the launcher looks at ten times a second.

    CPython stores an item of a memoryview that is cast to a type of 4 or 8 bytes by one copy of that constant size,
    which at an aligned address is one instruction; every field here lies aligned, so no reader sees half a number. The
    phase is stored before the beats rise. Should a processor show them in the other order, the launcher sees a beat in
    the phase before, and the new phase in its next look: no phase is ever judged by the silence of another.
    """

    BYTES = 1312
    PROCESS, BEATS, PHASE, STEP, TIMES = 0, 8, 16, 24, 32
    BUCKETS = 40
    WORK_MAX_US = 60_000_000

    def __init__(self, fd):
        page = memoryview(mmap.mmap(fd, self.BYTES))
        self.words, self.longs = page.cast("I"), page.cast("Q")
        self.lock = threading.RLock()  # a handler of a signal may come in between, and tell something
        self.owner = os.getpid()
        self.phase = 0
        self.since_ns = None  # the last beat; None: the page is not used, and nobody judges by it

    def enter(self, number, step):
        with self.lock:
            self._count_time()
            if step is not None:
                self.longs[self.STEP // 8] = step
            self.words[self.PHASE // 4] = self.phase = number
            self.longs[self.BEATS // 8] += 1

    def beat(self):
        with self.lock:
            self._count_time()
            self.longs[self.BEATS // 8] += 1

    def rest(self):
        """What follows may take any time."""
        if self.since_ns is not None and self.owner == os.getpid():  # not at the end of a fork
            self.enter(0, None)

    def _start(self):
        self.words[self.PROCESS // 4] = os.getpid()
        atexit.register(self.rest)
        threading.Thread(target=self._beat_while_waiting, name="pawl-beat", daemon=True).start()

    def _count_time(self):
        """Of what is usual in a phase: how often a beat came 2^i µs after the one before, or less."""
        now_ns = time.monotonic_ns()
        if self.since_ns is None:
            self._start()
        else:
            first = self.TIMES // 4 + self.phase * self.BUCKETS
            micros = (now_ns - self.since_ns) // 1000
            # Minutes say little of the work, where something is known of it: a debugger, a frozen container.
            if micros <= self.WORK_MAX_US or not any(self.words[first:first + self.BUCKETS]):
                at = first + min(micros.bit_length(), self.BUCKETS - 1)
                self.words[at] = (self.words[at] + 1) & 0xFFFFFFFF
        self.since_ns = now_ns

    def _beat_while_waiting(self):
        """Who waits for other ranks is in a call that does not come back, and moves all the same."""
        while True:
            time.sleep(_BEAT_SECONDS)
            with self.lock:
                if self.phase == _REDUCE:
                    self._count_time()
                    self.longs[self.BEATS // 8] += 1


class _Client:
    """What this process inherited; nothing, where it is not the one that a launcher started."""

    def __init__(self, is_child=False):
        self.rank = _number("RANK", 0)
        self.loss = None
        self.has_sigterm = False
        self.sigterm_before = None
        self.handler = None
        self.channel = None if is_child else _open_channel()
        # A fork of ours has neither: the page, too, is of one process.
        self.pulse = None if self.channel is None else _open_pulse()
        self.gang = None
        # A member of a gang says Hello when it is ready to be one.
        if self.channel is not None and os.environ.get("PAWL_IN_PLACE") != "1":
            self.channel.send({"type": "hello", "version": 1, "rank": self.rank})

    def place_rank(self):
        return self.rank if self.gang is None else self.gang.place.rank

    def catch_sigterm(self):
        if self.handler is not None:
            return
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("pawl.should_stop: call it first in the main thread; no other can catch SIGTERM")
        before = self.sigterm_before = signal.getsignal(signal.SIGTERM)

        def handler(number, frame):
            self.has_sigterm = True
            if callable(before):
                before(number, frame)

        self.handler = handler
        signal.signal(signal.SIGTERM, handler)


def _open_channel():
    fd = _inherited("PAWL_CHANNEL_FD")
    if fd is None or not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return None
    connection = socket.socket(fileno=fd)
    if (connection.family, connection.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
        connection.detach()
        return None
    connection.set_inheritable(False)
    connection.setblocking(False)  # whatever socket.setdefaulttimeout() says
    return _Channel(connection)


def _open_pulse():
    import fcntl  # not on every system that a script runs on

    fd = _inherited("PAWL_PULSE_FD")
    if fd is None or not stat.S_ISREG(os.fstat(fd).st_mode) or os.fstat(fd).st_size < _Pulse.BYTES:
        return None
    # The launcher's page cannot change its size. A file that has the number by chance must not be written to.
    sealed = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    try:
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & sealed != sealed:
            return None
    except OSError:
        return None
    os.set_inheritable(fd, False)
    return _Pulse(fd)


def _inherited(variable):
    """The descriptor of that number, if it is open. Where others started this process the number says nothing."""
    fd = _number(variable, -1)
    try:
        os.fstat(fd)
    except OSError:
        return None
    return fd


def _number(variable, default):
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else default


def _count(name, value):
    try:
        number = operator.index(value)  # also of NumPy and of tensors
    except TypeError:
        raise TypeError(f"pawl: {name} is a whole number, not {value!r}") from None
    if not 0 <= number < 1 << 53:
        raise ValueError(f"pawl: {name} is {number}; it must be between 0 and 2^53")
    return number


def _rate(name, value):
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"pawl.report: {name} is {number}; it must be a number and not below 0")
    return number


_client = None
_client_lock = threading.RLock()


def _attach():
    global _client
    if _client is None:
        with _client_lock:
            if _client is None:
                _client = _Client()
    return _client


def _after_fork():
    """A child neither speaks for its parent, nor ignores the SIGTERM by which that ends it."""
    global _client, _client_lock
    parent, _client, _client_lock = _client, _Client(is_child=True), threading.RLock()
    if parent is not None and parent.handler is not None and signal.getsignal(signal.SIGTERM) is parent.handler:
        before = parent.sigterm_before
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
