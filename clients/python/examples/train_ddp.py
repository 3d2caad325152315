"""Plain PyTorch with DistributedDataParallel that reports, saves, stops when told, and goes on where it was.

Under Pawl: runtime: {kind: Torch}, checkpoint: {uri: file:///data/checkpoints}, command: [python3, train_ddp.py, "1000"]
By hand: torchrun --nproc-per-node 2 train_ddp.py 1000. The imports stand at the top, where a process that stands by finds them.
"""

import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import pawl
from states import newest, save


def main():
    job, steps = pawl.job(), int(sys.argv[1])
    # Jobs may share the folder, and one that is made anew begins anew.
    name = f"{job.name}-{job.uid[:8]}" if job.name else "local"
    folder = pathlib.Path(job.checkpoint_folder or "checkpoints") / name
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", job.local_rank) if has_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if has_gpu else "gloo")
    torch.manual_seed(1)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)).to(device))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    first = 1
    if newest(folder):
        state = torch.load(newest(folder), map_location=device)
        net.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    dist.barrier()  # nobody saves before all have read the same file
    pawl.should_stop()  # SIGTERM is caught from here on
    print(f"rank {job.rank} of {job.world_size} begins with step {first}", flush=True)

    generator, batch = torch.Generator(), 32
    for step in range(first, steps + 1):
        began = time.monotonic()
        pawl.phase("data", step)
        generator.manual_seed(step * job.world_size + job.rank)  # the same samples after a restart
        inputs = torch.randn(batch, 16, generator=generator).to(device)
        pawl.phase("forward")
        loss = nn.functional.mse_loss(net(inputs), inputs.sum(1, keepdim=True))
        pawl.phase("reduce")  # DDP waits for the other ranks in backward
        loss.backward()
        # All decide alike, and in the same step.
        wishes = torch.tensor([pawl.should_stop(), pawl.checkpoint_now()], dtype=torch.int32, device=device)
        dist.all_reduce(wishes, op=dist.ReduceOp.MAX)
        must_stop, must_save = wishes.tolist()
        pawl.phase("optimizer")
        optimizer.step()
        optimizer.zero_grad()
        pawl.phase("other")  # a collective, storage: no hurry from here on
        rate = batch * job.world_size / (time.monotonic() - began)
        pawl.report(step, steps, loss=loss.item() if step % 10 == 0 else None, samples_per_second=rate)
        if must_stop or must_save or step % 100 == 0 or step == steps:
            if job.rank == 0:
                state = {"step": step, "model": net.module.state_dict(), "optimizer": optimizer.state_dict()}
                save(folder, step, lambda file: torch.save(state, file), job.checkpoint_keep)
            dist.barrier()  # nobody leaves before it is saved
        if must_stop:
            pawl.exit_saved()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
