"""Where kube-apiserver's processor time goes while something is measured: profiles of some seconds each, one after the other, for
`go tool pprof -top -cum DIR/NAME-*.pb.gz`. The server samples itself 100 times a second meanwhile, which costs it about 1 %."""

import concurrent.futures
import contextlib
import subprocess
import threading

SECONDS = 5
SERVER_FLAGS = ("--profiling=true",)


@contextlib.contextmanager
def profiles(plane, directory, name):
    """While the block runs; nothing where `directory` is none."""
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    is_over = threading.Event()

    def take_all():
        number = 0
        while not is_over.is_set():
            number += 1
            with open(directory / f"{name}-{number}.pb.gz", "wb") as file:
                subprocess.run([plane.kubernetes["kubectl"], f"--kubeconfig={plane.kubeconfig}", "get", "--raw",
                                f"/debug/pprof/profile?seconds={SECONDS}"], stdout=file, check=True)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(take_all)
        try:
            yield
        finally:
            is_over.set()
        done.result()
