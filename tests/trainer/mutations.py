#!/usr/bin/env python3
"""Whether a mistake in a kernel or in the model would be seen: mutations.py [NAME ...]. Each mutation is made in a copy of the tree,
which is built; the tests beside PyTorch's numbers (unit_trainer_reference) must fail there, and pass in the copy as it is. The last
line is "N passed, N failed".
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST = "unit_trainer_reference"
GPT, ATTENTION, ROWS = (f"trainer-runtime/{file}" for file in ("models/gpt.cpp", "models/gpt_attention.cpp", "kernels/isa_rows.inc"))
OPTIMIZER = "trainer-runtime/optim/optimizer.cpp"

# Name, file, what stands there, and what stands there then (which compiles without warnings).
MUTATIONS = [
    ("bias gradient of attention's output", GPT, "  run_.column_sums(rows_, c, d, gradient(t.out_bias));\n", ""),
    ("bias gradient of queries, keys, values", GPT, "  run_.column_sums(rows_, 3 * c, d_wide_.data(), gradient(t.qkv_bias));\n", ""),
    ("gradient of positions", GPT, "    run_.add(c, d, gradient(position_embedding_ + row % config_.context * c));\n", ""),
    ("gradient of tied output", GPT, "    multiply.add(logits.transposed(), normal, dense(gradient(head_), classes, c));\n",
     "    if (!config_.is_tied)\n      multiply.add(logits.transposed(), normal, dense(gradient(head_), classes, c));\n"),
    ("residual around attention", GPT, "run_.add_bias(rows_, c, a.input.data(), at(t.out_bias), a.middle.data());",
     "run_.add_bias(rows_, c, nullptr, at(t.out_bias), a.middle.data());"),
    ("second norm is the first", GPT, "norm(t.gain2, t.bias2, a.middle.data(), a.mean2, a.rstd2), a.normal2.data()",
     "norm(t.gain1, t.bias1, a.middle.data(), a.mean2, a.rstd2), a.normal2.data()"),
    ("scores without 1/sqrt(depth)", ATTENTION, "static_cast<T>(1 / std::sqrt(static_cast<double>(depth)))", "static_cast<T>(1)"),
    ("mask one too wide", ROWS, "static_cast<std::int32_t>(block.first + row + 1);",
     "static_cast<std::int32_t>(block.first + row + 2 < width ? block.first + row + 2 : width);"),
    ("gradient of scores without their scale", ROWS, "to[i] = from[i] * (to[i] - shift) * scale;", "to[i] = from[i] * (to[i] - shift) + 0 * scale;"),
    ("gradient of scores without their shift", ROWS, "to[i] = from[i] * (to[i] - shift) * scale;", "to[i] = from[i] * (to[i] - 0 * shift) * scale;"),
    ("norm's gradient without its mean", ROWS, "(d[i] * gain[i] - sum - normal * dot)", "(d[i] * gain[i] - 0 * sum - normal * dot)"),
    ("norm's gradient without its variance", ROWS, "(d[i] * gain[i] - sum - normal * dot)", "(d[i] * gain[i] - sum - 0 * dot)"),
    ("gelu of another constant", ROWS, "static_cast<T>(0.044715)", "static_cast<T>(0.045)"),
    ("gelu's gradient without its cube", ROWS, "(1 + 3 * kGeluCube<T> * v * v)", "(1 + kGeluCube<T> * v * v)"),
    ("gradient at the target", ROWS, "    x[targets[row]] -= scale;\n", ""),
    ("no correction of the second moment", OPTIMIZER, "static_cast<float>(1 / (1 - std::pow(c.beta2, power)))", "1.0F"),
    ("biases are decayed", OPTIMIZER, "ranges.push_back({tensor.offset, tensor.elements, tensor.is_decayed});",
     "ranges.push_back({tensor.offset, tensor.elements, true});"),
]


def passes(copy):
    """Builds, and says whether the tests pass; a copy that does not build proves nothing."""
    subprocess.run(["cmake", "--build", copy / "build", "--target", TEST], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([copy / "build" / "bin" / TEST], stdout=subprocess.DEVNULL, check=False, timeout=120).returncode == 0


def mutate(copy, name, file, old, new):
    path = copy / file
    text = path.read_text()
    if old not in text:
        raise AssertionError(f"{file} has no such text any more: {old.strip()}")
    path.write_text(text.replace(old, new))
    try:
        if passes(copy):
            raise AssertionError("no test fails")
    finally:
        path.write_text(text)
    return name


def copy_tree(copy):
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout
    for file in filter(None, files.split("\0")):
        if (ROOT / file).is_file():
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, copy / file)
    subprocess.run(["cmake", "--preset", "release", "-B", copy / "build", "-DPAWL_PARTS=trainer"], cwd=copy, check=True,
                   stdout=subprocess.DEVNULL)
    if not passes(copy):
        raise AssertionError(f"{TEST} fails without any mutation")


def main():
    chosen = [one for one in MUTATIONS if not sys.argv[1:] or one[0] in sys.argv[1:]]
    if not chosen:
        sys.exit(f"no such mutation; there is: {'; '.join(name for name, *_ in MUTATIONS)}")
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="pawl-mutations-") as folder:
        copy = pathlib.Path(folder)
        copy_tree(copy)
        for one in chosen:
            try:
                print(f"ok     {mutate(copy, *one)}: seen", flush=True)
                passed += 1
            except (AssertionError, subprocess.SubprocessError) as error:
                print(f"FAILED {one[0]}: {error}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
