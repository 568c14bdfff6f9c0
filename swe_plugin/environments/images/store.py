"""The content-addressed store: directories that are built once per node and never half-written."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from swe_plugin.environments.home import home
from swe_plugin.environments.leases import ResourceLease

__all__ = ["ImageStore"]


class ImageStore:
    """Directories by key. A key that exists is complete: entries appear by one atomic rename.

    Args:
        root: where entries live; default ``<home>/images``.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or home() / "images"

    def get(self, key: str, build: Callable[[Path], None]) -> Path:
        """The directory of `key`, built by `build` if this node does not have it. Blocking.

        Safe when many processes ask at once (one builds, the others wait), and when a builder is killed (its
        lock falls, the next one builds again, the reaper removes the rest).

        Args:
            key: hexadecimal digest of everything the content depends on.
            build: fills the new, empty directory it is given.
        """
        final = self.root / key
        if final.is_dir():
            return final
        for name in ("locks", "tmp"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        fd = os.open(self.root / "locks" / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not final.is_dir():
                self._build(final, build)
        finally:
            os.close(fd)
        return final

    def _build(self, final: Path, build: Callable[[Path], None]) -> None:
        lease = ResourceLease("image", directories=[self.root / "tmp"])
        draft = lease.directories[0]
        try:
            draft.mkdir(mode=0o755)
            draft.chmod(0o755)
            build(draft)
            draft.rename(final)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            lease.release()
