"""Bringing files of this machine to a daemon as an image of one layer."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from swe_plugin.environments.disk import disk_slot
from swe_plugin.environments.home import home
from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.environments.images.view import MergedView
from swe_plugin.environments.sandbox.builder import run_in_layers
from swe_plugin.types import Image

__all__ = ["exclusive", "import_archive", "import_image", "store_owner"]


@contextlib.contextmanager
def exclusive(name: str) -> Iterator[None]:
    """One process of this node at a time."""
    locks = home() / "docker"
    locks.mkdir(exist_ok=True)
    fd = os.open(locks / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def import_archive(api: Any, reference: str, write: Callable[[Path], None], changes: Sequence[str] = ()) -> None:
    """Make an image of one layer from the tar that `write` writes, unless it exists. It appears in one step."""
    with contextlib.suppress(ImageNotFound):
        api.inspect_image(reference)
        return
    repository, tag = reference.split(":")
    with disk_slot(), tempfile.TemporaryDirectory(dir=home()) as scratch:
        archive = Path(scratch) / "root.tar"
        write(archive)
        with archive.open("rb") as stream:
            api.import_image_from_data(stream, repository=repository, tag=tag, changes=list(changes))
    api.inspect_image(reference)


def import_image(api: Any, image: Image) -> tuple[str, dict[str, str]]:
    """What a sandbox would mount, without `image.files`, as one layer; and the variables that it sets."""
    store = ImageStore()
    layers = resolve(dataclasses.replace(image, files={}), owner=store_owner(), store=store, run=run_in_layers)
    try:
        text = "\n".join(_key(directory, store) for directory in layers.directories)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        reference = f"swe-plugin-base:{key}"
        with exclusive(key):
            import_archive(api, reference, lambda target: _pack(target, layers.view, image.workdir))
    finally:
        layers.release()
    return reference, dict(layers.env)


def store_owner() -> tuple[int, int]:
    """Whom the agent's files belong to on this machine."""
    return (1000, 1000) if os.geteuid() == 0 else (os.geteuid(), os.getegid())


def _key(directory: Path, store: ImageStore) -> str:
    """Name of a layer of the store; of another directory a digest of names, sizes and times."""
    if directory.parent == store.root:
        return directory.name
    digest = hashlib.sha256(str(directory).encode())
    for top, folders, files in os.walk(directory):
        folders.sort()
        for name in sorted(files):
            info = os.lstat(f"{top}/{name}")
            line = f"{top}/{name} {info.st_size} {info.st_mtime_ns} {info.st_mode}\n"
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _pack(target: Path, view: MergedView, workdir: str) -> None:
    """All of it; what belongs to the caller here belongs to root inside, but for the agent's directories."""
    with tarfile.open(target, "w") as archive:
        for inside, real in view.walk("/"):
            member = archive.gettarinfo(real, str(inside).lstrip("/"))
            if member is None:  # a socket
                continue
            if os.geteuid() != 0:
                member.uid = member.gid = 1000 if f"{inside}/".startswith((f"{workdir}/", "/home/agent/")) else 0
            member.uname = member.gname = ""
            if member.isreg():
                with real.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
