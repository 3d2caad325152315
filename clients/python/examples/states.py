"""States of a training script as files of a folder. Copy it beside the script."""

import os


def save(folder, step, write, keep=3):
    """`write(file)` makes the state of this step. A reader finds all of it or nothing, whenever the power goes.

    Written beside and synced before it gets its name; then the folder, which holds the name, is synced, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*.tmp"):  # by one that was killed
        left.unlink()
    temporary = folder / f"step-{step:08d}.tmp"
    with open(temporary, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / f"step-{step:08d}.pt")
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    for old in sorted(folder.glob("step-*.pt"))[:-keep]:
        old.unlink()


def newest(folder):
    """The file of the newest state; None: there is none."""
    return max(folder.glob("step-*.pt"), default=None)
