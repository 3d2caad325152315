"""Pawl's operator beside its peers on one real control plane with KWOK nodes, and alone at scale.

The same work for all: 100 jobs of 8 pods on 250 nodes. Each contender has a fresh control plane, and its own webhooks and
no other's; the rounds take turns. Times are from the first request of the user to all pods created, and Running.
--smoke: 5 jobs of 4 pods on 10 nodes, the bare client and Pawl alone, on one control plane one after the other.
`requests_excess` of the result names each kind of request that Pawl makes more often than it may (compare.py).
"""

from control import compare, contenders, request_cost, scale
from control.plane import Plane


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--only", default="", help="contenders, with commas: " + ", ".join(contenders.ALL))
    parser.add_argument("--part", choices=["compare", "scale", "requests", "all"], default="all")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the sizes of the part `scale`")


def measure(is_smoke, options):
    if is_smoke:
        return smoke()
    result = {}
    if options.part in ("compare", "all"):
        result.update(compared(options))
    if options.part in ("scale", "all"):
        result.update(scale.measure(options.scale))
    if options.part in ("requests", "all"):
        result.update(request_cost.measure())
    return result


def compared(options):
    chosen = [name for name in options.only.split(",") if name] or list(contenders.ALL)
    size = compare.Size(options.jobs, options.workers, options.nodes)
    figures, absent = compare.run_rounds([contenders.ALL[name]() for name in chosen], size, options.rounds)
    result = summary(figures, size)
    if absent:
        result["why"] = "; ".join(f"{name}: {why}" for name, why in absent.items())
    return result


def summary(figures, size):
    result = {"jobs": size.jobs, "workers": size.workers, "nodes": size.nodes}
    for name in contenders.ALL:
        present = bool(figures.get(name))
        result[f"{name}_s"] = round(compare.median(figures[name], "running_s"), 2) if present else None
        result[f"{name}_created_s"] = round(compare.median(figures[name], "created_s"), 2) if present else None
        result[f"requests_{name}"] = sum(compare.median_requests(figures[name]).values()) if present else None
        if present and name != "bare":
            if contenders.ALL[name].controllers:
                result[f"cpu_{name}_s"] = cpu_of(figures, name)
            result[f"ratio_{name}_to_bare"] = compare.ratios(figures, name, "bare")
            if name not in ("pawl", "bare"):
                result[f"ratio_pawl_to_{name}"] = compare.ratios(figures, "pawl", name)
            result[f"rss_mib_{name}"] = round(compare.median(figures[name], "rss_mib"), 1)
    if figures.get("bare") and figures.get("pawl"):
        extra = result["requests_beyond_bare_per_job"] = compare.beyond(figures, size.jobs, "bare")
        extra_same = compare.beyond(figures, size.jobs, "bare_same") if figures.get("bare_same") else None
        if extra_same is not None:
            result["requests_beyond_bare_same_per_job"] = extra_same
        result["requests_excess"] = compare.check_requests(extra, extra_same)
    result["versions"] = {name: contender.version for name, contender in contenders.ALL.items() if contender.version}
    result["versions"].update(kubernetes="1.34.4", kwok="0.7.0")
    return result


def cpu_of(figures, name):
    """Of its controllers, and of what kube-controller-manager needs beyond its need for bare pods."""
    manager = "kube-controller-manager"
    bare = min((figure["cpu"][manager] for figure in figures.get("bare", [])), default=0.0)
    own = [sum(value for part, value in figure["cpu"].items() if part in contenders.ALL[name].controllers)
           for figure in figures[name]]
    shares = [max(0.0, figure["cpu"][manager] - bare) for figure in figures[name]]
    middle = sorted(a + b for a, b in zip(own, shares))[len(own) // 2]
    return {"sum": round(middle, 2), "own": round(sorted(own)[len(own) // 2], 2),
            "kube_controller_manager": round(sorted(shares)[len(shares) // 2], 2)}


def smoke():
    size = compare.Size(5, 4, 10, 60)
    figures = {}
    with Plane(size.nodes) as plane:
        for contender in (contenders.Bare(), contenders.Pawl()):
            figures[contender.name] = [compare.run_one(contender, size, plane)]
            compare.show(contender.name, figures[contender.name][0], 0)
            plane.kubectl("delete", "pods", "--all", "-n", "bench", "--wait=true")
    return summary(figures, size)
