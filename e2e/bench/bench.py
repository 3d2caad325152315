"""./dev bench NAME [--smoke]: one benchmark; the last line is RESULT {json}. Every figure is a median; pairs are measured
alternately in one run. Keys whose measurement comes with a later piece of work are null, with a `why`."""

import argparse
import importlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

NAMES = {"trainer": "trainer"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(NAMES))
    parser.add_argument("--smoke", action="store_true", help="one round, under 20 s: shows that the benchmark runs")
    options = parser.parse_args()
    result = importlib.import_module(NAMES[options.name]).measure(options.smoke)
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
