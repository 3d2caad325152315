"""The module for training scripts, against a real socket and a real page."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from fixture import CLIENT, ROOT, LauncherCase, load


class AloneTest(LauncherCase):
    def test_without_a_launcher_nothing_happens(self):
        pawl = load()
        pawl.report(1, total_steps=2, loss=0.5)
        pawl.phase("forward", 1)
        pawl.heartbeat()
        pawl.worker_init_fn(0)
        self.assertFalse(pawl.should_stop() or pawl.checkpoint_now() or pawl.is_active())
        self.assertIs(signal.getsignal(signal.SIGTERM), self.handler)
        self.assertEqual(pawl.job()[:6], ("", "", 0, 0, 0, 0))
        self.assertEqual(pawl.job().world_size, 1)
        self.assertIsNone(pawl.job().checkpoint_folder)

    def test_bad_use_is_refused_everywhere(self):
        pawl = load()
        for error, words, call in (
                (ValueError, "step is -1", lambda: pawl.report(-1)),
                (ValueError, "total_steps is -2", lambda: pawl.report(1, total_steps=-2)),
                (TypeError, "step is a whole number, not 1.5", lambda: pawl.report(1.5)),
                (ValueError, "step is", lambda: pawl.report(1 << 60)),
                (ValueError, "one line", lambda: pawl.report(1, note="a\nb")),
                (ValueError, "samples_per_second is -1", lambda: pawl.report(1, samples_per_second=-1)),
                (ValueError, "no phase 'forwards'; there are other, data,", lambda: pawl.phase("forwards")),
                (ValueError, "step is -1", lambda: pawl.phase("forward", -1))):
            with self.subTest(words):
                self.assertRaisesRegex(error, words, call)

    def test_job_reads_the_environment(self):
        os.environ.update(PAWL_JOB_NAME="gpt", PAWL_JOB_UID="u-1", PAWL_ATTEMPT="2", PAWL_GENERATION="5", PAWL_SLOT="3",
                          RANK="6", WORLD_SIZE="8", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2",
                          PAWL_CHECKPOINT_URI="file:///data/run", PAWL_CHECKPOINT_SECONDS="60", PAWL_CHECKPOINT_KEEP="4")
        for name in ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            self.addCleanup(os.environ.pop, name, None)
        self.assertEqual(load().job(), ("gpt", "u-1", 2, 5, 3, 6, 8, 0, 2, "/data/run", 60, 4))

    def test_phases_are_those_of_the_launcher(self):
        names = re.search(r"kNames\{([^}]*)\}", (ROOT / "common/api/pulse.cpp").read_text())[1]
        self.assertEqual(list(load().PHASES), re.findall(r'"(\w+)"', names))

    def test_descriptors_of_others_are_left_alone(self):
        with tempfile.TemporaryFile() as file:
            file.write(bytes(4096))
            file.flush()
            stream, pipe = socket.socketpair(), os.pipe()
            for channel in (stream[0].fileno(), pipe[1], file.fileno(), 987654):
                with self.subTest(channel):
                    os.environ.update(PAWL_CHANNEL_FD=str(channel), PAWL_PULSE_FD=str(file.fileno()))
                    pawl = load()
                    pawl.report(1)
                    pawl.phase("forward", 1)
                    self.assertFalse(pawl.is_active() or pawl.should_stop())
            self.assertRaises(BlockingIOError, stream[1].recv, 1, socket.MSG_DONTWAIT)
            file.seek(0)
            self.assertEqual(file.read(), bytes(4096))
            for end in stream:
                end.close()
            for end in pipe:
                os.close(end)


class ChannelTest(LauncherCase):
    def test_report_goes_out_after_a_hello(self):
        pawl = self.launch()
        pawl.report(3, total_steps=10, loss=0.5, samples_per_second=8, tokens_per_second=100, epoch=1, note="best so far")
        self.assertEqual(self.said(), {"type": "hello", "version": 1, "rank": 0})
        self.assertEqual(self.said(), {"type": "report", "step": 3, "totalSteps": 10, "loss": 0.5, "samplesPerSecond": 8,
                                       "tokensPerSecond": 100, "epoch": 1, "note": "best so far"})
        self.assertTrue(pawl.is_active())

    def test_the_last_loss_counts_and_nan_is_one(self):
        pawl = self.launch()
        pawl.report(1)
        pawl.report(2, loss=0.5)
        pawl.report(3)
        pawl.report(4, loss=float("nan"))
        self.said()
        self.assertEqual(self.said(), {"type": "report", "step": 1, "hasLoss": False})
        self.assertEqual([self.said().get("loss") for _ in range(3)], [0.5, 0.5, None])

    def test_only_rank_0_reports(self):
        pawl = self.launch()
        os.environ["RANK"] = "1"
        pawl.report(1, loss=object())  # which may be costly to look at
        self.assertEqual(self.said()["type"], "hello")
        self.assert_silent()

    def test_a_launcher_that_does_not_read_holds_nobody_up(self):
        self.addCleanup(socket.setdefaulttimeout, socket.getdefaulttimeout())
        pawl = self.launch()
        socket.setdefaulttimeout(30)  # some scripts do
        self.assertTrue(pawl.is_active())
        self.said()
        for step in range(5_000):
            pawl.report(step)
        steps = []
        while True:
            try:
                steps.append(self.said()["step"])
                self.launcher.settimeout(0)
            except BlockingIOError:
                break
        self.assertLess(len(steps), 5_000)
        pawl.report(20_000)
        self.assertEqual(self.said()["step"], 20_000)

    def test_a_launcher_that_is_gone_is_a_reason_to_stop(self):
        pawl = self.launch()
        self.assertFalse(pawl.should_stop())
        self.launcher.close()
        pawl.report(1)
        self.assertTrue(pawl.should_stop())
        self.assertFalse(pawl.checkpoint_now())

    def test_checkpoint_now_is_true_once_a_wish(self):
        pawl = self.launch()
        self.assertFalse(pawl.checkpoint_now())
        self.tell("welcome", rank=0, worldSize=1)
        self.tell("checkpoint_now")
        self.tell("something_newer")
        self.assertFalse(pawl.should_stop())
        self.assertTrue(pawl.checkpoint_now())
        self.assertFalse(pawl.checkpoint_now())

    def test_stop_is_heard(self):
        pawl = self.launch()
        self.tell("stop", isSaving=True)
        self.assertTrue(pawl.should_stop())
        self.assertTrue(pawl.should_stop())

    def test_exit_saved_leaves_with_75(self):
        pawl = self.launch()
        with self.assertRaises(SystemExit) as left:
            pawl.exit_saved()
        self.assertEqual(left.exception.code, 75)


class GangTest(LauncherCase):
    """spec.runtime.inPlace: the process learns its place again and again."""

    def welcome(self, **fields):
        place = {"rank": 1, "worldSize": 3, "generation": 1, "peers": [{"rank": 0, "address": "[fd00::1]:4100"}]}
        self.tell("welcome", **{**place, **fields})

    def gang(self, **fields):
        pawl = self.launch(PAWL_IN_PLACE="1")
        self.welcome(**fields)
        return pawl, pawl.Gang("the same")

    def test_without_a_launcher_the_place_is_that_of_torchrun(self):
        os.environ.update(RANK="1", WORLD_SIZE="4", MASTER_ADDR="10.0.0.1", MASTER_PORT="3000")
        self.pawl = pawl = load()
        seen = pawl.Gang().run(lambda gang, place: (gang.begin(0), gang.abort_with(self.fail), gang.check(), gang.applied(1), place)[-1])
        self.assertEqual(seen[:3] + seen[4:6], (1, 4, 0, "10.0.0.1", 3000))
        self.assertEqual((seen.source, seen.has_state), (-1, False))

        def fails(gang, place):
            raise ConnectionError("closed by peer")

        self.assertRaises(ConnectionError, pawl.Gang().run, fails)

    def test_hello_waits_for_the_gang_and_the_place_is_the_launchers(self):
        _, gang = self.gang()
        hello = self.said()
        self.assertEqual((hello["type"], hello["configHash"]), ("hello", "the same"))
        self.assertGreater(hello["dataPort"], 0)
        place = gang.place
        self.assertEqual((place.rank, place.world_size, place.master_addr, place.master_port), (1, 3, "fd00::1", 4100))

    def test_rank_0_is_met_at_the_port_that_it_said(self):
        _, gang = self.gang(rank=0)
        port = self.said()["dataPort"]
        self.assertEqual((gang.place.master_addr, gang.place.master_port), ("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)):
            pass  # free for whoever reuses addresses

    def test_only_confirmed_steps_are_told(self):
        pawl, gang = self.gang(rank=0)
        self.said()
        gang.begin(0)
        for step in (1, 2):
            pawl.report(step, loss=1)
            gang.applied(step)
        self.assertEqual(self.said()["step"], 1)
        gang.done()
        self.assertEqual([self.said() for _ in range(2)],
                         [{"type": "report", "step": 2, "loss": 1.0}, {"type": "done", "step": 2}])

    def test_told_to_park_it_says_what_it_holds_and_goes_on_with_it(self):
        pawl, gang = self.gang(generation=4, startStep=6)
        self.said()
        places = []

        def train(gang, place):
            places.append(place)
            gang.begin(place.start_step)
            if len(places) > 1:
                return
            gang.applied(7)
            self.tell("park")
            while not gang._is_parking:
                time.sleep(0.01)
            threading.Timer(0.1, self.welcome, kwargs={
                "rank": 0, "worldSize": 2, "generation": 5, "baseGeneration": 4, "startStep": 8, "sourceRank": 0}).start()
            gang.applied(8)

        gang.run(train)
        self.assertEqual(self.said(), {"type": "parked", "generation": 4, "step": 8, "why": ""})
        self.assertEqual((places[0].has_state, places[0].source), (False, -1))
        self.assertEqual((places[1].has_state, places[1].source, places[1].start_step), (True, 0, 8))

    def test_a_lost_peer_is_told_and_a_bug_is_not(self):
        pawl, gang = self.gang()
        self.said()
        pawl._TOLD_WAIT_SECONDS = 0.1
        errors = [RuntimeError("[gloo] Connection closed by peer"), ValueError("a shape is wrong")]

        def train(gang, place):
            if len(errors) == 2:
                threading.Timer(0.3, self.welcome).start()
            raise errors.pop(0)

        self.assertRaisesRegex(ValueError, "a shape is wrong", gang.run, train)
        said = self.said()
        self.assertEqual((said["type"], said["generation"], said["step"]), ("parked", 0, 0))
        self.assertEqual(said["why"], "RuntimeError: [gloo] Connection closed by peer")
        self.assert_silent()

    def test_who_is_blocked_by_a_silent_peer_is_freed(self):
        pawl, gang = self.gang()
        self.said()
        pawl._BLOCKED_SECONDS = 0.1
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        seen = []

        def train(gang, place):
            if seen:
                return
            with socket.create_connection(server.getsockname()) as peer:
                self.tell("park")
                seen.append(peer.recv(1))  # nobody answers
                threading.Timer(0.1, self.welcome, kwargs={"generation": 2}).start()
                raise ConnectionError("the peer is gone")

        gang.run(train)
        self.assertEqual(seen, [b""])

    def test_collectives_on_a_gpu_are_aborted_and_what_they_leave_is_not_used(self):
        pawl, gang = self.gang(generation=4)
        self.said()
        pawl._BLOCKED_SECONDS = 10  # two steps are less
        seen = []

        def train(gang, place):
            gang.begin(place.start_step)
            kernel = threading.Event()
            gang.abort_with(kernel.set)
            for step in range(place.start_step + 1, place.start_step + 3):
                gang.check()
                gang.applied(step)
            if seen:
                return
            self.tell("park")
            seen.append(kernel.wait(5))
            threading.Timer(0.1, self.welcome, kwargs={"generation": 5, "baseGeneration": 4, "startStep": 2}).start()
            gang.check()
            self.fail("garbage was taken for a sum")

        gang.run(train)
        self.assertEqual(seen, [True])
        self.assertEqual(self.said(), {"type": "parked", "generation": 4, "step": 2, "why": ""})
        self.assertEqual(self.said(), {"type": "done", "step": 4})

    def test_who_is_at_rest_in_time_is_not_aborted(self):
        pawl, gang = self.gang()
        self.said()
        pawl._BLOCKED_SECONDS = 0.1
        aborted = []

        def train(gang, place):
            gang.begin(0)
            gang.abort_with(lambda: aborted.append(place.generation))
            if place.generation > 1:
                return
            self.tell("park")
            while not gang._is_parking:
                time.sleep(0.001)
            gang.check()
            threading.Timer(0.3, self.welcome, kwargs={"generation": 2}).start()
            gang.applied(1)

        gang.run(train)
        self.assertEqual(aborted, [])

    def test_a_group_that_comes_into_being_late_is_aborted_and_no_rank_waits_for_connections(self):
        pawl, gang = self.gang()
        self.said()
        pawl._BLOCKED_SECONDS = 0.1
        aborts, kernel = [], threading.Event()

        def abort():
            aborts.append(1)
            if len(aborts) > 1:
                kernel.set()

        def train(gang, place):
            if place.generation > 1:
                return
            gang.begin(0)
            gang.abort_with(abort)
            self.tell("park")
            with socket.create_server(("127.0.0.1", 0)) as server:
                self.assertRaises(OSError, server.accept)
            self.assertTrue(kernel.wait(5))
            threading.Timer(0.1, self.welcome, kwargs={"generation": 2}).start()
            self.assertRaisesRegex(RuntimeError, "call check", gang.applied, 1)
            self.assertRaises(pawl.Parking, gang.abort_with, abort)
            gang.check()

        gang.run(train)

    def test_a_broken_gpu_is_no_lost_peer(self):
        pawl, gang = self.gang()
        self.said()

        def train(gang, place):
            self.tell("park")
            while not gang._is_parking:
                time.sleep(0.001)
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        self.assertRaisesRegex(RuntimeError, "CUDA error", gang.run, train)
        self.assert_silent()

    def test_a_step_that_was_not_checked_is_refused(self):
        _, gang = self.gang()
        gang.begin(0)
        gang.applied(1)  # of collectives that fail
        gang.abort_with(lambda: None)
        gang.check()
        gang.applied(2)
        self.assertRaisesRegex(RuntimeError, "call check", gang.applied, 3)

    def test_at_rest_it_is_told_to_stop_or_its_launcher_dies(self):
        for end in (lambda: self.tell("stop"), lambda: self.launcher.shutdown(socket.SHUT_RDWR)):
            pawl = self.launch(PAWL_IN_PLACE="1")
            threading.Timer(0.1, end).start()
            with self.assertRaises(SystemExit) as left:
                pawl.Gang()
            self.assertEqual(left.exception.code, 75)
            self.close()


class SigtermTest(LauncherCase):
    def test_sigterm_is_caught_on_request_and_the_handler_before_is_called(self):
        seen = []
        signal.signal(signal.SIGTERM, lambda *_: seen.append("before"))
        pawl = self.launch()
        pawl.report(1)
        before = signal.getsignal(signal.SIGTERM)
        self.assertFalse(pawl.should_stop())
        self.assertIsNot(signal.getsignal(signal.SIGTERM), before)
        self.assertFalse(pawl.should_stop())
        os.kill(os.getpid(), signal.SIGTERM)
        self.assertTrue(pawl.should_stop())
        self.assertEqual(seen, ["before"])

    def test_another_thread_is_told_what_to_do(self):
        pawl, errors = self.launch(), []

        def ask():
            try:
                pawl.should_stop()
            except RuntimeError as error:
                errors.append(str(error))

        for expected in (1, 1):  # after the main thread has asked any thread may
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
            self.assertEqual(len(errors), expected)
            pawl.should_stop()
        self.assertIn("main thread", errors[0])

    def test_a_fork_says_nothing_and_ends_by_sigterm(self):
        pawl = self.launch()
        pawl.should_stop()
        pawl.phase("forward", 1)
        beats = self.page.beats
        self.said()
        child = os.fork()
        if child == 0:
            pawl.report(7)
            pawl.phase("backward", 7)
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], signal.SIGTERM)
        self.assert_silent()
        self.assertEqual((self.page.beats, self.page.step), (beats, 1))

    def test_children_started_otherwise_are_not_the_program(self):
        self.launch()
        fds = [int(os.environ[name]) for name in ("PAWL_CHANNEL_FD", "PAWL_PULSE_FD")]
        program = [sys.executable, "-B", "-c", "import pawl; print(pawl.is_active())"]
        env = dict(os.environ, PYTHONPATH=str(CLIENT))
        for kept, active in (([], "False"), (fds, "True")):  # the second is as below a shell
            ran = subprocess.run(program, env=env, pass_fds=kept, stdout=subprocess.PIPE, text=True, check=True)
            self.assertEqual(ran.stdout.strip(), active)

    def test_workers_of_a_loader_leave_the_group_that_is_signalled(self):
        for is_launched in (False, True):
            with self.subTest(is_launched):
                pawl = self.launch() if is_launched else load()
                child = os.fork()
                if child == 0:
                    pawl.worker_init_fn(0)
                    os._exit(0 if (os.getpgrp() == os.getpid()) == is_launched else 1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)


class PulseTest(LauncherCase):
    def test_a_page_that_is_not_used_stays_as_it_was(self):
        pawl = self.launch()
        pawl.report(1)
        pawl.should_stop()
        self.assertEqual(self.page.memory[:], bytes(1312))

    def test_phase_step_and_beats_lie_where_the_launcher_looks(self):
        pawl = self.launch()
        pawl.phase("forward", 41)
        self.assertEqual((self.page.process, self.page.phase, self.page.step), (os.getpid(), 2, 41))
        first = self.page.beats
        self.assertGreater(first, 0)
        pawl.phase("optimizer")
        self.assertEqual((self.page.phase, self.page.step, self.page.beats), (5, 41, first + 1))
        pawl.heartbeat()
        self.assertEqual((self.page.phase, self.page.beats), (5, first + 2))
        self.assertEqual([sum(self.page.times(phase)) for phase in range(8)], [0, 0, 1, 0, 0, 1, 0, 0])

    def test_times_are_counted_in_powers_of_two_and_minutes_are_not(self):
        pawl, now = self.launch(), [0]
        pawl.time = type("Clock", (), {"monotonic_ns": staticmethod(lambda: now[0]), "sleep": staticmethod(time.sleep)})
        pawl.phase("data", 1)
        for microseconds in (0, 1, 1000, 1024, 61_000_000):
            now[0] += microseconds * 1000
            pawl.heartbeat()
        times = self.page.times(1)
        self.assertEqual((times[0], times[1], times[10], times[11], sum(times)), (1, 1, 1, 1, 4))
        pawl.phase("validate")
        now[0] += 61_000_000_000  # of which nothing is known: it counts
        pawl.heartbeat()
        self.assertEqual(sum(self.page.times(7)), 1)

    def test_who_waits_for_others_beats_and_nobody_else(self):
        pawl = self.launch()
        pawl._BEAT_SECONDS = 0.001
        pawl.phase("reduce", 1)
        self.until_beats(self.page.beats + 3)
        pawl.phase("forward", 2)
        beats = self.page.beats
        pulse = pawl._client.pulse
        turns = []
        pulse.lock = type("Lock", (), {"__enter__": lambda _: turns.append(1), "__exit__": lambda *_: None})()
        deadline = time.monotonic() + 10
        while len(turns) < 5 and time.monotonic() < deadline:  # the thread has looked
            time.sleep(0.001)
        self.assertGreaterEqual(len(turns), 5)
        self.assertEqual(self.page.beats, beats)

    def until_beats(self, beats):
        deadline = time.monotonic() + 10
        while self.page.beats < beats and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertGreaterEqual(self.page.beats, beats)

    def test_nothing_is_judged_after_the_end(self):
        pawl = self.launch()
        pawl.phase("optimizer", 9)
        self.assertRaises(SystemExit, pawl.exit_saved)
        self.assertEqual(self.page.phase, 0)

    def test_a_page_that_may_shrink_is_not_the_launchers(self):
        self.launch()
        fd = os.memfd_create("another", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, fd)
        os.ftruncate(fd, 4096)
        os.environ["PAWL_PULSE_FD"] = str(fd)
        self.pawl.phase("forward", 1)
        self.assertEqual(os.pread(fd, 4096, 0), bytes(4096))
        self.assertTrue(self.pawl.is_active())


if __name__ == "__main__":
    unittest.main()
