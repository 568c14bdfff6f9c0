"""Bringing files of this machine to a daemon as an image of one layer."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from swe_plugin.environments.disk import disk_slot
from swe_plugin.environments.home import home
from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.environments.images.metered import OnRead
from swe_plugin.environments.images.sources import key_of
from swe_plugin.environments.images.view import MergedView
from swe_plugin.environments.sandbox.builder import run_in_layers
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

__all__ = ["exclusive", "import_archive", "import_from_daemon", "import_image", "store_owner"]


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
    with disk_slot(), ImageStore().scratch() as archive:
        write(archive)
        with archive.open("rb") as stream:
            api.import_image_from_data(stream, repository=reference, changes=list(changes))  # podman ignores `tag`
    api.inspect_image(reference)


def import_image(api: Any, image: Image, on_read: OnRead | None = None) -> tuple[str, dict[str, str]]:
    """What a sandbox would mount, without `image.files`, as one layer.

    Returns:
        The image's id, and the variables that it sets.
    """
    store, plain = ImageStore(), dataclasses.replace(image, files={})
    layers = resolve(plain, owner=store_owner(), store=store, run=run_in_layers, on_read=on_read)
    try:
        text = "\n".join(_key(directory, store) for directory in layers.directories)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        reference = f"swe-plugin-base:{key}"
        with exclusive(key):
            import_archive(api, reference, lambda target: _pack(target, layers.view, image.workdir))
    finally:
        layers.release()
    return str(api.inspect_image(reference)["Id"]), dict(layers.env)


def import_from_daemon(api: Any, source: str, image: Image) -> str:
    """The same for a reference that the daemon has: read from there, whatever its registry says today.

    Args:
        api: the SDK's `APIClient`.
        source: id of the image that `image.base` refers to.
        image: of the task.

    Returns:
        The id of what was made of it.
    """
    key = key_of("daemon-1", source, dataclasses.asdict(dataclasses.replace(image, base="", files={})), store_owner())
    with exclusive(key):
        with contextlib.suppress(ImageNotFound):
            return str(api.inspect_image(f"swe-plugin-base:{key}")["Id"])
        with ImageStore().scratch() as archive:
            with archive.open("wb") as file:
                file.writelines(api.get_image(source))
            try:
                made, _ = import_image(api, dataclasses.replace(image, base=f"oci:{archive}"))
            except EnvironmentStartError as error:
                raise EnvironmentStartError(str(error).replace(f"oci:{archive}", image.base)) from error
        api.tag(made, "swe-plugin-base", key)
    return made


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
            archive.members.clear()  # type: ignore[attr-defined]  # see `zygote.trees.entries`
