"""pawl-train on real data: real_data.py [digits]. Data comes from the package registry. The last line is "N passed, N failed".

digits: 1,797 images of 8 × 8 from scikit-learn's package (Alpaydin and Kaynak, UCI 1998); an mlp is right on 97 % of those that it has not seen.
"""

import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = ROOT / "build" / "release" / "bin" / "pawl-train"
DIGITS = "sklearn/datasets/data/digits.csv.gz"


def train(folder, config):
    """What pawl-train prints, alone on this machine."""
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    done = subprocess.run([TRAINER, "--config", file], text=True, capture_output=True, check=False, timeout=600)
    if done.returncode:
        raise AssertionError(f"pawl-train ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def digits(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder,
                    "scikit-learn"], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        if DIGITS not in wheel.namelist():
            raise AssertionError(f"{wheel.filename} has no {DIGITS} any more")
        (folder / "digits.csv").write_bytes(gzip.decompress(wheel.read(DIGITS)))
    printed = train(folder, {
        "model": {"kind": "mlp", "inputs": 64, "classes": 10, "hidden": [128]},
        "data": {"kind": "csv", "paths": [str(folder / "digits.csv")], "validation_fraction": 0.2},
        "batch": {"global": 64, "micro": 16}, "optimizer": {"learning_rate": 0.003}, "steps": 600, "validate_batches": 1000})
    told = re.findall(r"accuracy ([\d.]+)%", printed)
    if not told:
        raise AssertionError(f"no accuracy in what pawl-train prints:\n{printed[-1000:]}")
    accuracy = float(told[-1])
    if accuracy < 97:
        raise AssertionError(f"accuracy {accuracy} %, wanted 97:\n{printed[-1000:]}")
    return f"accuracy {accuracy} %"


CASES = {"digits": digits}


def main():
    names = sys.argv[1:] or list(CASES)
    if unknown := set(names) - set(CASES):
        sys.exit(f"no such data: {', '.join(sorted(unknown))}; there is {', '.join(CASES)}")
    passed = failed = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="pawl-real-") as folder:
            try:
                print(f"ok     {name}: {CASES[name](pathlib.Path(folder))}", flush=True)
                passed += 1
            except Exception as error:  # of the registry, the package or the trainer; the last line is printed after all of them
                print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
