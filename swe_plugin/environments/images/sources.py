"""From `Image.base` to layers: each kind of source, unpacked into the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tarfile import TarError

from swe_plugin.environments.images.blobs import Blobs, open_blobs, plain
from swe_plugin.environments.images.host import build_host_image, check_host_tools, host_image_key
from swe_plugin.environments.images.manifest import Contents, read_contents
from swe_plugin.environments.images.metered import OnRead, metered
from swe_plugin.environments.images.unpack import is_full, unpack_layer
from swe_plugin.environments.images.view import MergedView
from swe_plugin.errors import EnvironmentStartError

__all__ = ["Source", "Step", "check_source", "key_of", "naming", "open_source", "user_of"]

Build = Callable[[Path, MergedView], None]
_ROOTFS = "a directory, or a tar of one"


@dataclass(frozen=True, slots=True)
class Step:
    """One layer to be.

    Attributes:
        key: of the layer.
        what: it is, for people.
        build: fills it on top of others.
        size_bytes: about how many it takes; 0: not known.
        nests: `build` wants layers of its own and takes a disk slot when it has them. Whoever waits for a layer while
            it holds a slot may wait for somebody who waits for a slot.
    """

    key: str
    what: str
    build: Build
    size_bytes: int = 0
    nests: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Where an image starts.

    Attributes:
        steps: layers to build, lowest first; empty where a directory is taken as it is.
        directory: that directory, or None.
        key: digest of all of it.
        env: variables that the image sets.
        user: that the image wants, by name or number; empty: it does not say.
    """

    steps: tuple[Step, ...]
    directory: Path | None
    key: str
    env: Mapping[str, str]
    user: str = ""


def key_of(*parts: object) -> str:
    """Digest of what a layer depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def open_source(base: str, known: Path, *, squash: bool, on_read: OnRead | None = None, attempts: int = 4) -> Source:
    """Look at a base; nothing is unpacked yet. Blocking.

    Args:
        base: see `types.Image`.
        known: directory that remembers what Docker references led to.
        squash: see `unpack.unpack_layer`.
        on_read: hears of the bytes that building its layers reads, as they are kept (compressed).
        attempts: of each request to a registry, see `registry.open_registry`.

    Raises:
        EnvironmentStartError: there is no such image, or it is damaged; says which and why.
    """
    kind, _, rest = base.partition(":")
    with _reading(base), _decoding():
        if base == "host":
            key = _host_key()
            return Source((Step(key, "host", lambda root, _: build_host_image(root)),), None, key, {})
        if kind == "rootfs" and rest:
            return _rootfs(Path(rest), squash, on_read)
        if kind == "oci" and rest:
            return layered(base, *_open_saved(rest), squash, on_read)
        if kind == "docker" and rest:
            from swe_plugin.environments.images.registry import open_registry

            return layered(base, *open_registry(rest, known, attempts=attempts), squash, on_read)
    raise _unknown(base)


@lru_cache(maxsize=4096)
def user_of(base: str, known: Path) -> str:
    """See `Source.user`; asked once per process."""
    return open_source(base, known, squash=False).user if base.startswith(("oci:", "docker:")) else ""


def check_source(base: str) -> None:
    """Whether there is such a base, as far as a look at this machine tells. Blocking, reads no layer.

    Raises:
        EnvironmentStartError: see `open_source`.
    """
    kind, _, rest = base.partition(":")
    with _reading(base), _decoding():
        if base == "host":
            check_host_tools()
        elif kind == "rootfs" and rest:
            _existing(Path(rest), _ROOTFS)
        elif kind == "oci" and rest:
            _open_saved(rest)
        elif kind == "docker" and rest:
            from swe_plugin.environments.images.registry import Reference

            Reference.parse(rest)
        else:
            raise _unknown(base)


def _unknown(base: str) -> EnvironmentStartError:
    return EnvironmentStartError(f"image {base!r}: unknown kind; use host, rootfs:, docker: or oci:")


def _open_saved(rest: str) -> tuple[Blobs, Contents]:
    path, _, name = rest.partition("#")
    blobs = open_blobs(_existing(Path(path), "save one with 'docker save' or 'skopeo copy'"))
    return blobs, read_contents(blobs, name)


def layered(base: str, blobs: Blobs, contents: Contents, squash: bool, on_read: OnRead | None) -> Source:
    """The layers of an OCI image; keys are chained, as what a layer means depends on those below."""
    steps: list[Step] = []
    chain = ""
    for number, layer in enumerate(contents.layers, start=1):
        chain = key_of("layer-1", chain, layer.diff_id, squash)
        what = f"{base} layer {number}/{len(contents.layers)}"

        def build(root: Path, below: MergedView, name: str = layer.name, diff_id: str = layer.diff_id) -> None:
            with _reading(base), blobs.open(name) as stream:
                unpack_layer(plain(metered(stream, on_read)), diff_id, root, below, squash=squash)

        steps.append(Step(chain, what, build, layer.size_bytes))
    return Source(tuple(steps), None, chain, contents.env, contents.user)


def _rootfs(path: Path, squash: bool, on_read: OnRead | None) -> Source:
    _existing(path, _ROOTFS)
    if path.is_dir():
        path = path.resolve()
        info = path.stat()
        return Source((), path, key_of("directory-1", str(path), info.st_ino, info.st_mtime_ns), {})
    info = path.stat()
    digest = _digest(path, info.st_size, info.st_mtime_ns)
    key = key_of("rootfs-1", digest, squash)

    def build(root: Path, below: MergedView) -> None:
        with _reading(f"rootfs:{path}"), path.open("rb") as file:
            unpack_layer(plain(metered(file, on_read)), "", root, below, squash=squash)

    return Source((Step(key, f"rootfs:{path}", build, info.st_size),), None, key, {})


def _existing(path: Path, wanted: str) -> Path:
    if not path.exists():
        raise EnvironmentStartError(f"{path} does not exist; wanted: {wanted}")
    return path


@lru_cache(maxsize=1)
def _host_key() -> str:
    return host_image_key()


@lru_cache(maxsize=256)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    """Of a file, read again when it has changed."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


@contextmanager
def naming(base: str) -> Iterator[None]:
    """Errors name the image."""
    try:
        yield
    except EnvironmentStartError as error:
        text = str(error)
        raise EnvironmentStartError(text if text.startswith("image ") else f"image {base!r}: {text}") from error


@contextmanager
def _reading(base: str) -> Iterator[None]:
    """What goes wrong with the files of an image is said of the image, but for a full disk."""
    with naming(base):
        try:
            yield
        except FileNotFoundError as error:
            raise EnvironmentStartError(f"damaged: {error.filename or error} is missing") from error
        except OSError as error:
            if is_full(error):
                raise
            raise EnvironmentStartError(f"cannot be read: {error}") from error
        except (TarError, EOFError) as error:
            raise EnvironmentStartError(f"damaged: {(str(error) or type(error).__name__).splitlines()[0]}") from error


@contextmanager
def _decoding() -> Iterator[None]:
    """Documents of an image that are not what they should be."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EnvironmentStartError(f"damaged: {type(error).__name__}: {error}") from error
