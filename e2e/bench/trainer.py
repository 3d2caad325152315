"""The trainer beside PyTorch: time from the start of the command to the end of the first optimizer step.

Ours is `pawl run` of examples/gpt-text.yaml, cut to few steps: operator, two launchers, two training processes. Theirs
is `torchrun --nproc-per-node 2` of the same model (torch_gpt.py). PAWL_TORCH_PYTHON names a Python that has torch. Then
what a slow rank costs (straggler.py), and how much communication is exposed (exposed.py).
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import exposed
import straggler

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LATER = ["gpt124m_fp32", "gpt124m_bf16", "gpt10m", "byte_gpt", "two_process_scaling_fp32", "two_process_scaling_bf16",
         "allreduce", "rss_ratio"]
STEPS = 20
PAWL = ROOT / "build" / "release" / "bin" / "pawl"


def text_path():
    return subprocess.run([ROOT / "tools" / "demo_text.sh"], text=True, capture_output=True, check=True).stdout.strip()


def first_report(command, pattern, environment=None):
    """Seconds from the start of the command until a line of its output matches; then waits for its end."""
    start = time.time()
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    seconds = None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if seconds is None and re.search(pattern, line):
            seconds = time.time() - start
    if process.wait() != 0 or seconds is None:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{''.join(lines[-20:])}")
    return seconds


def ours(text):
    with tempfile.TemporaryDirectory() as folder:
        return first_report([PAWL, "run", ROOT / "examples" / "gpt-text.yaml", "--text", text, "--run-dir",
                             f"{folder}/run", "--set", f"spec.runtime.config.steps={STEPS}"],
                            r"\s[1-9]\d*/\d+\s")


def torch_python():
    for python in (os.environ.get("PAWL_TORCH_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


def theirs(python, text):
    config = {"model": {"layers": 4, "heads": 4, "channels": 128, "context": 64}, "data": {"paths": [text]},
              "batch": {"global": 16}, "optimizer": {"learning_rate": 0.003}, "schedule": {"warmup_steps": 50},
              "seed": 1}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        return first_report([python, "-m", "torch.distributed.run", "--nproc-per-node", "2", HERE / "torch_gpt.py", path,
                             str(STEPS)], r"^STEP 1 ", {**os.environ, "OMP_NUM_THREADS": "1"})


def measure(is_smoke):
    text, python = text_path(), torch_python()
    rounds = 1 if is_smoke else 7
    mine, peer = [], []
    for _ in range(rounds):
        mine.append(ours(text))
        if python and not is_smoke:
            peer.append(theirs(python, text))
    first_step = {"ours": round(statistics.median(mine), 3), "ours_all": [round(value, 3) for value in mine],
                  "torch": round(statistics.median(peer), 3) if peer else None, "bound": None}
    if not peer:
        first_step["why"] = "smoke run" if is_smoke else "PyTorch is not installed; set PAWL_TORCH_PYTHON"
    return {"first_step_s": first_step, "straggler": straggler.measure(text, is_smoke),
            "exposed_comm": exposed.measure(is_smoke), **{key: None for key in LATER},
            "why": "null keys are measured by the benchmark of the trainer runtime, which is not written yet"}
