#!/usr/bin/env python3
"""A run of pawl-train's in PyTorch, from its configuration: torch_run.py CONFIG. One process, fp32, text read byte by byte; parameters,
order of samples, schedule, clipping, AdamW and validation as pawl-train has them. Prints {"losses": [one a step], "validation": nats}.
"""

import json
import math
import pathlib
import sys

import numpy
import torch
from torch_gpt import Shape, groups, token_losses

ROUNDS = 6


def mix64(value):
    """SplitMix64's finaliser (common/base/random.h) of an array of 64-bit numbers."""
    def mixed(value, shift):
        return value ^ value >> numpy.uint64(shift)
    value = value + numpy.uint64(0x9E3779B97F4A7C15)
    value = mixed(value, 30) * numpy.uint64(0xBF58476D1CE4E5B9)
    return mixed(mixed(value, 27) * numpy.uint64(0x94D049BB133111EB), 31)


def keyed_random(*keys):
    value = numpy.zeros(1, dtype=numpy.uint64)
    for key in (*keys, 0):
        value = mix64(value ^ numpy.uint64(key))
    return value


def initial(shape, seed):
    """models::initialise: a sum of four uniform numbers of 16 bits, by seed and position."""
    p = {}
    for index, (name, size) in enumerate(shape.tensors()):
        if len(size) == 1:
            value = numpy.full(size, float("ln_" in name and name.endswith("weight")))
        else:
            deviation = 0.02 / math.sqrt(2 * shape.layers) if name.endswith("c_proj.weight") else 0.02
            bits = mix64(keyed_random(seed, 0x696E6974, index) + numpy.arange(math.prod(size), dtype=numpy.uint64))
            total = sum((bits >> numpy.uint64(shift) & numpy.uint64(0xFFFF)).astype(numpy.int64) for shift in (0, 16, 32, 48))
            value = ((total - 131070) * (deviation / (65536 / math.sqrt(3)))).reshape(size)
        p[name] = torch.tensor(value.astype(numpy.float32), requires_grad=True)
    return p


def order(samples, seed, epoch):
    """The samples of an epoch: data::Permutation, a Feistel network that is walked until it falls inside."""
    half = next(bits for bits in range(1, 33) if bits == 32 or 1 << 2 * bits >= samples)
    key, mask, bits = keyed_random(seed, 0x6F72646572, epoch), numpy.uint64((1 << half) - 1), numpy.uint64(half)
    at = numpy.arange(samples, dtype=numpy.uint64)
    outside = numpy.full(samples, True)
    while outside.any():
        left, right = at[outside] >> bits, at[outside] & mask
        for round_number in range(ROUNDS):
            left, right = right, left ^ mix64(key ^ numpy.uint64(round_number << 40) ^ right) & mask
        at[outside] = left << bits | right
        outside = at >= samples
    return at.astype(numpy.int64)


def learning_rate(config, step):
    """Cosine after a warm-up in steps."""
    schedule, peak, last = config["schedule"], config["optimizer"]["learning_rate"], config["steps"] - 1
    warm_up, least = schedule["warmup_steps"], schedule["final_fraction"]
    if step < warm_up:
        return peak * (step + 1) / warm_up
    height = (1 + math.cos(math.pi * (step - warm_up) / (last - warm_up))) / 2
    return peak * (least + (1 - least) * height)


class Text:
    def __init__(self, config):
        text = b"".join(pathlib.Path(path).read_bytes() for path in config["data"]["paths"])
        self.tokens = torch.tensor(numpy.frombuffer(text, dtype=numpy.uint8).astype(numpy.int64))
        self.context = config["model"]["context"]
        self.training = len(text) - int(len(text) * config["data"]["validation_fraction"])

    def samples(self, indices, begin=0):
        """Inputs and targets."""
        at = begin + torch.as_tensor(indices)[:, None] * self.context + torch.arange(self.context + 1)
        return self.tokens[at][:, :-1], self.tokens[at][:, 1:]

    def counts(self):
        """Of training samples and of those held out."""
        return (self.training - 1) // self.context, (len(self.tokens) - self.training - 1) // self.context


def run(config):
    batch, shape, text = config["batch"], Shape(**config["model"]), Text(config)
    p = initial(shape, config["seed"])
    optimizer = config["optimizer"]
    update = torch.optim.AdamW(groups(p, optimizer["weight_decay"]), betas=(optimizer["beta1"], optimizer["beta2"]), eps=1e-8)
    training, held_out = text.counts()
    orders, losses = {}, []
    for step in range(config["steps"]):
        for group in update.param_groups:
            group["lr"] = learning_rate(config, step)
        cursors = range(step * batch["global"], (step + 1) * batch["global"])
        for epoch in {cursor // training for cursor in cursors} - set(orders):
            orders[epoch] = order(training, config["seed"], epoch)
        loss = token_losses(shape, p, *text.samples([orders[cursor // training][cursor % training] for cursor in cursors])).mean()
        update.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), optimizer["clip_norm"])
        update.step()
        losses.append(loss.item())
    wanted = min(held_out, config["validate_batches"] * batch["micro"])
    with torch.no_grad():
        tried = [token_losses(shape, p, *text.samples([i * held_out // wanted], text.training)).mean().item() for i in range(wanted)]
    return {"losses": losses, "validation": sum(tried) / wanted}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(run(json.loads(pathlib.Path(sys.argv[1]).read_text()))))
