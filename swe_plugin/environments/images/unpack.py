"""One layer of an image: a tar becomes a directory that overlayfs can stack on the layers below.

The tar is not trusted. Nothing is written outside the new directory whatever its names and links say, every digest
is checked, devices and extended attributes are left out. What a name means is decided as a runtime would that
unpacks into the merged tree: parents that are links lead where they lead *inside*.
"""

from __future__ import annotations

import errno
import hashlib
import io
import lzma
import os
import shutil
import stat
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Protocol

from swe_plugin.environments.images.overlay import make_opaque, make_whiteout
from swe_plugin.environments.images.view import MergedView
from swe_plugin.errors import EnvironmentStartError

__all__ = ["LayerError", "Readable", "digest_of", "is_full", "unpack_layer"]

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_MODES = 0o7777
_CHUNK = 1 << 20
_BLOCK = 1 << 15
"""Read at once; tarfile copies what is left of one at each of its reads."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_LATEST = 1 << 33
_MAX_DEPTH = 200
"""Deeper than any real tree, and shallow enough for every program that walks one by recursion."""
_RESERVE_BYTES = 1 << 30
"""Left free on the disk, whatever size an archive says its files have."""


class LayerError(EnvironmentStartError):
    """A layer is damaged, or holds what no layer may hold."""


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; empty at the end."""
        ...


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
    counted = _Hashing(stream)
    writer, what = _Writer(root, below, squash), f"layer {digest or 'of the archive'}"
    try:
        with tarfile.open(fileobj=counted, mode="r|", tarinfo=_Strict, bufsize=_BLOCK) as archive:
            while (member := archive.next()) is not None:
                writer.add(member, archive)
                archive.members.clear()  # type: ignore[attr-defined]  # see `zygote.trees.entries`
        counted.drain()
        writer.finish()
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise LayerError(f"{what}: damaged: {error}") from error
    except OSError as error:
        if is_full(error):
            raise
        raise LayerError(f"{what}: cannot be unpacked: {error}") from error
    if digest and counted.digest != digest:
        raise LayerError(f"{what}: damaged: its content is {counted.digest}")


def is_full(error: OSError) -> bool:
    """Whether the disk has no room: the store's affair, not the image's."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def digest_of(stream: Readable) -> str:
    """``sha256:<hex>`` of what is left of a stream."""
    counted = _Hashing(stream)
    counted.drain()
    return counted.digest


class _Hashing(io.RawIOBase):
    """Passes a stream on and hashes it."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._hash.update(data)
        return data

    def drain(self) -> None:
        """Read what is left."""
        while self.read(_CHUNK):
            pass

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


class _Strict(tarfile.TarInfo):
    """A header; one that is broken or missing is an error, where tarfile would take it for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> _Strict:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error


class _Writer:
    """Entries of one tar, in its order, as files of the layer."""

    def __init__(self, root: Path, below: MergedView, squash: bool) -> None:
        self._root, self._below, self._squash = root.resolve(), below, squash
        self._own, self._all = MergedView([root]), MergedView([root, *below.layers])
        self._deleted: list[PurePosixPath] = []
        self._opaque: list[PurePosixPath] = []
        self._directories: dict[PurePosixPath, tarfile.TarInfo] = {}
        self._last: tuple[list[str], PurePosixPath, Path] | None = None
        """Directory of the entry before this one, a plain file: as the archive has it, inside, on this machine."""

    def add(self, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        if "\0" in member.name or "\0" in member.linkname:
            raise LayerError(f"layer: {member.name!r}: a NUL byte in a name")
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if not parts:  # the root itself: its mode counts, its name does not
            self._directories[PurePosixPath("/")] = member
            return
        if ".." in parts:
            raise LayerError(f"layer: {member.name!r}: leads out of the image")
        *above, name = parts
        if name.startswith(_WHITEOUT):
            self._note_deletion(self._all.resolve(PurePosixPath("/", *above)), name)
            return
        if self._last is not None and self._last[0] == above:
            _, parent, real = self._last
        else:
            parent = self._all.resolve(PurePosixPath("/", *above))
            real = self._parent(parent)
        if not member.isreg():
            self._create(parent, real / name, member)
            self._last = None
            return
        self._write(real / name, member, archive)
        # A file cannot change where its own directory is, unless a link led there that passed through the file's place.
        self._last = (above, parent, real) if parent.parts[1:] == tuple(above) else None

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
            real = self._own.lookup(path)
            if real is not None and _is_directory(real):
                self._set_metadata(real, member)

    def _hide(self, path: PurePosixPath, hidden: set[PurePosixPath], *, everything: bool) -> None:
        """Keep what the layers below have in `path`, or `path` itself, from showing through."""
        if not self._has_room(path.parent):
            return
        real = self._parent(path.parent) / path.name
        if everything and not os.path.lexists(real):
            make_whiteout(real)
        elif self._has_room(path):
            make_opaque(self._parent(path))
            hidden.add(path)

    def _has_room(self, directory: PurePosixPath) -> bool:
        """Whether nothing in this layer, a link for example, stands where `directory` or a parent of it would be."""
        real = self._root
        for part in directory.parts[1:]:
            real = real / part
            if not os.path.lexists(real):
                return True
            if not _is_directory(real):
                return False
        return True

    def _write(self, real: Path, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        """A plain file, in place of what an earlier entry made there."""
        source = archive.extractfile(member)
        assert source is not None
        _remove(real)
        self._check_space(member.size)
        with source, os.fdopen(os.open(real, _NEW_FILE, 0o600), "wb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
            target.flush()  # before the time is set
            self._set_metadata(target.fileno(), member)

    def _create(self, parent: PurePosixPath, real: Path, member: tarfile.TarInfo) -> None:
        """Anything else."""
        if member.isdir():
            self._make_directory(real, parent / real.name)
            self._directories[parent / real.name] = member
            return
        _remove(real)
        if member.issym():
            real.symlink_to(member.linkname)
        elif member.islnk():
            self._link(real, member)
            return
        elif member.isfifo():
            os.mkfifo(real)
        else:
            return  # a device: /dev is the sandbox's own
        self._set_metadata(real, member)

    def _check_space(self, size_bytes: int) -> None:
        disk = os.statvfs(self._root)
        if size_bytes > disk.f_bavail * disk.f_frsize - _RESERVE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._root))

    def _link(self, real: Path, member: tarfile.TarInfo) -> None:
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
            real.symlink_to(target.readlink())
        else:  # in a layer below, which is shared: a copy
            shutil.copyfile(target, real)
            self._copy_metadata(target, real)

    def _parent(self, inside: PurePosixPath) -> Path:
        """The directory in this layer, made if need be; one that the tar does not list is as it is below."""
        real = self._root
        if len(inside.parts) > _MAX_DEPTH:
            raise LayerError(f"layer: more than {_MAX_DEPTH} directories in one another")
        for depth, part in enumerate(inside.parts[1:], start=2):
            real, path = real / part, PurePosixPath(*inside.parts[:depth])
            if self._make_directory(real, path):
                lower = self._below.lookup(path)
                if lower is not None and _is_directory(lower):
                    self._copy_metadata(lower, real)
        return real

    def _make_directory(self, real: Path, path: PurePosixPath) -> bool:
        """Make a directory of this layer, in place of a file of an earlier entry if there is one."""
        if _is_directory(real):
            return False
        if os.path.lexists(real):
            real.unlink()
            self._opaque.append(path)  # the file had hidden what is below
        real.mkdir()
        real.chmod(0o755)
        return True

    def _copy_metadata(self, source: Path, target: Path) -> None:
        info = source.lstat()
        if not self._squash:
            os.lchown(target, info.st_uid, info.st_gid)
        target.chmod(stat.S_IMODE(info.st_mode))
        os.utime(target, ns=(info.st_mtime_ns, info.st_mtime_ns))

    def _set_metadata(self, real: Path | int, member: tarfile.TarInfo) -> None:
        """Owner, mode and time of a path, links not followed, or of an open file."""
        follow = isinstance(real, int)
        mode = member.mode & _MODES
        if self._squash:
            mode |= 0o700 if member.isdir() else 0o600
        else:
            os.chown(real, member.uid, member.gid, follow_symlinks=follow)
        if not member.issym():
            os.fchmod(real, mode) if isinstance(real, int) else real.chmod(mode)
        mtime = int(min(max(member.mtime, 0), _LATEST) * 1_000_000_000)
        os.utime(real, ns=(mtime, mtime), follow_symlinks=follow)


def _remove(real: Path) -> None:
    """Have nothing there."""
    try:
        kind = os.lstat(real).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(kind):
        shutil.rmtree(real)
    else:
        real.unlink()


def _is_directory(path: Path) -> bool:
    """A directory itself, not a link to one."""
    return path.is_dir() and not path.is_symlink()
