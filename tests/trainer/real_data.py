"""pawl-train on real data: real_data.py [digits] [text]. Data comes from the package registry and from Python itself. The last line is
"N passed, N failed".

text: a small GPT on the bytes of Python's reference has, after 200 steps, the validation loss of the same run in PyTorch (torch_run.py).
digits: 1,797 images of 8 × 8 from scikit-learn's package (Alpaydin and Kaynak, UCI 1998); an mlp is right on 97 % of those that it has not seen.
"""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
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


def torch_python():
    """A Python with PyTorch: that of PAWL_TORCH_PYTHON, or of the tests of other frameworks."""
    sys.path.append(str(HERE.parent / "frameworks"))
    import run
    return os.environ.get("PAWL_TORCH_PYTHON") or run.python_of(["torch", "numpy"])


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


def text(folder):
    import pydoc_data.topics
    source = folder / "topics.txt"
    source.write_text("\n".join(pydoc_data.topics.topics.values()))
    config = {
        "model": {"layers": 4, "heads": 4, "channels": 128, "context": 128, "vocabulary": 256, "tied": True},
        "data": {"paths": [str(source)], "validation_fraction": 0.1}, "batch": {"global": 16, "micro": 4},
        "optimizer": {"learning_rate": 3e-3, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1, "clip_norm": 1.0},
        "schedule": {"kind": "cosine", "warmup_steps": 20, "final_fraction": 0.1},
        "steps": 200, "seed": 7, "validate_batches": 16, "log_every": 1}
    printed = train(folder, {**config, "model": {"kind": "gpt", **config["model"]}})
    (folder / "twin.json").write_text(json.dumps(config))
    torch = json.loads(subprocess.run([torch_python(), HERE / "torch_run.py", folder / "twin.json"], check=True, capture_output=True,
                                      text=True, timeout=900).stdout)
    losses = [float(loss) for loss in re.findall(r"^step \d+/200 loss ([\d.]+)", printed, re.MULTILINE)]
    validation = float(re.search(r"\(loss ([\d.]+) nats", printed)[1])
    apart = max(abs(ours - theirs) for ours, theirs in zip(losses, torch["losses"], strict=True))
    if abs(validation - torch["validation"]) > 1e-3:
        raise AssertionError(f"validation loss {validation}, of PyTorch {torch['validation']:.4f}; training losses are up to {apart:.4f} apart")
    return f"validation loss {validation}, of PyTorch {torch['validation']:.4f}; training losses are up to {apart:.4f} apart"


CASES = {"digits": digits, "text": text}


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
