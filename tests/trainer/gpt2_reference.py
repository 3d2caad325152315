"""GPT-2 as transformers has it, for real_data.py: gpt2_reference.py make FOLDER, or gpt2_reference.py compare FOLDER EXPORTED TEXT CONTEXT.

make: a small random model in FOLDER/tied, in one file; another with an output layer of its own in FOLDER/untied, in several.
compare: as JSON, the model's loss in nats on what pawl-train holds out of the text, and how far apart the two models' logits are at most.
"""

import json
import pathlib
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def make(folder):
    for name, how in {"tied": {}, "untied": {"max_shard_size": "100KB"}}.items():
        torch.manual_seed(7)
        model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=256, n_positions=64, tie_word_embeddings=name == "tied"))
        with torch.no_grad():  # biases and gains are 0 and 1 at first, which would hide one in the wrong place
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(pathlib.Path(folder) / name, **how)


def compare(folder, exported, text, context):
    ours, theirs = (GPT2LMHeadModel.from_pretrained(path).eval().float() for path in (exported, folder))
    data, context = pathlib.Path(text).read_bytes(), int(context)
    held_out = data[len(data) - len(data) // 10:]
    count = (len(held_out) - 1) // context
    inputs, targets = (torch.tensor(list(held_out[first:first + count * context])).view(count, context) for first in (0, 1))
    with torch.no_grad():
        wanted, got = theirs(inputs).logits, ours(inputs).logits
    loss = torch.nn.functional.cross_entropy(wanted.double().flatten(0, 1), targets.flatten())
    print(json.dumps({"loss": loss.item(), "targets": targets.numel(), "difference": (wanted - got).abs().max().item()}))


if __name__ == "__main__":
    {"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
