"""What a launcher gives a program, made here: a socket and a page that the module under test inherits."""

import fcntl
import importlib.util
import json
import mmap
import os
import pathlib
import signal
import socket
import struct
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLIENT = ROOT / "clients" / "python"
PAGE_BYTES = 1312
sys.dont_write_bytecode = True


def load(name="pawl", path=CLIENT / "pawl.py"):
    """The module anew: it has not looked at the environment yet."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_page():
    fd = os.memfd_create("pawl-pulse", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, PAGE_BYTES)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


class Page:
    """As the launcher reads it."""

    def __init__(self, fd):
        self.memory = mmap.mmap(fd, PAGE_BYTES)

    def __getattr__(self, name):
        form, at = {"process": ("i", 0), "beats": ("Q", 8), "phase": ("I", 16), "step": ("q", 24)}[name]
        return struct.unpack_from(form, self.memory, at)[0]

    def times(self, phase):
        return list(struct.unpack_from("40I", self.memory, 32 + phase * 160))


class LauncherCase(unittest.TestCase):
    """`self.pawl` under a launcher, whose end of the socket is `self.launcher`; rank 0, if not said otherwise."""

    def setUp(self):
        self.handler = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, self.handler)
        environment = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(environment)))
        for name in [name for name in os.environ if name.startswith("PAWL_") or name == "RANK"]:
            del os.environ[name]

    def launch(self, **variables):
        self.launcher, program = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.launcher.close)
        self.launcher.settimeout(10)
        page = make_page()
        self.page = Page(page)
        self.addCleanup(os.close, page)
        os.environ.update(PAWL_CHANNEL_FD=str(program.detach()), PAWL_PULSE_FD=str(page), RANK="0", **variables)
        self.pawl = load()
        self.addCleanup(self.close)
        return self.pawl

    def close(self):
        channel = self.pawl._client and self.pawl._client.channel
        if channel:
            channel.connection.close()
        else:
            try:
                os.close(int(os.environ["PAWL_CHANNEL_FD"]))
            except OSError:
                pass  # a test that closed it

    def said(self):
        return json.loads(self.launcher.recv(1 << 17))

    def tell(self, kind, **fields):
        self.launcher.send(json.dumps(dict(fields, type=kind)).encode())

    def assert_silent(self):
        self.launcher.settimeout(0)
        self.assertRaises(BlockingIOError, self.launcher.recv, 1)
