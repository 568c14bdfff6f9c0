"""The content-addressed store: layers that are built once per node and never half-written.

``<home>/images/<key>`` is a layer, which appears by one rename, and ``<home>/images/entries/<key>.json`` describes it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from swe_plugin.environments.home import home
from swe_plugin.environments.images.entry import Entry, describe, read_entry, write_entry
from swe_plugin.environments.images.holds import hold, let_go, try_exclusive
from swe_plugin.environments.images.packs import forget_packs
from swe_plugin.environments.images.unpack import is_full
from swe_plugin.environments.images.writeback import written_out
from swe_plugin.environments.leases import ResourceLease
from swe_plugin.environments.removal import remove_tree
from swe_plugin.errors import EnvironmentStartError

__all__ = ["ImageStore"]

logger = logging.getLogger(__name__)

_FOLDERS = ("entries", "locks", "mirrors", "packs", "references", "tmp")


class ImageStore:
    """Layers by key. A key that exists is complete.

    Args:
        root: where entries live; default ``<home>/images``.
        budget_bytes: above it, layers that nobody holds are removed after a build, least recently used first;
            0: no limit.
    """

    def __init__(self, root: Path | None = None, *, budget_bytes: int = 0) -> None:
        self.root = root or home() / "images"
        self.budget_bytes = budget_bytes

    def get(self, key: str, build: Callable[[Path], None], *, what: str = "") -> Path:
        """The layer of `key`, held for the caller (see `release`), built by `build` if this node does not have it.

        Blocking. Safe when many processes ask at once (one builds, the others wait), and when a builder is killed
        (its lock falls, the next one builds again, the reaper removes the rest).

        Args:
            key: hexadecimal digest of everything the content depends on.
            build: fills the new, empty directory it is given.
            what: for people: image and layer.

        Raises:
            EnvironmentStartError: the disk is full. What `build` raises passes through.
        """
        self._make_folders()
        while True:
            hold(self._lock(key))
            if self.has(key):
                with contextlib.suppress(FileNotFoundError):
                    os.utime(self._entry(key))
                return self.root / key
            let_go(self._lock(key))
            # Without waiting: a thread of this process that was faster holds the layer for its caller. Whoever builds
            # is waited for in `hold`.
            with try_exclusive(self._lock(key)) as alone:
                built = alone and not self.has(key)
                if built:
                    self._build(key, build, what)
            if built and self.budget_bytes:
                self.shrink(self.budget_bytes, keep=key)
            if not alone:
                time.sleep(random.uniform(0.001, 0.01))  # noqa: S311 - others looked at the same moment

    def has(self, key: str) -> bool:
        """Whether this node has the layer now."""
        return (self.root / key).is_dir()

    def release(self, layer: Path) -> None:
        """Undo one `get`: the layer may be removed when nobody else holds it. Paths of others are ignored."""
        if layer.parent == self.root:
            let_go(self._lock(layer.name))

    def entries(self) -> list[Entry]:
        """All layers, least recently used first."""
        if not self.root.is_dir():
            return []
        found = [self._describe(path.name) for path in self.root.iterdir() if path.name not in _FOLDERS]
        return sorted(filter(None, found), key=lambda entry: entry.last_use)

    def _describe(self, key: str) -> Entry | None:
        """A layer's entry, written anew if it was lost; None if the layer is gone."""
        if (known := read_entry(self._entry(key))) is not None:
            return known if self.has(key) else None
        try:
            write_entry(self._entry(key), describe(key, "(its description was lost)", self.root / key))
        except (FileNotFoundError, NotADirectoryError):
            return None  # removed meanwhile, or no layer
        return read_entry(self._entry(key))

    def shrink(self, budget_bytes: int, *, keep: str = "") -> list[Entry]:
        """Remove least recently used layers that nobody holds until the rest fits; returns what was removed.

        Args:
            budget_bytes: for all layers together; 0 removes whatever is not held.
            keep: key of a layer that stays.
        """
        removed: list[Entry] = []
        entries = self.entries()
        total = sum(entry.size_bytes for entry in entries)
        for entry in entries:
            if total <= budget_bytes:
                break
            if entry.key != keep and self.remove(entry.key):
                total -= entry.size_bytes
                removed.append(entry)
        if removed:
            forget_packs(self.root / "packs")
            logger.info("images: removed %d layers to stay within %d bytes", len(removed), budget_bytes)
        return removed

    def remove(self, key: str) -> bool:
        """Remove a layer unless somebody holds it; whether it is gone."""
        with try_exclusive(self._lock(key)) as alone:
            if not alone:
                return False
            if (self.root / key).exists():
                with self.scratch() as draft:
                    (self.root / key).rename(draft)
            self._entry(key).unlink(missing_ok=True)
            self._lock(key).unlink(missing_ok=True)
        return True

    def is_held(self, key: str) -> bool:
        """Whether somebody uses the layer now."""
        with try_exclusive(self._lock(key)) as alone:
            return not alone

    def damage(self, entry: Entry) -> str:
        """What is wrong with a layer; empty if it is as it was built. Compares names and sizes, not contents."""
        now = describe(entry.key, entry.what, self.root / entry.key)
        if now.n_files != entry.n_files:
            return f"{now.n_files} files instead of {entry.n_files}"
        return "" if now.listing == entry.listing else "a file was changed"

    def _build(self, key: str, build: Callable[[Path], None], what: str) -> None:
        with self.scratch() as draft:
            draft.mkdir()
            draft.chmod(0o755)
            try:
                with written_out(draft):  # so that a crash of the machine keeps whole layers or none
                    build(draft)
                    write_entry(self._entry(key), describe(key, what, draft))
            except OSError as error:
                if not is_full(error):
                    raise
                raise EnvironmentStartError(
                    f"{what}: no space left below {self.root}: 'swe-plugin cache prune', or move it (SWE_PLUGIN_HOME)"
                ) from error
            draft.rename(self.root / key)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Name of a directory or a file, not made yet, that does not outlive the block, nor this process by much."""
        self._make_folders()
        lease = ResourceLease("image", directories=[self.root / "tmp"])
        directory = lease.directories[0]
        try:
            yield directory
        finally:
            try:
                if os.path.lexists(directory):
                    remove_tree(directory)
            except OSError as error:
                logger.warning("%s is left to the reaper: %s", directory, error)
                lease.abandon()
            else:
                lease.release()

    def _make_folders(self) -> None:
        """Nobody else may enter: images hold programs that run with their owner's rights (setuid)."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)
        for name in _FOLDERS:
            (self.root / name).mkdir(exist_ok=True)

    def _lock(self, key: str) -> Path:
        return self.root / "locks" / key

    def _entry(self, key: str) -> Path:
        return self.root / "entries" / f"{key}.json"
