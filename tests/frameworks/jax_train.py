"""JAX with one process a worker, which finds its coordinator and its place in the environment."""

import os
import time

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

import saved


def loss(weights, samples, targets):
    return jnp.mean((samples @ weights - targets) ** 2)


def main():
    # The coordinator's address it reads itself, from JAX_COORDINATOR_ADDRESS; these two it does not.
    jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
                               process_id=int(os.environ["JAX_PROCESS_ID"]), cluster_detection_method="deactivate")
    rank, world = jax.process_index(), jax.process_count()
    first, weights = saved.load(8)
    gradient = jax.jit(jax.grad(loss))
    saved.tell_start(rank, world, first)
    for step in range(first, saved.STEPS):
        gradients = multihost_utils.process_allgather(gradient(weights, *saved.batch(step, rank)))
        weights = weights - 0.01 * gradients.mean(0)
        if rank == 0 and (step + 1) % saved.EVERY == 0:
            saved.save(step + 1, weights)
        time.sleep(saved.PAUSE)
    saved.tell_end(rank, weights)


if __name__ == "__main__":
    main()
