"""PyTorch that stays in memory when its gang changes: after a loss nobody reads what was saved.

Under Pawl: runtime: {kind: Torch, inPlace: true}, checkpoint: {uri: file:///data/checkpoints},
command: [python3, train_in_place.py, "1000"]; with spec.elastic also at another size. By hand: torchrun --nproc-per-node 2
train_in_place.py 1000. Gloo on CPUs, NCCL on GPUs.
"""

import io
import os
import pathlib
import sys

import torch
import torch.distributed as dist

import pawl
import states

# A lost peer ends this generation, and not the process, and nobody waits a minute for a dump before the group is gone.
NCCL = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "10", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}
BATCH = 96  # of a step, whatever the world size is: so that the curve does not depend on it


class State:
    """What a rank holds from one generation to the next."""

    def __init__(self, device):
        torch.manual_seed(1)
        nn = torch.nn
        self.device, self.step, self.loss, self.is_save_wanted = device, 0, None, False
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.01)

    def dump(self):
        return {"step": self.step, "loss": self.loss, "is_save_wanted": self.is_save_wanted, "model": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state):
        self.net.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.loss, self.is_save_wanted = state["step"], state["loss"], state["is_save_wanted"]


def take_start(gang, state, place, folder):
    """The state that all go on from: a rank's that lives, or what was saved."""
    if place.source >= 0:
        held = io.BytesIO()
        if place.rank == place.source:
            torch.save(state.dump(), held)
        box = [held.getvalue()]  # bytes: tensors would come on the GPU of the source's number
        dist.broadcast_object_list(box, src=place.source, device=state.device)
        gang.check()
        if not place.has_state:
            state.load(torch.load(io.BytesIO(box[0]), map_location=state.device))
    elif states.newest(folder):
        state.load(torch.load(states.newest(folder), map_location=state.device))
    # One may have seen the end of a save that another has not.
    wanted = torch.tensor(int(state.is_save_wanted), device=state.device)
    dist.all_reduce(wanted, op=dist.ReduceOp.MAX)
    is_wanted = bool(wanted.item())
    gang.check()
    state.is_save_wanted = is_wanted


def save_if_wanted(gang, state, place, folder):
    if not state.is_save_wanted:
        return
    if place.rank == 0:
        states.save(folder, state.step, lambda file: torch.save(state.dump(), file), pawl.job().checkpoint_keep)
    dist.barrier()
    gang.check()  # nobody goes on, or leaves, before it is saved
    state.is_save_wanted = False


class ProcessGroup:
    """Of one generation. Collectives on a GPU wait for ever for a rank that is gone: they have to be aborted."""

    def __init__(self, place, device):
        is_on_gpu = device.type == "cuda"
        dist.init_process_group("nccl" if is_on_gpu else "gloo", rank=place.rank, world_size=place.world_size,
                                init_method=f"tcp://{place.master_addr}:{place.master_port}")
        # Of this very group: when it is called late there may be the next one.
        self.abort = dist.group.WORLD._get_backend(device).abort if is_on_gpu else None

    def leave(self, is_at_end):
        if self.abort and not is_at_end:
            # As _abort_process_group's own words have it: with TORCH_NCCL_ASYNC_ERROR_HANDLING=0. destroy_process_group
            # would wait for work that a lost peer left undone.
            dist.distributed_c10d._abort_process_group()
        else:
            dist.destroy_process_group()


def train(gang, place, state, steps, folder):
    is_at_end, group = False, ProcessGroup(place, state.device)
    try:
        if group.abort:
            gang.abort_with(group.abort)
        take_start(gang, state, place, folder)
        gang.begin(state.step)
        print(f"rank {place.rank} of {place.world_size} goes on with step {state.step + 1}", flush=True)
        generator = torch.Generator()
        while state.step < steps:
            step = state.step + 1
            generator.manual_seed(step)
            inputs = torch.randn(BATCH, 16, generator=generator)
            mine = inputs[BATCH * place.rank // place.world_size:BATCH * (place.rank + 1) // place.world_size]
            mine = mine.to(state.device)
            loss = ((state.net(mine) - mine.sum(1, keepdim=True)) ** 2).sum() / BATCH
            state.optimizer.zero_grad(set_to_none=False)
            loss.backward()
            told = [loss.detach(), torch.tensor(float(pawl.should_stop()), device=state.device),
                    torch.tensor(float(pawl.checkpoint_now()), device=state.device)]
            flat = torch.cat([parameter.grad.reshape(-1) for parameter in state.net.parameters()] +
                             [number.reshape(1) for number in told])
            dist.all_reduce(flat)  # all of the step, or it fails, and nothing has changed
            at = 0
            for parameter in state.net.parameters():
                parameter.grad.copy_(flat[at:at + parameter.numel()].view_as(parameter))
                at += parameter.numel()
            loss, must_stop, must_save = flat[-3:].tolist()  # waits for the GPU
            gang.check()
            state.loss = loss
            state.is_save_wanted |= bool(must_stop or must_save or step % 100 == 0 or step == steps)
            state.optimizer.step()
            state.step = step
            pawl.report(step, steps, loss=state.loss)
            gang.applied(step)  # at once: what is told as held is what is held
            save_if_wanted(gang, state, place, folder)
            if must_stop:
                is_at_end = True
                pawl.exit_saved()
        save_if_wanted(gang, state, place, folder)
        dist.barrier()
        gang.check()
        is_at_end = True
    finally:
        group.leave(is_at_end)


def main():
    os.environ.update(NCCL)
    job, steps = pawl.job(), int(sys.argv[1])
    name = f"{job.name}-{job.uid[:8]}" if job.name else "local"
    folder = pathlib.Path(job.checkpoint_folder or "checkpoints") / name
    device = torch.device("cuda", job.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    state = State(device)
    pawl.should_stop()  # SIGTERM is caught from here on
    pawl.Gang().run(lambda gang, place: train(gang, place, state, steps, folder))
    print(f"done after {state.step} steps, loss {state.loss!r}", flush=True)


if __name__ == "__main__":
    main()
