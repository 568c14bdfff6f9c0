"""Layers written for daemons are the same image again, byte by byte the same each time."""

import json
import os
import stat
import tarfile

import pytest

from swe_plugin.environments.images import resolve, write_archive
from swe_plugin.types import Image

from .image_archives import docker_save, layer, member

ME = (os.geteuid(), os.getegid())


@pytest.fixture
def layers(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))
    tool, data = member("bin/tool", data=b"#!/bin/sh", mode=0o755)
    lowest = layer(("srv/a", "a"), ("srv/b/c", "c"), (tool, data), ("bin/same", "=bin/tool"), ("to", "->/bin/tool"))
    upper = layer(("srv/.wh.a", ""), ("srv/b/.wh..wh..opq", ""), ("srv/b/d", "d"), member("tmp", b"5", mode=0o1777))
    docker_save(tmp_path / "x.tar", [lowest, upper], config={"Env": ["A=1", "PATH=/opt/bin:/bin"]})
    return resolve(Image(f"oci:{tmp_path}/x.tar", files={"new.py": "n"}), owner=ME)


def test_what_was_written_is_read_as_the_same(layers, tmp_path):
    write_archive(layers, "swe-plugin:demo", tmp_path / "out.tar")
    again = resolve(Image(f"oci:{tmp_path}/out.tar#swe-plugin:demo", workdir="/nowhere"), owner=ME)
    assert len(again.directories) == len(layers.directories) == 3
    assert tree(again.view) == tree(layers.view)
    assert again.env == {"A": "1", "PATH": "/opt/bin:/bin"}
    assert again.view.find("/bin/tool").samefile(again.view.find("/bin/same"))


def tree(view):
    """Everything that an agent would see of it."""
    found = {}
    for path, real in view.walk("/"):
        info = real.lstat()
        content = real.readlink() if real.is_symlink() else real.is_file() and real.read_bytes()
        found[str(path)] = (stat.filemode(info.st_mode), info.st_uid, content, real.is_file() and int(info.st_mtime))
    return found


def test_equal_layers_give_equal_bytes(layers, tmp_path):
    for name in ("one.tar", "two.tar"):
        write_archive(layers, "swe-plugin:demo", tmp_path / name)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "one.tar", "two.tar", "x.tar"]


def test_an_ordinary_users_layers_become_roots_and_the_agents(layers, tmp_path):
    write_archive(layers, "swe-plugin:demo", tmp_path / "out.tar", agent=(1000, 1001), workdir="/testbed")
    owners = {}
    with tarfile.open(tmp_path / "out.tar") as archive:
        (entry,) = json.load(archive.extractfile("manifest.json"))
        for name in entry["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(name)) as tar:
                owners |= {item.name: (item.uid, item.gid) for item in tar}
    assert owners["bin/tool"] == (0, 0)
    assert owners["testbed"] == owners["testbed/new.py"] == owners["testbed/.git/HEAD"] == (1000, 1001)
