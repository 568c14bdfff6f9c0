"""Layers, OCI layouts and `docker save` archives, made from scratch for tests."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
HERE = ARCHITECTURES[os.uname().machine]


def layer(*entries):
    """A tar of entries: `("d/", None)` a directory, `("f", "text")` a file, `("l", "->target")` a link,
    `("h", "=target")` a hard link, or a `TarInfo`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            info, data = entry if isinstance(entry[0], tarfile.TarInfo) else _member(*entry)
            archive.addfile(info, io.BytesIO(data) if data is not None else None)
    return buffer.getvalue()


def member(name, kind=tarfile.REGTYPE, data=b"", **fields):
    """One entry with the fields of `TarInfo` given."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(data), 0o755 if kind == tarfile.DIRTYPE else 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def _member(name, content):
    if name.endswith("/"):
        return member(name, tarfile.DIRTYPE)
    if content.startswith("->"):
        return member(name, tarfile.SYMTYPE, linkname=content[2:])
    if content.startswith("="):
        return member(name, tarfile.LNKTYPE, linkname=content[1:])
    return member(name, data=content.encode())


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def directory_layer(root: Path):
    """A directory of this machine as a layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(root, arcname=".")
    return buffer.getvalue()


def config(layers, architecture=HERE, **extra):
    text = {"architecture": architecture, "os": "linux", "rootfs": {"type": "layers"}, **extra}
    text["rootfs"]["diff_ids"] = [sha256(data) for data in layers]
    return json.dumps(text).encode()


def oci_layout(path: Path, images, *, compress=gzip.compress):
    """Write an OCI layout. `images`: name -> list of layer tars, or (layers, options of `config`)."""
    (path / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    entries = []

    def blob(data, media_type, **fields):
        (path / "blobs/sha256" / sha256(data)[7:]).write_bytes(data)
        return {"mediaType": media_type, "digest": sha256(data), "size": len(data), **fields}

    for name, image in images.items():
        layers, options = image if isinstance(image, tuple) else (image, {})
        suffix = {gzip.compress: "+gzip"}.get(compress, "")
        manifest = {
            "schemaVersion": 2,
            "config": blob(config(layers, **options), "application/vnd.oci.image.config.v1+json"),
            "layers": [blob(compress(data), f"application/vnd.oci.image.layer.v1.tar{suffix}") for data in layers],
        }
        entry = blob(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        entry["platform"] = {"os": "linux", "architecture": options.get("architecture", HERE)}
        entries.append(entry)
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
    return path


def docker_save(path: Path, layers, *, tag="demo:latest", mode="w", **options):
    """Write an archive as `docker save` did before it spoke OCI."""
    text = config(layers, **options)
    names = [f"{index}/layer.tar" for index in range(len(layers))]
    manifest = [{"Config": sha256(text)[7:] + ".json", "RepoTags": [tag], "Layers": names}]
    files = dict(zip(names, layers, strict=True)) | {manifest[0]["Config"]: text}
    with tarfile.open(path, mode) as archive:
        for name, data in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
