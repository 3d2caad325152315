#!/usr/bin/env python3
"""Makes tests/unit/trainer/gpt_reference.safetensors with PyTorch: what gpt_reference_test.cpp holds the GPT model and AdamW and SGD to.

    python3 tests/trainer/gpt_reference.py [FILE]      (needs torch; numbers are of one thread and fp64)

The file was made once and is committed: it is made again only when the model itself changes. It has, for a model of 97 token
values, 2 blocks, 4 heads, 32 channels and a context of 16:

    tokens               I32 [20, 2, 17]  20 batches of two samples
    parameters.NAME      F32              before the first step; `lm_head.weight` is not there in the tied model
    KIND.gradients.NAME  F32              of the mean loss of batch 0 at `parameters`, computed in fp64
    KIND.token_losses    F64 [2, 16]      of batch 0, in nats: what the logits say of every target
    KIND.OPTIMIZER       F64 [20]         mean losses of batches 0 to 19, each before its update
                                          KIND: plain or tied
"""

import json
import pathlib
import struct
import sys

import torch
from torch_gpt import Shape, groups, token_losses

SHAPES = {"plain": Shape(layers=2, heads=4, channels=32, context=16, vocabulary=97),
          "tied": Shape(layers=2, heads=4, channels=32, context=16, vocabulary=97, tied=True)}
BATCHES, SAMPLES = 20, 2
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int32: "I32"}


def initial(name, shape, generator):
    """Large enough that every path has a gradient worth comparing."""
    is_gain = "ln_" in name and name.endswith("weight")
    return (is_gain + torch.randn(shape, generator=generator) * (0.1 if len(shape) > 1 else 0.2)).float()


def optimizer(kind, p):
    if kind == "adamw":
        return torch.optim.AdamW(groups(p, 0.1), lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    return torch.optim.SGD(groups(p, 1e-2), lr=0.1, momentum=0.9, nesterov=True)


def batch_losses(kind, p, batch):
    return token_losses(SHAPES[kind], p, batch[:, :-1].long(), batch[:, 1:].long())


def losses(kind, update, p, tokens):
    found = []
    for batch in tokens:
        update.zero_grad()
        loss = batch_losses(kind, p, batch).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0, foreach=False)
        update.step()
        found.append(loss.item())
    return torch.tensor(found, dtype=torch.float64)


def reference():
    generator = torch.Generator().manual_seed(20261129)
    plain = SHAPES["plain"]
    tokens = torch.randint(plain.vocabulary, (BATCHES, SAMPLES, plain.context + 1), generator=generator, dtype=torch.int32)
    parameters = {name: initial(name, shape, generator) for name, shape in plain.tensors()}
    out = {"tokens": tokens} | {"parameters." + name: value for name, value in parameters.items()}
    for kind, shape in SHAPES.items():
        def own():
            return {name: parameters[name].double().requires_grad_() for name, _ in shape.tensors()}
        p = own()
        each = batch_losses(kind, p, tokens[0])
        each.mean().backward()
        out[kind + ".token_losses"] = each.detach()
        out |= {f"{kind}.gradients.{name}": value.grad.float() for name, value in p.items()}
        for optimizer_kind in ("adamw", "sgd"):
            p = own()
            out[f"{kind}.{optimizer_kind}"] = losses(kind, optimizer(optimizer_kind, p), p, tokens)
    return out


def write(path, tensors):
    """As safetensors has it: the header's length, the header, the data without gaps."""
    header, end = {"__metadata__": {"torch": torch.__version__}}, 0
    for name, value in tensors.items():
        begin, end = end, end + value.numel() * value.element_size()
        header[name] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(value.contiguous().numpy().tobytes() for value in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    torch.set_num_threads(1)
    here = pathlib.Path(__file__).resolve().parents[1]
    write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "unit/trainer/gpt_reference.safetensors", reference())
