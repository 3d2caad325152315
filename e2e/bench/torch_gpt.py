"""The byte-level GPT of our trainer in plain PyTorch with DistributedDataParallel, for side-by-side figures.

Run under torchrun: torch_gpt.py CONFIG.json STEPS. Rank 0 prints "STEP n UNIX_TIME" after each optimizer step. "device":
"cuda" in CONFIG spreads the ranks over the GPUs; where ranks share one, the gradients go over gloo, as NCCL has one rank
to a GPU.
"""

import json
import math
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        batch, time_steps, channels = x.shape
        split = (batch, time_steps, self.heads, channels // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time_steps, channels))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, model):
        super().__init__()
        channels, self.context = model["channels"], model["context"]
        self.tokens = nn.Embedding(256, channels)
        self.positions = nn.Embedding(self.context, channels)
        self.blocks = nn.ModuleList(Block(channels, model["heads"]) for _ in range(model["layers"]))
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, 256, bias=False)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, 256), targets.reshape(-1))


def learning_rate(config, step, steps):
    warmup = config["schedule"].get("warmup_steps", 0)
    peak = config["optimizer"]["learning_rate"]
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def main():
    config, steps = json.load(open(sys.argv[1])), int(sys.argv[2])
    torch.set_num_threads(1)
    device, backend = torch.device("cpu"), "gloo"
    if config.get("device") == "cuda":  # all ranks are on this machine
        gpus, ranks = torch.cuda.device_count(), int(os.environ["WORLD_SIZE"])
        device, backend = torch.device("cuda", int(os.environ["RANK"]) % gpus), "nccl" if gpus >= ranks else "gloo"
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(config["seed"])
    text = torch.from_file(config["data"]["paths"][0], size=4 << 20, dtype=torch.uint8)
    net = nn.parallel.DistributedDataParallel(Gpt(config["model"]).to(device), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    generator = torch.Generator().manual_seed(config["seed"] + rank)
    samples, context = config["batch"]["global"] // world, config["model"]["context"]
    for step in range(steps):
        starts = torch.randint(len(text) - context - 1, (samples,), generator=generator).tolist()
        ids = torch.stack([text[at:at + context + 1] for at in starts]).long().to(device)
        loss = net(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step, steps)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"STEP {step + 1} {time.time():.4f} {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
