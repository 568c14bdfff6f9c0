"""From an `Image` to an image of the daemon: the same files, owners and commit as in a sandbox."""

from __future__ import annotations

import contextlib
import hashlib
import tarfile
from dataclasses import dataclass
from typing import Any

from docker.errors import ImageNotFound

from swe_plugin.environments.docker.imports import exclusive, import_from_daemon, import_image, store_owner
from swe_plugin.environments.docker.reaper import LABEL, remove_container
from swe_plugin.environments.docker.references import find_image
from swe_plugin.environments.images import ImageStore, check_image
from swe_plugin.environments.images.metered import OnRead
from swe_plugin.environments.images.repository import build_repository, repository_key
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

__all__ = ["Prepared", "prepare"]

_AGENT = "1000:1000"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image of the daemon: its id, the user that commands run as, and the variables that it sets."""

    id: str
    user: str
    env: dict[str, str]


def prepare(
    api: Any,
    lease: str,
    machine: str,
    image: Image,
    home_directory: str,
    user: str = "",
    pull: str = "never",
    on_read: OnRead | None = None,
) -> Prepared:
    """Build or find what a container of `image` starts from. Blocking; built once per daemon.

    Args:
        api: the SDK's `APIClient`.
        lease: id of the lease of containers made on the way.
        machine: architecture of the daemon.
        image: of the task.
        home_directory: ``HOME`` of the agent, made if the image has none.
        user: ``uid:gid``; default the image's own for ``docker:`` that is taken as it is, else 1000:1000.
        pull: ``missing`` fetches a ``docker:`` reference that is not there, ``never`` refuses.
        on_read: hears of the bytes that are downloaded, or read from an archive.

    Raises:
        EnvironmentStartError: the image cannot be had; the message names it and the fix.
    """
    check_image(image)
    kind, _, reference = image.base.partition(":")
    if kind == "docker":
        found = find_image(api, reference, pull, on_read)
        _check_machine(image.base, found["Architecture"], machine)
        config = found.get("Config") or {}
        env = dict(word.split("=", 1) for word in config.get("Env") or ())
        if _is_only_the_start(image):
            base, user = import_from_daemon(api, found["Id"], image), user or _AGENT
        else:
            base, user = found["Id"], user or config.get("User") or "0:0"
    else:
        (base, env), user = import_image(api, image, on_read), user or _AGENT
    if image.files or user.split(":")[0] not in {"0", "root"}:
        base = _with_files(api, lease, base, image, home_directory, user)
    return Prepared(base, user, env)


def _is_only_the_start(image: Image) -> bool:
    """Whether more is to be made of a reference than a few files on top."""
    return bool(image.commit or image.repository or image.requirements or image.setup)


def _check_machine(base: str, theirs: str, machine: str) -> None:
    if theirs != machine:
        raise EnvironmentStartError(
            f"image {base!r}: wrong architecture: it is for {theirs}, the daemon runs on {machine}: "
            f"docker pull --platform linux/{machine} {base.removeprefix('docker:')}, or build it for that"
        )


def _with_files(api: Any, lease: str, base: str, image: Image, home_directory: str, user: str) -> str:
    """The base with the task's repository and a home directory on top: one more layer, committed under a digest."""
    uid, gid = _numbers(user)
    repository = repository_key(image.files, image.workdir, store_owner())
    text = f"task-1 {base} {repository if image.files else ''} {home_directory} {user}"
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    reference = f"swe-plugin-task:{key}"
    with exclusive(key):
        with contextlib.suppress(ImageNotFound):
            return str(api.inspect_image(reference)["Id"])
        with ImageStore().scratch() as archive:
            with tarfile.open(archive, "w") as layer:
                _add_home(layer, home_directory, uid, gid)
                if image.files:
                    _add_repository(layer, image, repository, (uid, gid))
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


def _add_repository(layer: tarfile.TarFile, image: Image, key: str, owner: tuple[int, int]) -> None:
    store, top = ImageStore(), image.workdir.strip("/")
    directory = store.get(key, lambda root: build_repository(root, image.files, image.workdir, store_owner()))

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid, member.gid = owner
        member.uname = member.gname = ""
        return member

    try:
        layer.add(directory / top, top, filter=owned)
    finally:
        store.release(directory)
