"""How much of a training step two processes of the trainer wait for the network with nothing to compute: the exposed
communication of each rank, out of its own trace (docs/trainer.md, "Where the time goes"). The model is GPT-2's smallest,
of 124 M parameters, with a shorter context, so that a step takes seconds on a CPU. Tells nothing where other work
competes: who waits for a rank that is slowed down counts that, too."""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOUND = 0.1  # of the step, for two processes of the model of 124 M parameters
# What shows in seconds that the benchmark runs.
SMOKE = {"layers": 2, "heads": 2, "channels": 64, "context": 64, "vocabulary": 256, "micro_batches": 4, "first_step": 2,
         "steps": 3}


def add_options(parser):
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--channels", type=int, default=768)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--micro", type=int, default=1, help="samples in a forward and backward pass")
    parser.add_argument("--micro-batches", type=int, default=4, help="such passes of a process in a step")
    parser.add_argument("--zero", type=int, default=0, choices=(0, 1))
    parser.add_argument("--first-step", type=int, default=3, help="the first that counts")
    parser.add_argument("--steps", type=int, default=5, help="that count")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin", help="with pawl-train")
    parser.add_argument("--minutes-max", type=float, default=30)


def config(text, options, folder):
    return {"model": {"layers": options.layers, "heads": options.heads, "channels": options.channels,
                      "context": options.context, "vocabulary": options.vocabulary, "tied": True},
            "data": {"paths": [text]}, "parallel": {"zero": options.zero},
            "batch": {"global": options.processes * options.micro_batches * options.micro, "micro": options.micro,
                      "dealing": "even"},
            "steps": options.first_step + options.steps - 1, "log_every": 1, "validate_batches": 1,
            "trace": {"folder": folder, "first_step": options.first_step, "steps": options.steps}}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def train(path, options):
    """The output of every process."""
    port, ranks = free_port(), []
    try:
        for rank in range(options.processes):
            place = {"RANK": str(rank), "WORLD_SIZE": str(options.processes), "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(port)}
            ranks.append(subprocess.Popen([options.bin / "pawl-train", "--config", path], text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **place}))
        output = [process.communicate(timeout=60 * options.minutes_max)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    if any(process.returncode != 0 for process in ranks):
        raise SystemExit("the trainer failed:\n" + "".join(text[-2000:] for text in output))
    return output


def steps_of(path):
    events = json.loads(path.read_text())["traceEvents"]
    return [{"seconds": event["dur"] / 1e6, "exposed": event["args"]["exposed_us"] / max(event["dur"], 1),
             "network": event["args"]["network_us"] / 1e6} for event in events if event["name"] == "step"]


def measure(is_smoke, options=None):
    if options is None:
        parser = argparse.ArgumentParser()
        add_options(parser)
        options = parser.parse_args([])
    if is_smoke:
        for name, value in SMOKE.items():
            setattr(options, name, value)
    text = subprocess.run([ROOT / "tools" / "demo_text.sh"], text=True, capture_output=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config(text, options, folder)))
        output = train(path, options)
        ranks = [steps_of(pathlib.Path(folder) / f"trace-rank{rank}.json") for rank in range(options.processes)]
    if any(len(steps) != options.steps for steps in ranks):
        raise SystemExit(f"steps are missing in the traces:\n{output[0][-2000:]}")
    shares = [statistics.median(step["exposed"] for step in steps) for steps in ranks]
    model = {name: getattr(options, name) for name in ("layers", "heads", "channels", "context", "vocabulary", "zero")}
    return {"exposed_comm": round(max(shares), 4), "by_rank": [round(share, 4) for share in shares], "bound": BOUND,
            "step_s": round(statistics.median(step["seconds"] for steps in ranks for step in steps), 4),
            "network_s": round(statistics.median(step["network"] for steps in ranks for step in steps), 4),
            "tokens_a_step": options.processes * options.micro_batches * options.micro * options.context,
            "processes": options.processes, "model": model, "steps": options.steps,
            **({"why": "smoke run: a small model, for which there is no bound"} if is_smoke else {})}
