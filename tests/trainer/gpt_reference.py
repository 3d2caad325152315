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
import torch.nn.functional as functional

VOCABULARY, LAYERS, HEADS, CHANNELS, CONTEXT, BATCHES, SAMPLES = 97, 2, 4, 32, 16, 20, 2
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int32: "I32"}


def shapes():
    yield "transformer.wte.weight", (VOCABULARY, CHANNELS)
    yield "transformer.wpe.weight", (CONTEXT, CHANNELS)
    for layer in range(LAYERS):
        block = f"transformer.h.{layer}."
        for norm in ("ln_1", "ln_2"):
            yield f"{block}{norm}.weight", (CHANNELS,)
            yield f"{block}{norm}.bias", (CHANNELS,)
        for name, inputs, outputs in (("attn.c_attn", CHANNELS, 3 * CHANNELS), ("attn.c_proj", CHANNELS, CHANNELS),
                                      ("mlp.c_fc", CHANNELS, 4 * CHANNELS), ("mlp.c_proj", 4 * CHANNELS, CHANNELS)):
            yield f"{block}{name}.weight", (inputs, outputs)
            yield f"{block}{name}.bias", (outputs,)
    yield "transformer.ln_f.weight", (CHANNELS,)
    yield "transformer.ln_f.bias", (CHANNELS,)
    yield "lm_head.weight", (VOCABULARY, CHANNELS)


def initial(name, shape, generator):
    """Large enough that every path has a gradient worth comparing."""
    is_gain = "ln_" in name and name.endswith("weight")
    return (is_gain + torch.randn(shape, generator=generator) * (0.1 if len(shape) > 1 else 0.2)).float()


def token_losses(p, batch):
    """GPT-2: layer norms before attention and before the MLP, gelu by tanh, weights of linear layers [inputs, outputs]."""
    inputs, targets = batch[:, :-1].long(), batch[:, 1:].long()
    x = p["transformer.wte.weight"][inputs] + p["transformer.wpe.weight"]

    def norm(name, x):
        return functional.layer_norm(x, (CHANNELS,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def linear(name, x):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    for layer in range(LAYERS):
        block = f"transformer.h.{layer}."
        qkv = linear(block + "attn.c_attn", norm(block + "ln_1", x))
        q, k, v = (part.view(SAMPLES, CONTEXT, HEADS, -1).transpose(1, 2) for part in qkv.split(CHANNELS, dim=2))
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(block + "attn.c_proj", attention.transpose(1, 2).reshape(x.shape))
        up = functional.gelu(linear(block + "mlp.c_fc", norm(block + "ln_2", x)), approximate="tanh")
        x = x + linear(block + "mlp.c_proj", up)
    head = p.get("lm_head.weight", p["transformer.wte.weight"])
    logits = norm("transformer.ln_f", x) @ head.T
    return functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")


def optimizer(kind, p):
    matrices = [value for value in p.values() if value.dim() > 1]
    vectors = [value for value in p.values() if value.dim() == 1]
    if kind == "adamw":
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    groups = [{"params": matrices, "weight_decay": 1e-2}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)


def losses(kind, parameters, tokens):
    p = {name: value.double().requires_grad_() for name, value in parameters.items()}
    update, found = optimizer(kind, p), []
    for batch in tokens:
        update.zero_grad()
        loss = token_losses(p, batch).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0, foreach=False)
        update.step()
        found.append(loss.item())
    return torch.tensor(found, dtype=torch.float64)


def reference():
    generator = torch.Generator().manual_seed(20261129)
    out = {"tokens": torch.randint(VOCABULARY, (BATCHES, SAMPLES, CONTEXT + 1), generator=generator, dtype=torch.int32)}
    parameters = {name: initial(name, shape, generator) for name, shape in shapes()}
    out |= {"parameters." + name: value for name, value in parameters.items()}
    for kind in ("plain", "tied"):
        own = {name: value for name, value in parameters.items() if kind == "plain" or name != "lm_head.weight"}
        p = {name: value.double().requires_grad_() for name, value in own.items()}
        each = token_losses(p, out["tokens"][0])
        each.mean().backward()
        out[kind + ".token_losses"] = each.detach()
        out |= {f"{kind}.gradients.{name}": value.grad.float() for name, value in p.items()}
        for optimizer_kind in ("adamw", "sgd"):
            out[f"{kind}.{optimizer_kind}"] = losses(optimizer_kind, own, out["tokens"])
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
