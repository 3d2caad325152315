"""pawl-train on real data, and on another program's model: real_data.py [digits] [text] [gpt2]. Data and programs come from the package
registry, and from Python itself. The last line is "N passed, N failed", and ", N skipped" if any are.

text: a small GPT on the bytes of Python's reference has, after 200 steps, the validation loss of the same run in PyTorch (torch_run.py).
digits: 1,797 images of 8 × 8 from scikit-learn's package (Alpaydin and Kaynak, UCI 1998); an mlp is right on 97 % of those that it has not seen.
gpt2: small GPT-2s that transformers has made have the same loss here, and what pawl-train exports has the same logits there. PAWL_TORCH_PYTHON
names a Python that has PyTorch and transformers.
"""

import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(HERE.parent / "frameworks"))
sys.dont_write_bytecode = True

from run import FRAMEWORKS, python_of

TRAINER = ROOT / "build" / "release" / "bin" / "pawl-train"
DIGITS = "sklearn/datasets/data/digits.csv.gz"


class Skip(Exception):
    """What the case needs cannot be had."""


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


def torch_python():
    """One that has PyTorch and transformers: the given one, or that of tests/frameworks with transformers beside."""
    given = os.environ.get("PAWL_TORCH_PYTHON")
    if given and subprocess.run([given, "-c", "import torch, transformers"], check=False, capture_output=True).returncode == 0:
        return given
    try:
        python = python_of(FRAMEWORKS["torch"][1])
        done = python.parents[1] / "transformers"
        if not done.exists():
            subprocess.run([python, "-m", "pip", "install", "--quiet", "transformers"], check=True)
            done.touch()
    except (OSError, subprocess.SubprocessError) as error:
        raise Skip(f"PyTorch and transformers cannot be installed: {error}") from error
    return python


def reference(python, *arguments):
    done = subprocess.run([python, HERE / "gpt2_reference.py", *arguments], text=True, capture_output=True, check=False, timeout=300,
                          env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""})
    if done.returncode:
        raise AssertionError(f"gpt2_reference.py ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


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
    if abs(validation - torch["validation"]) > 1e-3 or apart > 1e-3:
        raise AssertionError(f"validation loss {validation}, of PyTorch {torch['validation']:.4f}; training losses are up to {apart:.4f} apart")
    return f"validation loss {validation}, of PyTorch {torch['validation']:.4f}; training losses are up to {apart:.4f} apart"


def gpt2(folder):
    python = torch_python()
    text = folder / "text"
    words = random.Random(5)
    text.write_bytes(b"".join(words.choice([b"the ", b"river ", b"runs ", b"under ", b"a ", b"bridge\n"]) for _ in range(5000)))
    reference(python, "make", folder)
    if not (folder / "untied" / "model.safetensors.index.json").exists():
        raise AssertionError("the untied model is in one file")
    told = []
    for name, context in (("tied", 64), ("untied", 64), ("tied", 40)):
        exported = folder / f"{name}-{context}"
        # A learning rate of 0 changes nothing: what is validated, and exported, is what was read.
        printed = train(folder, {
            "model": {"layers": 2, "heads": 4, "channels": 64, "context": context, "tied": name == "tied", "weights": str(folder / name)},
            "data": {"paths": [str(text)]}, "optimizer": {"learning_rate": 0}, "steps": 1, "validate_batches": 1000000,
            "export": str(exported)})
        ours = float(re.findall(r"\(loss ([\d.]+) nats", printed)[-1])
        theirs = json.loads(reference(python, "compare", folder / name, exported, text, str(context)).splitlines()[-1])
        if f"; {theirs['targets']} of {theirs['targets']} held-out targets" not in printed:
            raise AssertionError(f"not on the same {theirs['targets']} targets:\n{printed[-1000:]}")
        if abs(ours - theirs["loss"]) > 1e-4:
            raise AssertionError(f"{name}, context {context}: loss {ours}, transformers has {theirs['loss']}")
        if theirs["difference"] > 1e-6:
            raise AssertionError(f"{name}, context {context}: the exported model's logits differ by up to {theirs['difference']}")
        told.append(f"{name}, context {context}: loss {ours}, transformers {theirs['loss']:.5f}, logits within {theirs['difference']:.1e}")
    return "; ".join(told)


CASES = {"digits": digits, "text": text, "gpt2": gpt2}


def main():
    names = sys.argv[1:] or list(CASES)
    if unknown := set(names) - set(CASES):
        sys.exit(f"no such data: {', '.join(sorted(unknown))}; there is {', '.join(CASES)}")
    passed = failed = skipped = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="pawl-real-") as folder:
            try:
                print(f"ok     {name}: {CASES[name](pathlib.Path(folder))}", flush=True)
                passed += 1
            except Skip as reason:
                print(f"skip   {name}: {reason}", flush=True)
                skipped += 1
            except Exception as error:  # of the registry, the package or the trainer; the last line is printed after all of them
                print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
