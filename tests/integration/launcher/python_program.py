"""A training script without a framework, for the tests: it counts steps, and tells and saves them as the example does.

Arguments: total steps, milliseconds a step, and how it goes: `on`; `asked`, until it has saved as checkpointNow wants it;
`leave`, with code 75 after ten steps; `hang`, where rank 1 does not come out of the tenth step of the first generation.
Ranks do not talk to each other: in `hang` rank 0 waits there, as it would for a collective.
"""

import pathlib
import sys
import time

CLIENT = pathlib.Path(__file__).resolve().parents[3] / "clients" / "python"
sys.path += [str(CLIENT), str(CLIENT / "examples")]
sys.dont_write_bytecode = True

import pawl
import states


def main():
    steps, seconds, manner = int(sys.argv[1]), int(sys.argv[2]) / 1000, sys.argv[3]
    job = pawl.job()
    folder = pathlib.Path(job.checkpoint_folder)
    state = states.newest(folder)
    first = int(state.read_text()) + 1 if state else 1
    pawl.should_stop()
    print(f"{job.name} rank {job.rank} of {job.world_size} in generation {job.generation} begins with {first}", flush=True)
    for step in range(first, steps + 1):
        pawl.phase("forward", step)
        time.sleep(seconds)
        if manner == "hang" and job.generation == 1 and step == 10:
            pawl.phase("forward" if job.rank == 1 else "reduce")
            while job.rank == 1 or not pawl.should_stop():
                time.sleep(0.05)
        pawl.phase("other")
        pawl.report(step, total_steps=steps, loss=1 / step, samples_per_second=5)
        must_save, must_stop = pawl.checkpoint_now(), pawl.should_stop() or (manner == "leave" and step == 10)
        if (must_save or must_stop) and job.rank == 0:
            states.save(folder, step, lambda file: file.write(b"%d" % step))
            print(f"saved step {step}, {'asked' if must_save else 'told to stop'}", flush=True)
        if must_stop:
            pawl.exit_saved()
        if must_save and manner == "asked":
            return


if __name__ == "__main__":
    main()
