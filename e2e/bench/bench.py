"""./dev bench NAME [--smoke]: one benchmark; the last line is RESULT {json}. Every figure is a median; pairs are measured
in one run, alternately where they do not need the machine for themselves. Keys whose
measurement comes with a later piece of work are null, with a `why`."""

import argparse
import importlib
import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

NAMES = {"chaos": "chaos", "exposed": "exposed", "kueue": "kueue", "operator": "operator_bench", "placement": "placement",
         "recovery": "recovery", "spot": "spot", "trainer": "trainer"}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended on the way out
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(NAMES))
    parser.add_argument("--smoke", action="store_true", help="one round, under 20 s: shows that the benchmark runs")
    options, rest = parser.parse_known_args()
    module = importlib.import_module(NAMES[options.name])
    # Not named as the bench is: Python has a module `operator` of its own.
    own = argparse.ArgumentParser(prog=f"./dev bench {options.name}", description=module.__doc__)
    if hasattr(module, "add_options"):
        module.add_options(own)
        result = module.measure(options.smoke, own.parse_args(rest))
    else:
        own.parse_args(rest)
        result = module.measure(options.smoke)
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
