"""./dev bench chaos: many jobs at once, half of them deleted at random, the operator killed again and again.

By hand a small one; `./dev test --long` runs it with 1,000 jobs and 20 kills. Fails if a survivor does not complete, if
anything of a deleted job is left, or if any gang ran twice.
"""

import random

from control import chaos


def add_options(parser):
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.getrandbits(31))


def measure(is_smoke, options):
    if is_smoke:
        return chaos.run(jobs=10, workers=2, nodes=5, kills=1, seed=options.seed)
    return chaos.run(options.jobs, options.workers, options.nodes, options.kills, options.seed)
