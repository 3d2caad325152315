#!/usr/bin/env python3
"""Builds the container images of the tests, without Docker and without a registry.

  images.py build --target operator --tag localhost/pawl-operator:e2e [--load]
  images.py foreign [--load]
  images.py prepare

`build` runs the repository's Dockerfile by buildah; `foreign` makes the two images that
share no library with ours. Each prints the path of the archive. --load also imports it
into the nodes of the cluster that is up; an image that they have is not loaded again.
`prepare` makes only the layers below our own code, which the next `build` finds.
"""

import argparse
import contextlib
import fcntl
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import layout as names
from addons import compile_static
from archive import File, write_image
from process import run
from testbed import Cluster

ROOT = names.HERE.parents[1]
BASE_IMAGE = "docker.io/library/debian:bookworm-slim"
MUSL_LOADER = pathlib.Path("/lib/ld-musl-x86_64.so.1")


@contextlib.contextmanager
def build_lock():
    """One build at a time: the layers of the first are the cache of the second."""
    file = names.cache_dir() / "images.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def debian_mirror() -> str:
    """The one that this machine installs from."""
    lines = run("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages")
    for line in lines.splitlines():
        codename, _, uri = line.partition(" ")
        if codename == "bookworm":
            return uri
    raise SystemExit("no apt source for bookworm is configured")


def ensure_base_image() -> None:
    """Debian as its own installer lays it, under the name that the Dockerfile asks for: the
    build then is the same as with the published image and needs no registry."""
    if image_id(BASE_IMAGE):
        return
    archive = names.cache_dir() / "base" / "bookworm-minbase-2.tar"
    if not archive.exists():
        make_base_archive(archive)
    container = run("buildah", "from", "scratch").strip()
    try:
        run("buildah", "add", container, archive, "/")
        run("buildah", "config", "--cmd", "bash", "--env",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
        run("buildah", "commit", "--quiet", container, BASE_IMAGE)
    finally:
        run("buildah", "rm", container)


def make_base_archive(archive: pathlib.Path) -> None:
    print("images: making the Debian base image", file=sys.stderr)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        root, partial = pathlib.Path(folder) / "root", pathlib.Path(folder) / "partial.tar"
        run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root, debian_mirror())
        (root / "etc/apt/apt.conf.d/no-date-check").write_text('Acquire::Check-Valid-Until "false";\n')
        shutil.rmtree(root / "var/cache/apt/archives")
        # As in the published image, which comes without lists.
        shutil.rmtree(root / "var/lib/apt/lists")
        (root / "var/lib/apt/lists/partial").mkdir(parents=True)
        (root / "var/cache/apt/archives/partial").mkdir(parents=True)
        run("tar", "--numeric-owner", "--exclude=./dev/*", "-cf", partial, "-C", root, ".")
        partial.rename(archive)


def image_id(name: str) -> str:
    result = subprocess.run(["buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", name],
                            capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


def build(target: str, tag: str, context: pathlib.Path = ROOT) -> pathlib.Path:
    """The archive of the Dockerfile's `target`."""
    run_dockerfile(target, tag, context)
    return export(tag)


def run_dockerfile(target: str, tag: str, context: pathlib.Path = ROOT) -> None:
    """The compiler cache and the downloaded packages are folders of ours that every build gets, so a cold layer costs no
    compiling."""
    mounts = []
    for folder, inside in (("ccache", "/ccache"), ("apt-archives", "/var/cache/apt/archives")):
        (names.cache_dir() / folder).mkdir(parents=True, exist_ok=True)
        mounts += ["--volume", f"{names.cache_dir() / folder}:{inside}:rw"]
    with build_lock():
        ensure_base_image()
        # crun does not run under hybrid cgroups; a chroot is enough isolation for our own file.
        command = ["buildah", "bud", "--isolation=chroot", "--network", "host", "--layers", "--pull-never",
                   "--target", target, "--tag", tag, *mounts, str(context)]
        if subprocess.run(["nice", "-n", "10", *command], stdout=sys.stderr, check=False).returncode:
            raise SystemExit(f"images: building {target} failed, see above")


def export(tag: str) -> pathlib.Path:
    """One archive per tag; its name tells which image it holds."""
    folder = names.cache_dir() / "images"
    stem = "".join(c if c.isalnum() else "-" for c in tag)
    archive = folder / f"{stem}.{image_id(tag)[:16]}.tar"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{stem}.*.tar"):
            old.unlink()
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        run("buildah", "push", "--quiet", tag, f"docker-archive:{partial}:{tag}")
        partial.rename(archive)
    return archive


def foreign() -> list:
    """A program of its own C library: one image with nothing but a static binary, and one with
    musl, where even a program of ours that is linked dynamically would not start by itself."""
    folder, source = names.cache_dir() / "images", names.HERE / "foreign" / "mesh.c"
    busybox = next(p for p in (pathlib.Path("/bin/busybox"), pathlib.Path("/usr/bin/busybox")) if p.exists())
    static = compile_static(source)
    musl = compile_static(source, "musl-gcc", ("-dynamic",))
    return [
        write_image(folder / "foreign-scratch.tar", "localhost/pawl-foreign-scratch:e2e",
                    [File("mesh", static)], ["/mesh"]),
        write_image(folder / "foreign-musl.tar", "localhost/pawl-foreign-musl:e2e",
                    [File("mesh", musl), File("lib/ld-musl-x86_64.so.1", musl_loader()),
                     File("bin/busybox", busybox), File("bin/sh", link="/bin/busybox")], ["/mesh"]),
    ]


def musl_loader() -> pathlib.Path:
    """Loader and C library are one file in musl."""
    if not MUSL_LOADER.exists():
        raise SystemExit(f"{MUSL_LOADER} is missing: install the packages of apt-packages.txt")
    return MUSL_LOADER.resolve()


def load(archives) -> None:
    cluster = Cluster.load(names.default_state_dir())
    for archive in archives:
        begin = time.monotonic()
        how = "loaded" if cluster.load_image(archive) else "already loaded"
        print(f"images: {archive.name}: {how} in {time.monotonic() - begin:.1f} s", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    builder = verbs.add_parser("build", help="a target of the repository's Dockerfile")
    builder.add_argument("--target", required=True)
    builder.add_argument("--tag", required=True)
    builder.add_argument("--context", type=pathlib.Path, default=ROOT, help="folder of the Dockerfile")
    verbs.add_parser("prepare", help="the layers below our own code")
    for verb in (builder, verbs.add_parser("foreign", help="images that share nothing with ours")):
        verb.add_argument("--load", action="store_true", help="into the cluster that is up")
    options = parser.parse_args()
    if options.verb == "prepare":
        return run_dockerfile("setup", "localhost/pawl-setup:e2e")
    if options.verb == "build":
        archives = [build(options.target, options.tag, options.context)]
    else:
        archives = foreign()
    if options.load:
        load(archives)
    for archive in archives:
        print(archive)


if __name__ == "__main__":
    main()
