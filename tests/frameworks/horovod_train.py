"""Horovod over PyTorch, under mpirun: its optimizer reduces the gradients."""

import time

import horovod.torch as hvd
import torch

import saved


def main():
    hvd.init()
    rank, world = hvd.rank(), hvd.size()
    first, weights = saved.load((1, 8))
    layer = torch.nn.Linear(8, 1, bias=False)
    layer.weight.data = torch.from_numpy(weights)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.01),
                                         named_parameters=layer.named_parameters())
    saved.tell_start(rank, world, first)
    for step in range(first, saved.STEPS):
        samples, targets = (torch.from_numpy(array) for array in saved.batch(step, rank))
        (layer(samples).squeeze(1) - targets).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and (step + 1) % saved.EVERY == 0:
            saved.save(step + 1, layer.weight.detach().numpy())
        time.sleep(saved.PAUSE)
    saved.tell_end(rank, layer.weight.detach().numpy())
    hvd.shutdown()


if __name__ == "__main__":
    main()
