"""Layers as an archive that daemons load: the other backends' way to the same images."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from swe_plugin.environments.images.manifest import architecture
from swe_plugin.environments.images.overlay import is_opaque, is_whiteout
from swe_plugin.environments.images.resolve import Layers

__all__ = ["write_archive"]

_CHUNK = 1 << 20


def write_archive(
    layers: Layers, reference: str, target: Path, *, agent: tuple[int, int] | None = None, workdir: str = ""
) -> None:
    """Write what ``docker load`` and ``podman load`` take. Blocking; equal layers give equal bytes.

    Args:
        layers: held meanwhile.
        reference: ``repository:tag`` that the image gets; `Layers.key` makes a good tag.
        target: file to write. As much again as the largest layer is needed beside it for the time being.
        agent: user and group id inside of what is in `workdir` and the agent's home, all else is root's. For layers
            that were resolved by an ordinary user and so belong to that user here; None: owners are as in the layers.
        workdir: see `agent`.
    """
    agents = [PurePosixPath(path) for path in (workdir, "/home/agent") if path]
    digests: list[str] = []
    with tarfile.open(target, "w") as archive:
        for directory in reversed(layers.directories):
            with tempfile.TemporaryFile(dir=target.parent) as layer:
                digests.append(_write_layer(directory, layer, agent, agents))
                name = f"{digests[-1]}/layer.tar"
                if name not in archive.getnames():
                    _add(archive, name, layer, layer.tell())
        config = _json(
            {
                "architecture": architecture(),
                "os": "linux",
                "config": {"Env": [f"{name}={value}" for name, value in sorted(layers.env.items())]},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
                "history": [{"created_by": "swe-plugin"} for _ in digests],
            }
        )
        names = [f"{digest}/layer.tar" for digest in digests]
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        manifest = _json([{"Config": config_name, "RepoTags": [reference], "Layers": names}])
        for name, text in ((config_name, config), ("manifest.json", manifest)):
            _add(archive, name, io.BytesIO(text), len(text))


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _add(archive: tarfile.TarFile, name: str, data: IO[bytes], size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size = size
    data.seek(0)
    archive.addfile(info, data)


def _write_layer(directory: Path, target: IO[bytes], agent: tuple[int, int] | None, agents: list[PurePosixPath]) -> str:
    """Write one layer as a tar; returns the hexadecimal digest of it. `target` is left at its end."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        first_names: dict[tuple[int, int], str] = {}
        for inside, real in _walk(directory):
            member = _member(inside, real, first_names)
            if member is None:
                continue
            if agent is not None:
                place = PurePosixPath("/") / inside
                member.uid, member.gid = agent if any(place.is_relative_to(top) for top in agents) else (0, 0)
            if member.size:
                with real.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
            if member.isdir() and is_opaque(real):
                archive.addfile(tarfile.TarInfo(f"{inside}/.wh..wh..opq"))
            archive.members.clear()  # type: ignore[attr-defined]  # see `zygote.trees.entries`
    target.seek(0)
    digest = hashlib.sha256()
    while chunk := target.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _walk(directory: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    """Every entry, parents first, always in the same order."""
    pending = [(PurePosixPath(), directory)]
    while pending:
        inside, real = pending.pop()
        for path in sorted(real.iterdir()):
            yield inside / path.name, path
            if path.is_dir() and not path.is_symlink():
                pending.append((inside / path.name, path))


def _member(inside: PurePosixPath, real: Path, first_names: dict[tuple[int, int], str]) -> tarfile.TarInfo | None:
    info = real.lstat()
    if is_whiteout(real):
        return tarfile.TarInfo(str(inside.parent / f".wh.{inside.name}"))
    member = tarfile.TarInfo(str(inside))
    member.mode, member.uid, member.gid = stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid
    member.mtime = int(info.st_mtime)
    if stat.S_ISDIR(info.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(info.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.fsdecode(real.readlink())
    elif (name := first_names.setdefault((info.st_dev, info.st_ino), str(inside))) != str(inside):
        member.type, member.linkname = tarfile.LNKTYPE, name
    elif stat.S_ISFIFO(info.st_mode):
        member.type = tarfile.FIFOTYPE
    elif stat.S_ISREG(info.st_mode):
        member.size = info.st_size
    else:
        return None  # sockets and devices that stand in a rootfs directory
    return member
