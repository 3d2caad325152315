"""Where gangs go: our placement beside Kueue's, Volcano's and KAI's published rules on the same 1,000 random clusters, and the time
of a decision at 15,360 and at 65,536 hosts, alone and with 50,000 gangs in line (tests/placement). It fails where one of them finds
a better place than ours."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = ROOT / "build" / "release" / "bin" / "pawl-placement"
LATER = ("search_ms_p99", "pods_per_s", "pods_per_s_bare", "restart_s")


def measure(is_smoke):
    done = subprocess.run([BINARY, *(["--smoke"] if is_smoke else [])], text=True, capture_output=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines or not lines[-1].startswith("RESULT "):
        raise SystemExit(f"{BINARY} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    print("\n".join(lines[:-1]))
    result = json.loads(lines[-1].removeprefix("RESULT "))
    return {**result, **dict.fromkeys(LATER), "why": "preemption and placed pods come with a later piece of work"}
