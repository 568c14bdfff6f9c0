"""One layer of an image: a tar becomes a directory that overlayfs can stack on the layers below.

The tar is not trusted. Nothing is written outside the new directory whatever its names and links say, every digest
is checked, devices and extended attributes are left out. What a name means is decided as a runtime would that
unpacks into the merged tree: parents that are links lead where they lead *inside*.
"""

from __future__ import annotations

import errno
import lzma
import os
import shutil
import stat
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, cast

from swe_plugin.environments.images.header import Header
from swe_plugin.environments.images.overlay import make_opaque, make_whiteout
from swe_plugin.environments.images.tape import Readable, Tape
from swe_plugin.environments.images.view import MergedView
from swe_plugin.environments.images.writeback import Writeback
from swe_plugin.errors import EnvironmentStartError

__all__ = ["LayerError", "is_full", "unpack_layer"]

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_MODES, _DIRECTORY_MODE = 0o7777, 0o755
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_LATEST = 1 << 33
_MAX_DEPTH = 200
"""Deeper than any real tree, and shallow enough for every program that walks one by recursion."""
_RESERVE_BYTES = 1 << 30
"""Left free on the disk, whatever size an archive says its files have."""
_MAX_GLOBALS = 1000
"""A copy of them is made for each file."""
_NOBODY = (1 << 32) - 1
"""As an owner: leave it as it is (chown(2))."""
_MALFORMED = (ValueError, OverflowError, IndexError, RecursionError)
"""Raised by tarfile for headers that nobody writes."""
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, *_MALFORMED)
_LOOK_BYTES = 64 << 20
"""Written between two looks at what is free."""


class LayerError(EnvironmentStartError):
    """A layer is damaged, or holds what no layer may hold."""


def unpack_layer(stream: Readable, digest: str, root: Path, below: MergedView, *, squash: bool) -> None:
    """Fill the empty directory `root`.

    Args:
        stream: the layer's uncompressed tar.
        digest: of all of it, ``sha256:<hex>``; empty: not known.
        below: the layers that it goes on.
        squash: everything belongs to the caller, who may read and change it (for sandboxes in which the agent is
            the calling user); else owners and modes are those of the archive, which takes root.

    Raises:
        LayerError: it is damaged, is not what `digest` says, or a name in it is impossible.
    """
    what = f"layer {digest or 'of the archive'}"
    try:
        with Tape(stream) as tape, Writeback(root) as writeback:
            _unpack(tape, _Writer(root, below, squash, tape, writeback))
    except _DAMAGE as error:
        raise LayerError(f"{what}: damaged: {error}") from error
    except OSError as error:
        if is_full(error):
            raise
        raise LayerError(f"{what}: cannot be unpacked: {error}") from error
    if digest and tape.digest != digest:
        raise LayerError(f"{what}: damaged: its content is {tape.digest}")


def _unpack(tape: Tape, writer: _Writer) -> None:
    with tarfile.TarFile(fileobj=cast("IO[bytes]", tape), tarinfo=Header) as archive:
        while (member := archive.next()) is not None:
            if len(archive.pax_headers) > _MAX_GLOBALS:
                raise LayerError("layer: more global headers than any archive needs")
            writer.add(member, archive)
            archive.members.clear()  # type: ignore[attr-defined]  # see `zygote.trees.entries`
            tape.allow()
    tape.drain()
    writer.finish()


def is_full(error: OSError) -> bool:
    """Whether the disk has no room: the store's affair, not the image's."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class _Writer:
    """Entries of one tar, in its order, as files of the layer."""

    def __init__(self, root: Path, below: MergedView, squash: bool, tape: Tape, writeback: Writeback) -> None:
        self._root, self._below, self._squash = str(root.resolve()), below, squash
        self._tape, self._writeback = tape, writeback
        self._own, self._all = MergedView([root]), MergedView([root, *below.layers])
        self._deleted: list[PurePosixPath] = []
        self._opaque: list[PurePosixPath] = []
        self._directories: dict[PurePosixPath, tarfile.TarInfo] = {}
        self._known: dict[str, tuple[PurePosixPath, str]] = {}
        """Directories of this layer by path, no link on the way: inside, on this machine. Nothing in a layer gives way
        to anything else but in `_remove`, which forgets them all: one that became a link would lead out."""
        self._room_bytes = 0
        """Of what the disk has free, what may be written before the next look at it."""

    def add(self, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        if "\0" in member.name or "\0" in member.linkname:
            raise LayerError(f"layer: {member.name!r}: a NUL byte in a name")
        if member.size < 0:
            raise LayerError(f"layer: {member.name!r}: {member.size} bytes")
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if not parts:  # the root itself: its mode counts, its name does not
            if member.isdir():
                self._directories[PurePosixPath("/")] = member
            return
        if ".." in parts:
            raise LayerError(f"layer: {member.name!r}: leads out of the image")
        *above, name = parts
        if name.startswith(_WHITEOUT):
            self._note_deletion(self._all.resolve(PurePosixPath("/", *above)), name)
            return
        parent, real = self._directory(above)
        if member.isreg():
            self._write(f"{real}/{name}", member, archive)
        else:
            self._create(parent / name, f"{real}/{name}", member)

    def _directory(self, above: list[str]) -> tuple[PurePosixPath, str]:
        """Where the entries of a directory of the archive go: inside, on this machine."""
        name = "/".join(above)
        if (known := self._known.get(name)) is not None:
            return known
        inside = self._all.resolve(PurePosixPath("/", *above))
        return inside, self._parent(inside)

    def _note_deletion(self, parent: PurePosixPath, name: str) -> None:
        deleted = name.removeprefix(_WHITEOUT)
        if name == _OPAQUE:
            self._opaque.append(parent)
        elif deleted in ("", ".", ".."):
            raise LayerError(f"layer: {str(parent / name)!r}: deletes no name")
        elif not deleted.startswith(_WHITEOUT):  # else bookkeeping of an old storage driver
            self._deleted.append(parent / deleted)

    def finish(self) -> None:
        """Apply deletions, which concern the layers below only, wherever in the tar they stand; restore directories."""
        hidden: set[PurePosixPath] = set()
        todo = [(len(path.parts), 0, path) for path in self._deleted]
        todo += [(len(path.parts), 1, path) for path in self._opaque]
        for _, is_opaque, path in sorted(set(todo)):
            below = self._below.lookup(path)
            if hidden.isdisjoint(path.parents) and below is not None and (not is_opaque or _is_directory(below)):
                self._hide(path, hidden, everything=not is_opaque)
        for path, member in sorted(self._directories.items(), reverse=True):
            known = self._known.get(str(path)[1:])
            real = known[1] if known else self._own.lookup(path)
            if real is not None and _is_directory(real):
                self._set_metadata(str(real), member)

    def _hide(self, path: PurePosixPath, hidden: set[PurePosixPath], *, everything: bool) -> None:
        """Keep what the layers below have in `path`, or `path` itself, from showing through."""
        if not self._has_room(path.parent):
            return
        real = f"{self._parent(path.parent)}/{path.name}"
        if everything and not os.path.lexists(real):
            make_whiteout(real)
        elif self._has_room(path):
            make_opaque(self._parent(path))
            hidden.add(path)

    def _has_room(self, directory: PurePosixPath) -> bool:
        """Whether nothing in this layer, a link for example, stands where `directory` or a parent of it would be."""
        real = self._root
        for part in directory.parts[1:]:
            real = f"{real}/{part}"
            if not os.path.lexists(real):
                return True
            if not _is_directory(real):
                return False
        return True

    def _write(self, real: str, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        """A plain file, in place of what an earlier entry made there."""
        self._take_space(member.size)
        try:
            fd = os.open(real, _NEW_FILE, 0o600)
        except FileExistsError:
            self._remove(real)
            fd = os.open(real, _NEW_FILE, 0o600)
        try:
            if member.issparse():
                self._write_sparse(fd, member, archive)
            else:
                self._tape.write(fd, member.size)
            self._set_metadata(fd, member)
        finally:
            os.close(fd)
        self._writeback.add(member.size)

    def _write_sparse(self, fd: int, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        source = archive.extractfile(member)
        assert source is not None
        self._tape.allow(member.size)
        with source, open(fd, "wb", closefd=False) as target:
            shutil.copyfileobj(source, target)

    def _create(self, inside: PurePosixPath, real: str, member: tarfile.TarInfo) -> None:
        """Anything else."""
        if member.isdir():
            self._make_directory(real, inside)
            self._directories[inside] = member
            if len(inside.parts) <= _MAX_DEPTH:
                self._known[str(inside)[1:]] = inside, real
            return
        self._remove(real)
        if member.issym():
            os.symlink(member.linkname, real)
        elif member.islnk():
            self._link(real, member)
            return
        elif member.isfifo():
            os.mkfifo(real)
        else:
            return  # a device: /dev is the sandbox's own
        self._set_metadata(real, member)

    def _take_space(self, size_bytes: int) -> None:
        if size_bytes > self._room_bytes:
            disk = os.statvfs(self._root)
            free = disk.f_bavail * disk.f_frsize - _RESERVE_BYTES
            if size_bytes > free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._root)
            self._room_bytes = max(size_bytes, min(free, _LOOK_BYTES))
        self._room_bytes -= size_bytes

    def _link(self, real: str, member: tarfile.TarInfo) -> None:
        parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            raise LayerError(f"layer: {member.name!r}: a link out of the image")
        inside = self._all.resolve(PurePosixPath("/", *parts), follow_last=False)
        target = self._all.lookup(inside)
        if target is None or _is_directory(target):
            raise LayerError(f"layer: {member.name!r}: links to {member.linkname!r}, which is no file of the image")
        if target.is_relative_to(self._root):
            os.link(target, real, follow_symlinks=False)
        elif target.is_symlink():
            os.symlink(target.readlink(), real)
        else:  # in a layer below, which is shared: a copy
            self._take_space(target.lstat().st_size)
            shutil.copyfile(target, real)
            self._copy_metadata(target, real)

    def _parent(self, inside: PurePosixPath) -> str:
        """The directory in this layer, made if need be; one that the tar does not list is as it is below."""
        real = self._root
        if len(inside.parts) > _MAX_DEPTH:
            raise LayerError(f"layer: more than {_MAX_DEPTH} directories in one another")
        for depth, part in enumerate(inside.parts[1:], start=2):
            real = f"{real}/{part}"
            if _is_directory(real):
                continue
            path = PurePosixPath(*inside.parts[:depth])
            self._make_directory(real, path)
            lower = self._below.lookup(path)
            if lower is not None and _is_directory(lower):
                self._copy_metadata(lower, real)
        self._known[str(inside)[1:]] = inside, real
        return real

    def _make_directory(self, real: str, path: PurePosixPath) -> None:
        """Make a directory of this layer, in place of a file of an earlier entry if there is one."""
        try:
            os.mkdir(real)
        except FileExistsError:
            if _is_directory(real):
                return
            self._remove(real)
            self._opaque.append(path)  # the file had hidden what is below
            os.mkdir(real)
        os.chmod(real, _DIRECTORY_MODE)

    def _copy_metadata(self, source: Path, target: str) -> None:
        info = source.lstat()
        if not self._squash:
            os.lchown(target, info.st_uid, info.st_gid)
        os.chmod(target, stat.S_IMODE(info.st_mode))
        os.utime(target, ns=(info.st_mtime_ns, info.st_mtime_ns))

    def _remove(self, real: str) -> None:
        """Have nothing there."""
        try:
            kind = os.lstat(real).st_mode
        except FileNotFoundError:
            return
        self._known.clear()
        if stat.S_ISDIR(kind):
            shutil.rmtree(real)
        else:
            os.unlink(real)

    def _set_metadata(self, real: str | int, member: tarfile.TarInfo) -> None:
        """Owner, mode and time of a path, links not followed, or of an open file."""
        follow = isinstance(real, int)
        mode = member.mode & _MODES
        if self._squash:
            mode |= 0o700 if member.isdir() else 0o600
        elif not (0 <= member.uid < _NOBODY and 0 <= member.gid < _NOBODY):
            raise LayerError(f"layer: {member.name!r}: belongs to {member.uid}:{member.gid}")
        else:
            os.chown(real, member.uid, member.gid, follow_symlinks=follow)
        if not member.issym():
            os.chmod(real, mode)
        mtime = int(min(max(member.mtime, 0), _LATEST) * 1_000_000_000)
        os.utime(real, ns=(mtime, mtime), follow_symlinks=follow)


def _is_directory(path: Path | str) -> bool:
    """A directory itself, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
