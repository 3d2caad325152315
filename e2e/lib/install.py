"""Cluster up, images built and loaded, chart installed, shared volume filled: what a new user does by hand."""

import os
import pathlib
import shutil
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib.kube import CLUSTER, ROOT, cluster, run

sys.path.insert(0, str(CLUSTER.parent))
import layout  # noqa: E402

METADATA_PORT = 18169  # on this machine: where a scenario may play the cloud's metadata service

IMAGES = {target: f"localhost/pawl-{target}:e2e" for target in ("operator", "launcher", "worker")}


def bring_up(is_newest=False):
    timed("cluster up", lambda: cluster("up", *(["--newest"] if is_newest else []), timeout=600))
    timed("images", build_images)
    timed("helm install", helm_install)


def timed(what, action):
    start = time.monotonic()
    action()
    print(f"       {what}: {time.monotonic() - start:.1f} s", flush=True)


def build_images():
    script = CLUSTER.parent / "images.py"
    for target, tag in IMAGES.items():
        run(sys.executable, script, "build", "--target", target, "--tag", tag, "--load", timeout=2400)
    run(sys.executable, script, "foreign", "--load", timeout=600)


def helm_install():
    helm("install", "--create-namespace")


def helm(verb, *options):
    cluster("helm", verb, "pawl", ROOT / "charts" / "pawl", "-n", "pawl-system", "--wait", "--timeout", "120s", *options,
            "--set", f"image.operator={IMAGES['operator']}", "--set", f"image.launcher={IMAGES['launcher']}",
            "--set", f"image.worker={IMAGES['worker']}",
            "--set", f"interruptions.metadata=http://{host_ip()}:{METADATA_PORT}", timeout=180)


def host_ip():
    return layout.Layout.load(layout.default_state_dir()).host_ip


def shared_volume(namespace, with_text=True):
    """A claim `pawl-data` in the namespace that every node sees; returns its folder on this machine."""
    folder = pathlib.Path(cluster("volume", "pawl-data", namespace).stdout.strip().splitlines()[-1])
    if with_text:
        (folder / "text").mkdir(exist_ok=True)
        source = pathlib.Path(run(ROOT / "tools" / "demo_text.sh").stdout.strip())
        target = folder / "text" / "gcide.txt"
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)
        os.chmod(folder / "text", 0o755)
        os.chmod(target, 0o644)
    return folder


def main():
    """Pawl on the cluster that is up, for trying by hand."""
    timed("images", build_images)
    timed("helm install", helm_install)
    folder = shared_volume("default")
    print(f"       the claim pawl-data of the namespace default is {folder}")


if __name__ == "__main__":
    main()
