"""torch_gpt.py made fault tolerant by torchft: torchft_gpt.py CONFIG.json STEPS. One process is one replica group.

RANK names the replica, TORCHFT_LIGHTHOUSE the lighthouse; TORCHFT_TIMEOUT_SEC is torchft's own, 60 by default. Prints "READY UNIX_TIME" when its imports are done and its model
is made, and "STEP n UNIX_TIME loss of REPLICAS rank RANK" after each step that was committed. A replica that is lost
takes its samples along: torchft keeps no global batch.
"""

import json
import os
import sys
import time
from datetime import timedelta

import torch
from torch import nn
from torch.distributed import TCPStore
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

from torch_gpt import Gpt, learning_rate

REPLICAS = 4  # with the samples of the whole batch between them


def make_manager(net, optimizer, rank):
    def load(state):
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    timeout = timedelta(seconds=int(os.environ.get("TORCHFT_TIMEOUT_SEC", "60")))
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    manager = Manager(pg=ProcessGroupGloo(timeout=timeout), load_state_dict=load,
                      state_dict=lambda: {"model": net.state_dict(), "optimizer": optimizer.state_dict()},
                      min_replica_size=REPLICAS - 1, rank=0, world_size=1, store_addr="localhost", store_port=store.port,
                      replica_id=f"gpt_{rank}", hostname="localhost")
    return manager, store


def main():
    config, steps, rank = json.load(open(sys.argv[1])), int(sys.argv[2]), int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.manual_seed(config["seed"])
    text = torch.from_file(config["data"]["paths"][0], size=4 << 20, dtype=torch.uint8)
    model = Gpt(config["model"])
    plain = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    print(f"READY {time.time():.4f}", flush=True)
    manager, _store = make_manager(model, plain, rank)
    net, optimizer = DistributedDataParallel(manager, model, gradient_as_bucket_view=True), Optimizer(manager, plain)
    generator = torch.Generator().manual_seed(config["seed"] + rank)
    samples, context = config["batch"]["global"] // REPLICAS, config["model"]["context"]
    while (step := manager.current_step()) < steps:
        starts = torch.randint(len(text) - context - 1, (samples,), generator=generator).tolist()
        ids = torch.stack([text[at:at + context + 1] for at in starts]).long()
        optimizer.zero_grad()
        loss = net(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step, steps)
        optimizer.step()
        if manager.current_step() > step:
            print(f"STEP {step + 1} {time.time():.4f} {loss.item():.4f} of {manager.num_participants()} rank {rank}", flush=True)


if __name__ == "__main__":
    main()
