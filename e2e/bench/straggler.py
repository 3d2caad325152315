"""Two ranks of the trainer, a processor for each, and a program that takes half of rank 0's: tokens a second with
even runs of micro-batches, and with `batch.dealing: measured`. Tells nothing where other work competes."""

import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = ROOT / "build" / "release" / "bin" / "pawl-train"
STEPS = 120  # by the half of them the deal is known, and the slow rank too
SMOKE_STEPS = 40


def config(text, dealing, steps):
    return {"model": {"layers": 4, "heads": 4, "channels": 128, "context": 64}, "data": {"paths": [text]},
            "batch": {"global": 32, "micro": 1, "dealing": dealing}, "steps": steps, "log_every": 1, "seed": 1,
            "validate_batches": 1}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def tokens_per_second(text, dealing, has_hog, steps=STEPS):
    """The median of the last steps, and whether the slow rank was named."""
    port, ranks = free_port(), []
    hog = subprocess.Popen(["taskset", "-c", "0", sys.executable, "-c", "while True: pass"]) if has_hog else None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config(text, dealing, steps)))
        try:
            for rank in (0, 1):
                place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
                ranks.append(subprocess.Popen(["taskset", "-c", str(rank), TRAINER, "--config", path], text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                              env={**os.environ, **place}))
            output = [process.communicate(timeout=300)[0] for process in ranks]
        finally:
            for process in ranks + ([hog] if hog else []):
                process.kill()
                process.wait()
    rates = [int(rate) for rate in re.findall(rf"step \d+/{steps} .* (\d+) tokens/s", output[0])]
    if any(process.returncode != 0 for process in ranks) or len(rates) < steps:
        raise SystemExit(f"the trainer failed:\n{output[0][-2000:]}{output[1][-2000:]}")
    return statistics.median(rates[steps // 2:]), "rank 0 is slow" in output[0]


def measure(text, is_smoke, rounds=5):
    if os.cpu_count() < 2:
        return {"why": "needs two processors"}
    if is_smoke:
        return {"measured": tokens_per_second(text, "measured", True, SMOKE_STEPS)[0], "why": "smoke run"}
    seen = {name: [] for name in ("undisturbed", "even", "measured")}
    named = 0
    for _ in range(rounds):
        seen["undisturbed"].append(tokens_per_second(text, "even", False)[0])
        seen["even"].append(tokens_per_second(text, "even", True)[0])
        rate, is_named = tokens_per_second(text, "measured", True)
        seen["measured"].append(rate)
        named += is_named
    median = {name: round(statistics.median(rates)) for name, rates in seen.items()}
    return {**median, "measured_to_even": round(median["measured"] / median["even"], 2), "named": f"{named} of {rounds}"}
