"""A driver of Ray, which finds its cluster in the environment: one actor on each node computes gradients."""

import time

import numpy
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import saved

WORLD = 2


@ray.remote(num_cpus=1)
class Worker:
    def __init__(self, rank):
        self.rank = rank

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def gradient(self, step, weights):
        samples, targets = saved.batch(step, self.rank)
        return 2 * samples.T @ (samples @ weights - targets) / len(targets)


def main():
    ray.init()
    places = placement_group([{"CPU": 1}] * WORLD, strategy="STRICT_SPREAD")
    ray.get(places.ready())
    workers = [Worker.options(scheduling_strategy=PlacementGroupSchedulingStrategy(places, rank)).remote(rank)
               for rank in range(WORLD)]
    assert len(set(ray.get([worker.node.remote() for worker in workers]))) == WORLD
    first, weights = saved.load(8)
    for rank in range(WORLD):
        saved.tell_start(rank, WORLD, first)
    for step in range(first, saved.STEPS):
        gradients = ray.get([worker.gradient.remote(step, weights) for worker in workers])
        weights = (weights - 0.01 * numpy.mean(gradients, axis=0)).astype(numpy.float32)
        if (step + 1) % saved.EVERY == 0:
            saved.save(step + 1, weights)
        time.sleep(saved.PAUSE)
    for rank in range(WORLD):
        saved.tell_end(rank, weights)


if __name__ == "__main__":
    main()
