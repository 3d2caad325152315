"""What spot machines save, and what they cost in time: one job of 16 workers in the simulator's spot markets (tests/sim/market.h),
elastic and in place beside a gang that restarts all from its checkpoint. docs/spot.md has the model, its sources and the table.
Cost and time are ratios to the same job on 16 on-demand machines that nothing disturbs."""

import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIMULATOR = ROOT / "build" / "sim" / "bin" / "pawl-sim"
WORKERS = 16
DISCOUNTS = (0.60, 0.64, 0.70)  # of spot; the second one is that of the machine of the traces, and makes `cost`
MARKETS = ("hourly", "advisor", "trace")  # the first one at all shares, the others at the largest
SHARES = (0, 25, 50, 75, 100)
POLICIES = ("elastic", "restart-all")


def add_options(parser):
    parser.add_argument("--days", type=int, default=30, help="of virtual time at most; the job needs two thirds of them undisturbed")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each row")
    parser.add_argument("--markets", default=",".join(MARKETS), help="comma-separated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="simulators at a time")


def simulate(market, share, policy, days, seed):
    command = [SIMULATOR, "--market", f"{market}:{share}:{policy}", "--days", str(days), "--seed", str(seed)]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("MARKET ")]
    if done.returncode != 0 or len(lines) != 1:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(lines[0].removeprefix("MARKET "))


def cost_of(run, discount):
    paid = run["on_demand_hours"] + (1 - discount) * run["spot_hours"]
    return paid / (WORKERS * run["hours_undisturbed"])


def spread(values):
    return {"median": round(statistics.median(values), 3), "range": [round(min(values), 3), round(max(values), 3)]}


def row_of(market, share, policy, runs):
    complete = all(run["is_complete"] for run in runs)
    times = [run["hours"] / run["hours_undisturbed"] for run in runs]
    costs = {discount: [cost_of(run, discount) for run in runs] for discount in DISCOUNTS}
    row = {"market": market, "share": share, "policy": policy, "is_complete": complete,
           "cost": round(statistics.median(costs[DISCOUNTS[1]]), 3) if complete else None,
           "time": round(statistics.median(times), 3) if complete else None,
           "goodput": round(statistics.median(run["goodput"] for run in runs), 3),
           "saving": {str(discount): spread([1 - cost for cost in costs[discount]]) for discount in DISCOUNTS},
           "times": spread(times), "goodputs": spread([run["goodput"] for run in runs]),
           "spot_share": spread([run["spot_hours"] / (run["spot_hours"] + run["on_demand_hours"]) for run in runs]),
           "interruptions": spread([run["interruptions"] for run in runs]),
           "attempts": spread([run["attempts"] for run in runs]), "counted": max(run["counted"] for run in runs),
           "save_every_steps": runs[0]["save_every_steps"]}
    if not complete:
        row["done"] = spread([run["done"] for run in runs])
    return row


def text_of(row):
    if row["is_complete"]:
        low, high = row["saving"][str(DISCOUNTS[1])]["range"]
        first, last = row["times"]["range"]
        figures = (f"{1 - row['cost']:.0%} ({low:.0%} to {high:.0%}) | {row['time']:.2f} ({first:.2f} to {last:.2f})")
    else:
        figures = f"– | not in time: {row['done']['median']:.0%} done"
    return (f"| {row['market']} | {row['share']} % | {row['policy']} | {figures} | {row['goodput']:.0%} | "
            f"{row['interruptions']['median']:.0f} | {row['attempts']['median']:.0f} |")


def cases_of(market, is_smoke):
    """Pairs of a share and a policy; at the largest share also with machines on demand for what spot does not have."""
    if is_smoke:
        return [(SHARES[-1], policy) for policy in POLICIES]
    shares = SHARES if market == MARKETS[0] else SHARES[-1:]
    more = ((SHARES[-1], f"{policy}:fallback") for policy in POLICIES)
    return [*((share, policy) for share in shares for policy in POLICIES), *more]


def measure(is_smoke, options):
    markets = ["hourly"] if is_smoke else options.markets.split(",")
    days, seeds = (1, 1) if is_smoke else (options.days, options.seeds)
    rows = []
    print("| Market | Spot | Policy | Saved | Time | Goodput | Interruptions | Attempts |\n|---|---|---|---|---|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for market in markets:
            for share, policy in cases_of(market, is_smoke):
                runs = list(pool.map(lambda seed: simulate(market, share, policy, days, seed), range(1, seeds + 1)))
                rows.append(row_of(market, share, policy, runs))
                print(text_of(rows[-1]), flush=True)
    return {"rows": rows, "days": days, "seeds": seeds, **({"why": "smoke run"} if is_smoke else {})}
