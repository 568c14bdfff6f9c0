"""What an image consists of, read from an OCI layout or from what `docker save` wrote.

Formats: the OCI image specification 1.1 (image-layout, image-index, manifest, config) and the Docker image
specification 1.2 (``manifest.json``). Every JSON document but the entry points is checked against its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.environments.images.blobs import Blobs
from swe_plugin.errors import EnvironmentStartError

__all__ = ["MAX_JSON", "Contents", "LayerSource", "architecture", "blob_name", "read_contents", "read_manifest"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MAX_JSON = 16 << 20
"""Bytes of one document at most."""
_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
_REF_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LayerSource:
    """One layer: digest of its uncompressed tar, name of the piece that holds it, size of that piece (0: not known)."""

    diff_id: str
    name: str
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Contents:
    """An image: its layers, lowest first, the environment variables it wants, and its user (none named: ``root``)."""

    layers: Sequence[LayerSource]
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = "root"


def architecture() -> str:
    """This machine's, as images name it."""
    machine = os.uname().machine
    return _NAMES.get(machine, machine)


def blob_name(digest: str) -> str:
    """Where a layout keeps the blob of `digest`.

    Raises:
        EnvironmentStartError: no SHA-256 digest.
    """
    if not _DIGEST.fullmatch(digest):
        raise EnvironmentStartError(f"digest {digest!r}: only sha256:<64 hex digits> is understood")
    return digest.replace("sha256:", "blobs/sha256/")


def read_contents(blobs: Blobs, wanted: str) -> Contents:
    """The image named `wanted` (tag, reference or digest) of a layout or archive; empty: its only one.

    Raises:
        EnvironmentStartError: not there, several without a name, for another machine, or damaged.
        FileNotFoundError: a piece is missing.
    """
    try:
        index = _load(blobs, "index.json")
    except FileNotFoundError:
        return _docker_save(blobs, wanted)
    return read_manifest(blobs, _choose(index["manifests"], wanted))


def read_manifest(blobs: Blobs, descriptor: Json) -> Contents:
    """The image that a descriptor leads to; of an index, the one for this machine.

    Raises:
        EnvironmentStartError: none for this machine, or damaged.
        FileNotFoundError: a piece is missing.
    """
    manifest = _load(blobs, blob_name(str(descriptor["digest"])))
    if "manifests" in manifest:
        return read_manifest(blobs, _for_this_machine(manifest["manifests"]))
    if "config" not in manifest:
        raise EnvironmentStartError("its manifest is of an old kind (schema 1): push or save it with a current Docker")
    config = _load(blobs, blob_name(str(manifest["config"]["digest"])))
    layers = manifest["layers"]
    return _contents(config, [(blob_name(str(layer["digest"])), int(layer.get("size", 0))) for layer in layers])


def _docker_save(blobs: Blobs, wanted: str) -> Contents:
    images = _load(blobs, "manifest.json")
    named = [image for image in images if not wanted or wanted in (image.get("RepoTags") or [])]
    if len(named) != 1:
        tags = [tag for image in images for tag in image.get("RepoTags") or ["(no tag)"]]
        raise EnvironmentStartError(_which(wanted, tags))
    pieces = [(str(name), blobs.size(str(name))) for name in named[0]["Layers"]]
    return _contents(_load(blobs, named[0]["Config"]), pieces)


def _choose(manifests: Sequence[Json], wanted: str) -> Json:
    names = {str(entry["digest"]): {_name(entry), str(entry["digest"])} - {""} for entry in manifests}
    found = [entry for entry in manifests if not wanted or _matches(wanted, names[str(entry["digest"])])]
    if len(found) > 1 and len({_name(entry) for entry in found}) == 1:  # one image, several machines
        return _for_this_machine(found)
    if len(found) != 1:
        raise EnvironmentStartError(_which(wanted, [_name(entry) or str(entry["digest"]) for entry in manifests]))
    return found[0]


def _name(entry: Json) -> str:
    notes = entry.get("annotations") or {}
    return next((str(notes[key]) for key in _REF_NAMES if key in notes), "")


def _matches(wanted: str, names: set[str]) -> bool:
    return any(name == wanted or name.endswith((f"/{wanted}", f":{wanted}")) for name in names)


def _which(wanted: str, names: Sequence[str]) -> str:
    problem = f"it holds no {wanted!r}" if wanted else "it holds several images"
    return f"{problem}; name one of {', '.join(names) or 'none'} after a '#'"


def _for_this_machine(manifests: Sequence[Json]) -> Json:
    platforms = [entry.get("platform") or {} for entry in manifests]
    for entry, platform in zip(manifests, platforms, strict=True):
        if platform.get("os") == "linux" and platform.get("architecture") == architecture():
            return entry
    there = sorted({_shown(platform) for platform in platforms if platform.get("os") != "unknown"})  # signatures
    raise _wrong_machine(", ".join(there))


def _shown(platform: Json) -> str:
    return f"{platform.get('os', '?')}/{platform.get('architecture', '?')}"


def _wrong_machine(there: str) -> EnvironmentStartError:
    return EnvironmentStartError(
        f"wrong architecture: it is for {there}, this machine is linux/{architecture()}; build or pull it for this one"
    )


def _contents(config: Json, pieces: Sequence[tuple[str, int]]) -> Contents:
    if (there := _shown({"os": "linux", "architecture": architecture(), **config})) != f"linux/{architecture()}":
        raise _wrong_machine(there)
    diff_ids = config["rootfs"]["diff_ids"]
    if len(diff_ids) != len(pieces):
        raise EnvironmentStartError(f"damaged: {len(pieces)} layers, but its configuration lists {len(diff_ids)}")
    for diff_id in diff_ids:
        blob_name(diff_id)
    layers = [LayerSource(diff_id, *piece) for diff_id, piece in zip(diff_ids, pieces, strict=True)]
    settings = config.get("config") or {}
    words = [word.partition("=") for word in settings.get("Env") or []]
    return Contents(layers, {name: value for name, _, value in words}, settings.get("User") or "root")


def _load(blobs: Blobs, name: str) -> Any:
    with blobs.open(name) as stream:
        data = stream.read(MAX_JSON)
    if name.startswith("blobs/sha256/") and hashlib.sha256(data).hexdigest() != name.rpartition("/")[2]:
        raise EnvironmentStartError(f"damaged: {name} is not what its digest says")
    return json.loads(data)
