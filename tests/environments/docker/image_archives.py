"""Images made by hand, as `docker load` takes them."""

import hashlib
import io
import json
import struct
import tarfile

ARM64 = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, 183) + bytes(44)
"""Head of a program for another processor."""


def entry(name, *, content=None, mode=0o755, link="", owner=0):
    """A directory, a file or a symlink of a layer."""
    member = tarfile.TarInfo(name)
    member.mode, member.uid, member.gid, member.linkname = mode, owner, owner, link
    member.type = tarfile.SYMTYPE if link else tarfile.DIRTYPE if content is None else tarfile.REGTYPE
    member.size = len(content or b"")
    return member, content


def layer(*entries):
    """A tar of entries."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content or b""))
    return stream.getvalue()


def saved(reference, content, *, architecture="amd64"):
    """The archive of an image of one layer, as `docker save` writes it."""
    digest = hashlib.sha256(content).hexdigest()
    config = {
        "architecture": architecture,
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    return layer(
        entry("layer.tar", content=content),
        entry("config.json", content=json.dumps(config).encode()),
        entry("manifest.json", content=json.dumps(manifest).encode()),
    )
