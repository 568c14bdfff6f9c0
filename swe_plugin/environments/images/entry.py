"""What the store knows of one layer: what it is for, its size, and a digest by which damage is found."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from swe_plugin.environments.images.overlay import is_opaque

__all__ = ["Entry", "describe", "read_entry", "write_entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One layer of the store.

    Attributes:
        key: digest of everything the content depends on.
        what: for people: image and layer.
        size_bytes: disk that it takes, hard links counted once.
        n_files: names in it.
        listing: digest over path, kind, mode, owner, size, time and link of every name.
        built_at: seconds since 1970.
        last_use: the same; when an environment last started on it.
    """

    key: str
    what: str
    size_bytes: int
    n_files: int
    listing: str
    built_at: float
    last_use: float = 0.0


def describe(key: str, what: str, layer: Path) -> Entry:
    """Look at a built layer. Reads names and sizes, not contents."""
    digest, inodes, n_files = hashlib.sha256(), {}, 0
    pending = [""]
    while pending:
        directory = pending.pop()
        for name in sorted(os.listdir(layer / directory)):
            inside = f"{directory}{name}"
            path = f"{layer}/{inside}"
            info = os.lstat(path)
            n_files += 1
            inodes[info.st_ino] = info.st_blocks * 512
            digest.update(_line(path, inside, info))
            if stat.S_ISDIR(info.st_mode):
                pending.append(f"{inside}/")
    return Entry(key, what, sum(inodes.values()), n_files, digest.hexdigest(), time.time())


def _line(path: str, inside: str, info: os.stat_result) -> bytes:
    fields: list[object] = [os.fsencode(inside), info.st_mode, info.st_uid, info.st_gid]
    if stat.S_ISDIR(info.st_mode):
        fields.append(is_opaque(path))  # times of directories change when a layer is copied
    elif stat.S_ISLNK(info.st_mode):
        fields.append(os.fsencode(os.readlink(path)))
    else:
        fields += [info.st_size, info.st_mtime_ns, info.st_rdev]
    return repr(fields).encode() + b"\n"


def write_entry(path: Path, entry: Entry) -> None:
    """Keep a description in a file, whose time is the time of the last use."""
    fields = dataclasses.asdict(entry)
    del fields["last_use"]
    path.write_text(json.dumps(fields))


def read_entry(path: Path) -> Entry | None:
    """The description in a file; None if there is none."""
    try:
        return Entry(**json.loads(path.read_text()), last_use=path.stat().st_mtime)
    except (OSError, ValueError, TypeError):
        return None
