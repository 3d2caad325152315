"""A training script without a framework that stays when its gang changes, for the tests.

Arguments: steps, milliseconds a step. A step is twelve items, dealt over the ranks that there are; what each rank made of
its own is summed over real connections, by rank 0. So the value at the end tells whether any step was lost or made twice.
"""

import pathlib
import socket
import struct
import sys
import time

CLIENT = pathlib.Path(__file__).resolve().parents[3] / "clients" / "python"
sys.path.append(str(CLIENT))
sys.dont_write_bytecode = True

import os

import pawl

ITEMS = 12


class Sum:
    """What a framework's process group is: connections that fail, or block for ever, with the one on their other end."""

    def __init__(self, place):
        self.place, self.others = place, []
        if place.rank == 0:
            with socket.create_server(("127.0.0.1", place.master_port)) as server:
                while len(self.others) < place.world_size - 1:
                    server.settimeout(5)
                    self.others.append(server.accept()[0])
        else:
            until = time.monotonic() + 5
            while not self.others:
                try:
                    self.others.append(socket.create_connection((place.master_addr, place.master_port)))
                except OSError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.02)
        for other in self.others:
            other.settimeout(None)

    def of(self, *numbers):
        form = struct.Struct(f"!{len(numbers)}q")
        if self.place.rank == 0:
            rows = [form.unpack(self._read(other, form.size)) for other in self.others] + [numbers]
            numbers = tuple(map(sum, zip(*rows)))
            for other in self.others:
                other.sendall(form.pack(*numbers))
            return numbers
        self.others[0].sendall(form.pack(*numbers))
        return form.unpack(self._read(self.others[0], form.size))

    def close(self):
        for other in self.others:
            other.close()

    @staticmethod
    def _read(other, size):
        data = b""
        while len(data) < size:
            part = other.recv(size - len(data))
            if not part:
                raise ConnectionError("connection closed by peer")
            data += part
        return data


class Model:
    value = 0


def train(gang, place, model):
    steps, seconds = int(sys.argv[1]), int(sys.argv[2]) / 1000
    ranks = Sum(place)
    try:
        is_source = place.rank == max(place.source, 0)
        value = ranks.of(model.value if is_source else 0)[0] if place.source >= 0 else 0
        model.value = value
        ranks.of(0)  # nobody steps before all have it
        gang.begin(place.start_step)
        print(f"pid {os.getpid()} rank {place.rank} of {place.world_size} in generation {place.generation} begins at "
              f"{place.start_step}, {'holds it' if place.has_state else 'is given it'}", flush=True)
        for step in range(place.start_step + 1, steps + 1):
            time.sleep(seconds)
            mine = sum(step * item for item in range(ITEMS) if item % place.world_size == place.rank)
            pawl.phase("reduce", step)
            total, must_stop = ranks.of(mine, pawl.should_stop())
            pawl.phase("other")
            model.value += total
            pawl.report(step, total_steps=steps, loss=1 / step)
            gang.applied(step)
            if must_stop:
                print(f"told to stop at {step}", flush=True)
                pawl.exit_saved()
        ranks.of(0)
    finally:
        ranks.close()


def main():
    pawl.should_stop()
    model = Model()
    pawl.Gang().run(lambda gang, place: train(gang, place, model))
    print(f"the value is {model.value}", flush=True)


if __name__ == "__main__":
    main()
