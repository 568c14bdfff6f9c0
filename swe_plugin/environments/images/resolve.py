"""From an `Image` to directories on this node that a backend can mount."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from swe_plugin.environments.images.host import build_host_image, check_host_tools, host_image_key
from swe_plugin.environments.images.repository import build_repository, repository_key
from swe_plugin.environments.images.store import ImageStore
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

__all__ = ["Layers", "check_image", "resolve"]


@dataclass(frozen=True, slots=True)
class Layers:
    """Read-only directories that make up a root file system, topmost first."""

    directories: tuple[Path, ...]


_host: dict[Path, Path] = {}


def resolve(image: Image, *, owner: tuple[int, int], store: ImageStore | None = None) -> Layers:
    """Build what is missing on this node and return the layers. Blocking.

    Args:
        image: what an environment starts from.
        owner: user and group id, on this machine, that the agent's files belong to.
        store: where built layers live; default the node's.

    Raises:
        EnvironmentStartError: the image cannot be had here; the message names it and the fix.
    """
    store = store or ImageStore()
    check_image(image)
    base = _base(image.base, store)
    if not image.files:
        return Layers((base,))
    key = repository_key(image.files, image.workdir, owner)
    layer = store.get(key, lambda root: build_repository(root, image.files, image.workdir, owner))
    return Layers((layer, base))


def check_image(image: Image) -> None:
    """Whether `resolve` can have the image on this node; builds nothing.

    Raises:
        EnvironmentStartError: it cannot; the message names the image and the fix.
    """
    if not image.workdir.startswith("/") or ".." in Path(image.workdir).parts:
        raise EnvironmentStartError(f"image.workdir={image.workdir!r}: must be an absolute path")
    kind, _, rest = image.base.partition(":")
    if image.base == "host":
        check_host_tools()
    elif kind == "rootfs":
        if not Path(rest).is_dir():
            raise EnvironmentStartError(f"image {image.base!r}: not a directory (archives are not supported yet)")
    elif kind in {"docker", "oci"}:
        raise EnvironmentStartError(
            f"image {image.base!r}: this backend does not unpack {kind} images yet; use 'rootfs:<directory>' or 'host'"
        )
    else:
        raise EnvironmentStartError(f"image {image.base!r}: unknown kind; use host, rootfs:, docker: or oci:")


def _base(base: str, store: ImageStore) -> Path:
    if base != "host":
        return Path(base.removeprefix("rootfs:")).absolute()
    if store.root not in _host:
        _host[store.root] = store.get(host_image_key(), build_host_image)
    return _host[store.root]
