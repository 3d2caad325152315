"""Writes container images of one layer as docker archives, without a container tool.

For images that hold a few files and run no command at build time. The output is the same
for the same input, byte by byte, so an unchanged image is never imported twice.
"""

import dataclasses
import hashlib
import io
import json
import pathlib
import tarfile


@dataclasses.dataclass(frozen=True)
class File:
    """One entry of the image: bytes of `source`, or a link to `link`."""
    path: str
    source: pathlib.Path = None
    link: str = ""
    mode: int = 0o755


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


def _layer(files) -> bytes:
    buffer = io.BytesIO()
    folders = set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        def add_folder(path: str, mode: int = 0o755) -> None:
            if path and path not in folders:
                add_folder(path.rpartition("/")[0])
                folders.add(path)
                info = tarfile.TarInfo(path)
                info.type, info.mode = tarfile.DIRTYPE, mode
                tar.addfile(info)

        add_folder("tmp", 0o1777)
        for file in files:
            path = file.path.strip("/")
            add_folder(path.rpartition("/")[0])
            if file.link:
                info = tarfile.TarInfo(path)
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, file.link, 0o777
                tar.addfile(info)
            else:
                _add(tar, path, pathlib.Path(file.source).read_bytes(), file.mode)
    return buffer.getvalue()


def write_image(target: pathlib.Path, tag: str, files, entrypoint) -> pathlib.Path:
    """`target` is a docker archive of the image `tag`; replaced only if its bytes change."""
    layer = _layer(files)
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
        "config": {"Entrypoint": list(entrypoint), "WorkingDir": "/",
                   "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": "1970-01-01T00:00:00Z"}],
    }, sort_keys=True).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, config_name, config)
        _add(tar, f"{digest}/layer.tar", layer)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_bytes() != buffer.getvalue():
        partial = target.with_name(f".{target.name}.{id(buffer)}")
        partial.write_bytes(buffer.getvalue())
        partial.rename(target)
    return target


def image_of_archive(archive: pathlib.Path) -> tuple:
    """(image id, tags) of a docker archive, or ("", []) for another kind of file."""
    try:
        with tarfile.open(archive) as tar:
            entry = json.load(tar.extractfile("manifest.json"))[0]
    except (KeyError, tarfile.TarError, TypeError, ValueError):
        return "", []
    return pathlib.PurePath(entry["Config"]).name.removesuffix(".json"), entry["RepoTags"] or []
