"""Where gangs go: our placement beside Kueue's, Volcano's and KAI's published rules on the same 1,000 random clusters, and the time
of a decision at 15,360 and at 65,536 hosts, alone and with 50,000 gangs in line, and of the search for who has to leave (tests/placement).
It fails where one of them finds a better place than ours. Then 1,000 gangs of 8 on 5,000 KWOK nodes with the real kube-scheduler, beside
a client that creates the same pinned pods (control/gangs.py)."""

import json
import pathlib
import subprocess

from control import gangs

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = ROOT / "build" / "release" / "bin" / "pawl-placement"
CLUSTER = ("pods_per_s", "pods_per_s_bare", "restart_s")


def add_options(parser):
    parser.add_argument("--part", choices=["core", "cluster", "all"], default="all")
    parser.add_argument("--rounds", type=int, default=3, help="of the part `cluster`")
    parser.add_argument("--profiles", type=pathlib.Path, help="folder for kube-apiserver's profiles, of the part `cluster`")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the gangs and nodes of the part `cluster`")


def measure(is_smoke, options):
    result = {**dict.fromkeys(CLUSTER), "why": "the part `cluster` was not asked for"}
    if is_smoke or options.part in ("core", "all"):
        result.update(core(is_smoke))
    if not is_smoke and options.part in ("cluster", "all"):
        result.update(gangs.measure(options.scale, options.rounds, options.profiles))
        del result["why"]
    return result


def core(is_smoke):
    done = subprocess.run([BINARY, *(["--smoke"] if is_smoke else [])], text=True, capture_output=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines or not lines[-1].startswith("RESULT "):
        raise SystemExit(f"{BINARY} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    print("\n".join(lines[:-1]))
    return json.loads(lines[-1].removeprefix("RESULT "))
