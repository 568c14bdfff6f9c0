"""From an `Image` to an image of the daemon: the same files, owners and commit as in a sandbox."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError, ImageNotFound

from swe_plugin.environments.docker.reaper import LABEL, remove_container
from swe_plugin.environments.home import home
from swe_plugin.environments.images import ImageStore, check_image, resolve
from swe_plugin.environments.images.repository import build_repository, repository_key
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

__all__ = ["Prepared", "check_reference", "exclusive", "import_archive", "prepare"]

_AGENT = "1000:1000"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image of the daemon: its id, the user that commands run as, and the variables that it sets."""

    id: str
    user: str
    env: dict[str, str]


def check_reference(image: Image) -> None:
    """Whether an image can be had from a daemon, as far as its name tells.

    Raises:
        EnvironmentStartError: it cannot; names it and the fix.
    """
    kind, _, rest = image.base.partition(":")
    if kind == "oci":
        raise EnvironmentStartError(f"image {image.base!r}: docker load -i {rest}, then use docker:<reference>")
    if kind == "docker" and not rest:
        raise EnvironmentStartError(f"image {image.base!r}: names no reference, as in docker:python:3.11")
    check_image(image if kind != "docker" else dataclasses.replace(image, base="host"))


def prepare(
    api: Any, lease: str, machine: str, image: Image, home_directory: str, user: str = "", pull: str = "never"
) -> Prepared:
    """Build or find what a container of `image` starts from. Blocking; built once per daemon.

    Args:
        api: the SDK's `APIClient`.
        lease: id of the lease of containers made on the way.
        machine: architecture of the daemon.
        image: of the task.
        home_directory: ``HOME`` of the agent, made if the image has none.
        user: ``uid:gid``; default the image's own for ``docker:``, else 1000:1000.
        pull: ``missing`` fetches a ``docker:`` reference that is not there, ``never`` refuses.

    Raises:
        EnvironmentStartError: the image cannot be had; the message names it and the fix.
    """
    check_reference(image)
    kind, _, rest = image.base.partition(":")
    base = _reference(api, rest, pull) if kind == "docker" else _import_directory(api, image)
    found = api.inspect_image(base)
    if (theirs := found["Architecture"]) != machine:
        raise EnvironmentStartError(
            f"image {image.base!r}: wrong architecture: it is for {theirs}, the daemon runs on {machine}: "
            f"docker pull --platform linux/{machine} {rest}, or build it for that"
        )
    config = found.get("Config") or {}
    user = user or (_AGENT if kind != "docker" else config.get("User") or "0:0")
    env = dict(word.split("=", 1) for word in config.get("Env") or ())
    if not image.files and user.split(":")[0] in {"0", "root"}:
        return Prepared(found["Id"], user, env)
    return Prepared(_with_files(api, lease, found["Id"], image, home_directory, user), user, env)


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
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        archive = Path(scratch) / "root.tar"
        write(archive)
        with archive.open("rb") as stream:
            api.import_image_from_data(stream, repository=repository, tag=tag, changes=list(changes))
    api.inspect_image(reference)


def _reference(api: Any, reference: str, pull: str) -> str:
    try:
        api.inspect_image(reference)
    except ImageNotFound:
        if pull != "missing":
            raise EnvironmentStartError(
                f"image 'docker:{reference}' is not on the daemon: docker pull {reference}, or set "
                "swe.environment.options.pull=missing"
            ) from None
        repository, _, tag = (
            reference.rpartition(":") if ":" in reference.rpartition("/")[2] else (reference, "", "latest")
        )
        try:
            api.pull(repository, tag=tag)
        except APIError as error:
            reason = str(error.explanation or error).strip()
            raise EnvironmentStartError(f"image 'docker:{reference}' cannot be fetched: {reason}") from error
    return reference


def _import_directory(api: Any, image: Image) -> str:
    """A directory that the sandbox would mount, as an image."""
    layers = resolve(dataclasses.replace(image, files={}), owner=(os.geteuid(), os.getegid()))
    directory = layers.directories[-1]
    key = directory.name if image.base == "host" else _listing_key(directory)
    reference = f"swe-plugin-base:{key}"
    with exclusive(key):
        import_archive(api, reference, lambda target: _pack(target, directory))
    return reference


def _listing_key(directory: Path) -> str:
    """Digest of names, sizes and times: a directory that changes becomes another image."""
    digest = hashlib.sha256(str(directory).encode())
    for top, folders, files in os.walk(directory):
        folders.sort()
        for name in sorted(files):
            info = os.lstat(f"{top}/{name}")
            digest.update(
                f"{top}/{name} {info.st_size} {info.st_mtime_ns} {info.st_mode}\n".encode(errors="surrogateescape")
            )
    return digest.hexdigest()[:32]


def _pack(target: Path, directory: Path) -> None:
    """The whole directory; what belongs to the caller here belongs to root inside, except the agent's home."""

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        if os.geteuid() != 0:
            member.uid = member.gid = 1000 if f"{member.name}/".startswith("./home/agent/") else 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(target, "w") as archive:
        archive.add(directory, ".", filter=owned)


def _with_files(api: Any, lease: str, base: str, image: Image, home_directory: str, user: str) -> str:
    """The base with the task's repository and a home directory on top: one more layer, committed under a digest."""
    uid, gid = _numbers(user)
    store_owner = (1000, 1000) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    repository = repository_key(image.files, image.workdir, store_owner)
    text = f"task-1 {base} {repository if image.files else ''} {home_directory} {user}"
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    reference = f"swe-plugin-task:{key}"
    with exclusive(key):
        with contextlib.suppress(ImageNotFound):
            return str(api.inspect_image(reference)["Id"])
        with tempfile.TemporaryDirectory(dir=home()) as scratch:
            archive = Path(scratch) / "layer.tar"
            with tarfile.open(archive, "w") as layer:
                _add_home(layer, home_directory, uid, gid)
                if image.files:
                    _add_repository(layer, image, repository, store_owner, (uid, gid))
            name = f"{lease}-{key}"
            api.create_container(base, ["none"], name=name, labels={LABEL: lease})
            try:
                with archive.open("rb") as stream:
                    api.put_archive(name, "/", stream)
                api.commit(name, repository="swe-plugin-task", tag=key)
            finally:
                remove_container(api, name)
        return str(api.inspect_image(reference)["Id"])


def _numbers(user: str) -> tuple[int, int]:
    uid, _, gid = user.partition(":")
    if not uid.isdigit() or not (gid or uid).isdigit():
        raise EnvironmentStartError(f"the image's user {user!r} is a name: set swe.environment.options.user=UID:GID")
    return int(uid), int(gid or uid)


def _add_home(layer: tarfile.TarFile, path: str, uid: int, gid: int) -> None:
    if path.strip("/"):
        member = tarfile.TarInfo(path.strip("/"))
        member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, 0o755, uid, gid
        layer.addfile(member)


def _add_repository(
    layer: tarfile.TarFile, image: Image, key: str, store_owner: tuple[int, int], owner: tuple[int, int]
) -> None:
    directory = ImageStore().get(key, lambda root: build_repository(root, image.files, image.workdir, store_owner))

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid, member.gid = owner
        member.uname = member.gname = ""
        return member

    top = image.workdir.strip("/")
    layer.add(directory / top, top, filter=owned)
