"""Instances of one repository: each has exactly its own history, and what they have in common is there once."""

import os
import subprocess

import pytest

from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.types import Image

from .image_archives import directory_layer, docker_save
from .image_repositories import git

pytestmark = pytest.mark.slow

ME = (os.geteuid(), os.getegid())
COMMITS = 22


@pytest.fixture
def commits(tmp_path, monkeypatch):
    """Of an image's repository, oldest first; one is a merge, one has a tag."""
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))
    top = tmp_path / "image/testbed"
    top.mkdir(parents=True)
    git(top, "init", "-q", "--initial-branch=main")
    for number in range(COMMITS):
        (top / f"{number}").write_bytes(os.urandom(30_000))
        if number == 6:
            git(top, "checkout", "-q", "-b", "side", "HEAD~2")
            (top / "side").write_text("side")
            git(top, "add", "side")
            git(top, "commit", "-qm", "side")
            git(top, "checkout", "-q", "main")
            git(top, "merge", "-q", "--no-edit", "side")
        git(top, "add", "-A")
        git(top, "commit", "-qm", f"{number}")
    git(top, "tag", "-a", "-m", "v", "v1", "HEAD~15")
    docker_save(tmp_path / "x.tar", [directory_layer(tmp_path / "image")])
    return objects_of(top, "rev-list", "--first-parent", "--reverse", "HEAD")


def objects_of(top, *words):
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", top, *words], check=True, capture_output=True, text=True
    )
    return [line.split()[0] for line in done.stdout.splitlines()]


def instance(tmp_path, commit):
    return resolve(Image(f"oci:{tmp_path}/x.tar", commit=commit), owner=ME)


def test_each_has_the_objects_that_its_base_commit_reaches_and_no_others(tmp_path, commits):
    for commit in (commits[-1], commits[0], commits[6], commits[17]):
        top = instance(tmp_path, commit).directories[0] / "testbed"
        here = objects_of(top, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        assert set(here) == set(objects_of(top, "rev-list", "--objects", "HEAD", "--tags"))
        assert set(here) <= set(objects_of(tmp_path / "image/testbed", "rev-list", "--objects", commit, "--tags"))
        assert objects_of(top, "rev-parse", "HEAD") == [commit]
        git(top, "fsck", "--strict", "--no-dangling")


def test_what_they_have_in_common_is_on_the_disk_once_and_goes_with_the_last(tmp_path, commits):
    store = ImageStore()
    for commit in commits[-3:]:
        instance(tmp_path, commit).release()
    sizes = {path.stat().st_ino: path.stat().st_size for path in store.root.rglob("*.pack")}
    assert sum(sizes.values()) < 1.5 * COMMITS * 30_000, "alone, each would have that much"
    assert all(store.damage(entry) == "" for entry in store.entries())
    store.shrink(0)
    assert list((store.root / "packs").iterdir()) == []
