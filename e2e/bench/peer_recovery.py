"""The part of recovery.py that measures a PyTorch script, under torchrun, under torchft, and under `pawl run`."""

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

import torchft_recovery
from torch_recovery import GrowingTorchrun, Torchrun, TorchUnderPawl

POD_ROUNDS = GROW_ROUNDS = 3  # each takes a fresh start of everything, or an import


def median(seconds):
    return round(statistics.median(seconds), 3) if seconds else None


def rounded(seconds):
    return [round(value, 3) for value in seconds]


def torch_round(program, python, text, rounds, found):
    """Into `found`, seconds to the next step when a process is killed, one is stopped, and pods are killed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
            contextlib.closing(program(python, text, folder, rounds + 1)) as run:
        for _ in range(rounds):
            found["kill"].append(run.kill())
            time.sleep(2)
        if hasattr(run, "kill_pod"):
            for _ in range(min(rounds, POD_ROUNDS)):
                found["pod"].append(run.kill_pod())
                time.sleep(2)
        found["stop"] = run.stop()


def torchrun_round(python, text, rounds, found):
    """Ends with the first time that what was waited for did not come: `lost`."""
    try:
        torch_round(Torchrun, python, text, rounds, found)
    except SystemExit as why:
        print(f"torchrun: lost, {why}", file=sys.stderr)
        found["lost"] = True


def torchrun_grow(python, text, rounds):
    """Seconds for which three make no step when a fourth comes."""
    found = []
    for _ in range(min(rounds, GROW_ROUNDS)):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
                contextlib.closing(GrowingTorchrun(python, text, folder)) as run:
            found.append(run.grow())
    return found


def torchft_round(program, python, text, rounds):
    """Kills, each with the growth after it, then a stop. `lost`: so often nobody went on, or nobody began."""
    found = {"kill": [], "grow": [], "lost": 0, "stop": None}
    left = rounds
    for _ in range(rounds + 1):
        try:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
                    contextlib.closing(program(python, text, folder)) as run:
                while left:
                    left -= 1
                    found["kill"].append(run.kill())
                    found["grow"].append(run.grow())
                found["stop"] = run.stop()
                return found
        except (torchft_recovery.Lost, SystemExit) as why:  # the latter: what was waited for did not come
            print(f"torchft: lost, {why}", file=sys.stderr)
            found["lost"] += 1
    return found


def torchft_keys(python, text, rounds):
    result = {}
    for prefix, program in ("torchft", torchft_recovery.Torchft), ("torchft_hasty", torchft_recovery.HastyTorchft):
        found = torchft_round(program, python, text, rounds)
        result |= {f"{prefix}_kill_s": median(found["kill"]), f"{prefix}_all_s": rounded(found["kill"]),
                   f"{prefix}_lost": found["lost"], f"{prefix}_sigstop_s": found["stop"],
                   f"{prefix}_grow_s": median(found["grow"]), f"{prefix}_grow_all_s": rounded(found["grow"])}
    return result


def torch_keys(python, text, rounds, is_growth_left_out):
    peer, ours = ({"kill": [], "stop": None, "pod": [], "lost": False} for _ in range(2))
    torchrun_round(python, text, rounds, peer)
    torch_round(TorchUnderPawl, python, text, rounds, ours)
    grows = [] if is_growth_left_out else torchrun_grow(python, text, rounds)
    return {"torch_device": os.environ.get("PAWL_BENCH_DEVICE", "cpu"),
            "torchrun_kill_s": median(peer["kill"]), "torchrun_all_s": rounded(peer["kill"]),
            "torchrun_sigstop_s": peer["stop"], "torchrun_lost": peer["lost"],
            "torchrun_grow_s": median(grows), "torchrun_grow_all_s": rounded(grows),
            "torch_kill_s": median(ours["kill"]), "torch_all_s": rounded(ours["kill"]), "torch_pod_s": median(ours["pod"]),
            "torch_sigstop_s": ours["stop"]}


def nothing(why):
    keys = ("torchrun_kill_s", "torchrun_sigstop_s", "torchrun_grow_s", "torch_kill_s", "torch_pod_s", "torch_sigstop_s",
            "torchft_kill_s", "torchft_sigstop_s", "torchft_grow_s")
    return {**{key: None for key in keys}, "why": why}


def measure(python, text, rounds, part):
    if not python:
        return nothing("PyTorch is not installed, set PAWL_TORCH_PYTHON")
    result = {} if part == "torchft" else torch_keys(python, text, rounds, part == "script")
    print("torchrun", json.dumps(result), flush=True)
    if part == "script":
        return result
    if torchft_recovery.has_torchft(python):
        return result | torchft_keys(python, text, rounds)
    return {**nothing("torchft is not installed beside PyTorch: docs/benchmarks.md says how"), **result}
