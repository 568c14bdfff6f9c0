"""Images: the same files give the same layer, built once, never half-written."""

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.environments.images.repository import build_repository, repository_key
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

OWNER = (os.getuid(), os.getgid())


def git(path, *arguments):
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=path, capture_output=True, text=True, check=True).stdout


def test_equal_files_give_equal_commits(tmp_path):
    files = {"b/x.py": "x = 1\n", "a.txt": "ä\r\n", ".gitignore": "*.py\n"}
    heads = []
    for name, order in (("one", files), ("two", dict(reversed(files.items())))):
        (tmp_path / name).mkdir()
        build_repository(tmp_path / name, order, "/testbed", OWNER)
        heads.append(git(tmp_path / name / "testbed", "rev-parse", "HEAD"))
    assert heads[0] == heads[1]
    top = tmp_path / "one/testbed"
    assert git(top, "ls-files").split() == [".gitignore", "a.txt", "b/x.py"]
    assert git(top, "status", "--porcelain") == ""
    assert (top / "a.txt").read_bytes() == "ä\r\n".encode()
    assert git(top, "log", "--all", "--oneline").count("\n") == 1
    assert git(top, "remote") == ""


@settings(max_examples=30)
@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=3))
def test_the_key_depends_on_every_file_and_on_nothing_else(files):
    key = repository_key(files, "/testbed", OWNER)
    assert key == repository_key(dict(reversed(files.items())), "/testbed", OWNER)
    assert key != repository_key({**files, "one more": ""}, "/testbed", OWNER)
    assert key != repository_key(files, "/other", OWNER)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", ".git/config", "", "a\0b"])
def test_files_outside_the_work_directory_are_refused(tmp_path, name):
    with pytest.raises(EnvironmentStartError, match="not a path inside"):
        build_repository(tmp_path, {name: "x"}, "/testbed", OWNER)


def test_many_builders_build_once(tmp_path):
    store, built = ImageStore(tmp_path), []
    barrier = threading.Barrier(6)

    def build(root):
        built.append(root)
        time.sleep(0.05)
        (root / "done").touch()

    def ask(_):
        barrier.wait()
        return store.get("key", build)

    with ThreadPoolExecutor(6) as threads:
        paths = set(threads.map(ask, range(6)))
    assert len(built) == 1
    assert paths == {tmp_path / "key"}
    assert (tmp_path / "key/done").exists()


def test_who_comes_late_does_not_wait_for_who_uses_the_layer(tmp_path):
    """Whoever was first keeps the layer for a whole rollout; in many races nobody may wait for that."""
    for number in range(40):
        store, barrier = ImageStore(tmp_path), threading.Barrier(8)

        def ask(_, store=store, barrier=barrier, key=f"key{number}"):
            barrier.wait()
            return store.get(key, lambda root: (root / "done").touch())

        threads = ThreadPoolExecutor(8)
        asked = [threads.submit(ask, i) for i in range(8)]
        assert {future.result(timeout=20) for future in asked} == {tmp_path / f"key{number}"}
        threads.shutdown()


def test_a_failed_build_leaves_nothing_and_can_be_repeated(tmp_path):
    store = ImageStore(tmp_path)

    def fail(root):
        (root / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.get("key", fail)
    assert not (tmp_path / "key").exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert store.get("key", lambda root: None) == tmp_path / "key"


def test_host_image_holds_tools_and_nothing_of_the_host(swe_home):
    (root,) = resolve(Image(), owner=OWNER).directories
    for name in ("bash", "sh", "git", "sed", "grep", "find", "diff"):
        assert (root / "usr/bin" / name).exists(), name
    assert {path.name for path in root.iterdir()} == {
        *("bin", "dev", "etc", "home", "lib", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr", "var")
    }
    assert {path.name for path in (root / "etc").iterdir()} == {
        "gitconfig",
        "group",
        "hosts",
        "nsswitch.conf",
        "passwd",
    }
    assert (root / "etc/passwd").read_text().count("\n") == 3
    assert not list(root.rglob("site-packages"))
    libc = next(root.rglob("libc.so.6")).parent
    assert all((libc / name).exists() for name in ("libstdc++.so.6", "libpthread.so.0")), "wheels expect them"
    for path in root.rglob("*"):
        if not path.is_symlink():
            assert not path.stat().st_mode & 0o6000, path
            assert path.stat().st_mode & 0o004, path


def test_a_repository_is_a_layer_on_top_of_its_base(swe_home, tmp_path):
    layer, base = resolve(Image(f"rootfs:{tmp_path}", files={"a": "x"}, workdir="/srv/repo"), owner=OWNER).directories
    assert base == tmp_path
    assert (layer / "srv/repo/a").read_text() == "x"
    assert (layer / "srv/repo/.git/HEAD").exists()
    assert layer.stat().st_mode & 0o777 == 0o755


def test_relative_work_directory_is_refused(swe_home):
    with pytest.raises(EnvironmentStartError, match="absolute"):
        resolve(Image(workdir="testbed"), owner=OWNER)
