"""Trees that others made are removed whatever their permissions, and nothing beyond them."""

import multiprocessing
import os
import tempfile
from pathlib import Path

import pytest

from swe_plugin.environments.leases import ResourceLease, reap
from swe_plugin.environments.removal import remove_tree

ORDINARY = 65534


def as_ordinary_user(function):
    """Run it in a child without privilege, for which permissions count."""

    def run():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(ORDINARY)
            os.setuid(ORDINARY)
        function()

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join(60)
    assert child.exitcode == 0


@pytest.fixture
def place(monkeypatch):
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        monkeypatch.setenv("SWE_PLUGIN_HOME", f"{name}/home")
        yield Path(name)


def locked(top, outside):
    """A tree as overlayfs leaves it (``work/work`` without permissions), and worse."""
    outside.mkdir()
    (outside / "precious").touch()
    outside.chmod(0o500)
    (top / "work/work").mkdir(parents=True)
    (top / "deep/er").mkdir(parents=True)
    (top / "deep/er/file").touch()
    (top / "link").symlink_to(outside)
    (top / "deep/link").symlink_to(outside)
    for name in ("work/work", "deep/er", "deep"):
        (top / name).chmod(0)
    top.chmod(0o500)


def test_permissions_do_not_matter_and_links_are_not_followed(place):
    def check():
        locked(place / "tree", place / "outside")
        remove_tree(place / "tree")
        assert not (place / "tree").exists()
        assert (place / "outside/precious").exists()
        assert (place / "outside").stat().st_mode & 0o777 == 0o500
        (place / "alias").symlink_to(place / "outside")
        remove_tree(place / "alias")
        assert (place / "outside/precious").exists()
        (place / "outside").chmod(0o700)

    as_ordinary_user(check)


def test_the_reaper_gets_rid_of_them(place):
    def check():
        lease = ResourceLease("image", directories=[place])
        locked(lease.directories[0], place / "outside")
        lease.abandon()
        report = reap()
        assert (report.directories, report.problems) == (1, [])
        assert not lease.directories[0].exists()
        (place / "outside").chmod(0o700)

    as_ordinary_user(check)
