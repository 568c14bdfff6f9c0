"""The image store: built once, never half-written, within its budget, never taken from under anybody."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from swe_plugin.environments.images import ImageStore, writeback
from swe_plugin.environments.leases import reap
from swe_plugin.errors import EnvironmentStartError

pytestmark = pytest.mark.slow

MIB = 1 << 20


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path))
    return ImageStore()


def fill(store, key, size=MIB):
    """A released layer of one file."""
    store.release(store.get(key, lambda root: (root / "data").write_bytes(os.urandom(size)), what=f"layer {key}"))


def keys(store):
    return [entry.key for entry in store.entries()]


def test_an_entry_says_what_it_is_how_big_and_when_it_was_used(store):
    before = time.time() - 1
    fill(store, "aa", 3 * MIB)
    (entry,) = store.entries()
    assert (entry.key, entry.what, entry.n_files) == ("aa", "layer aa", 1)
    assert 3 * MIB <= entry.size_bytes < 3.1 * MIB
    assert before < entry.built_at <= time.time()
    os.utime(store.root / "entries/aa.json", (1, 1))
    assert store.entries()[0].last_use == 1
    fill(store, "aa")
    assert store.entries()[0].last_use > before


def test_the_least_recently_used_go_first_and_the_budget_holds(store):
    for age, key in enumerate(["cc", "aa", "bb"]):
        fill(store, key)
        os.utime(store.root / f"entries/{key}.json", (age, age))
    store.budget_bytes = int(2.5 * MIB)
    fill(store, "dd")
    assert keys(store) == ["bb", "dd"]
    assert not (store.root / "cc").exists()
    assert list((store.root / "tmp").iterdir()) == []
    assert sorted(path.name for path in (store.root / "locks").iterdir()) == ["bb", "dd"]


def test_what_is_held_is_never_evicted_however_old(store):
    held = store.get("aa", lambda root: (root / "data").write_bytes(bytes(MIB)))
    twice = store.get("aa", lambda root: None)
    os.utime(store.root / "entries/aa.json", (1, 1))
    store.budget_bytes = MIB // 2
    fill(store, "bb")
    assert (held / "data").exists()
    assert store.is_held("aa")
    store.release(twice)
    assert store.shrink(0) != []
    assert (held / "data").exists(), "held once more"
    store.release(held)
    assert [entry.key for entry in store.shrink(0)] == ["aa"]
    assert keys(store) == []


HOLDER = """
import sys, time
from swe_plugin.environments.images import ImageStore
ImageStore().get("aa", lambda root: None)
print("held", flush=True)
time.sleep(60)
"""


def test_another_process_holds_until_it_dies(store):
    fill(store, "aa")
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        assert store.shrink(0) == []
        other.kill()
    assert [entry.key for entry in store.shrink(0)] == ["aa"]


def test_a_forked_child_does_not_hold_what_its_parent_held(store):
    store.get("aa", lambda root: None)
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    child.start()
    try:
        store.release(store.root / "aa")
        assert store.remove("aa")
    finally:
        child.kill()
        child.join()


BUILDER = """
import os, sys, time
from pathlib import Path
from swe_plugin.environments.images import ImageStore

def build(root):
    with open(sys.argv[1], "a") as log:
        log.write("built\\n")
    for number in range(20):
        (root / str(number)).write_text("x" * 1000)
        time.sleep(0.005)

path = ImageStore().get("aa", build)
print(len(list(path.iterdir())), flush=True)
"""


def test_eight_processes_that_want_the_same_build_it_once(store, tmp_path):
    command = [sys.executable, "-c", BUILDER, str(tmp_path / "log")]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert [other.communicate(timeout=60)[0] for other in others] == ["20\n"] * 8
    assert (tmp_path / "log").read_text() == "built\n"


def test_kill_9_during_a_build_leaves_a_usable_store(store, tmp_path):
    command = [sys.executable, "-c", BUILDER, str(tmp_path / "log")]
    for delay_s in (0.0, 0.02, 0.05, 0.09):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as builder:
            deadline = time.monotonic() + 20
            (tmp_path / "log").unlink(missing_ok=True)
            while not (tmp_path / "log").exists() and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(delay_s)
            builder.send_signal(signal.SIGKILL)
        assert not store.has("aa") or len(list((store.root / "aa").iterdir())) == 20
    reap()
    assert list((store.root / "tmp").iterdir()) == []
    path = store.get("aa", lambda root: (root / "whole").touch())
    assert store.damage(store.entries()[0]) == ""
    assert path.is_dir()


def test_a_store_that_lost_its_descriptions_writes_them_anew(store):
    fill(store, "aa")
    (entry,) = store.entries()
    (store.root / "entries/aa.json").write_text("{")
    assert store.entries()[0].listing == entry.listing
    assert [entry.key for entry in store.shrink(0)] == ["aa"]


def test_nobody_else_may_enter(store):
    fill(store, "aa")
    assert store.root.stat().st_mode & 0o777 == 0o700


def test_damage_is_found_and_removed_layers_are_built_again(store):
    fill(store, "aa")
    (entry,) = store.entries()
    assert store.damage(entry) == ""
    with (store.root / "aa/data").open("r+b") as file:
        file.truncate(10)
    assert store.damage(entry) == "a file was changed"
    (store.root / "aa/more").touch()
    assert store.damage(entry) == "2 files instead of 1"
    assert store.remove("aa")
    fill(store, "aa")
    assert store.damage(store.entries()[0]) == ""


def test_a_full_disk_says_what_to_do(store):
    def build(root):
        raise OSError(28, "No space left on device")

    with pytest.raises(EnvironmentStartError, match=r"layer x: no space left below .*cache prune"):
        store.get("aa", build, what="layer x")


def test_a_layer_that_could_not_be_written_out_is_none(store, monkeypatch):
    def broken(fd):
        raise OSError(errno.EIO, "the disk is broken")

    with monkeypatch.context() as patch:
        patch.setattr(writeback, "_sync", broken)
        with pytest.raises(OSError, match="the disk is broken"):
            fill(store, "aa")
    assert not store.has("aa")
    assert list((store.root / "tmp").iterdir()) == []


def test_eight_processes_that_want_the_same_twenty_layers_build_each_once(store):
    wanted, log = [f"{number:02x}" for number in range(20)], store.root.parent / "builds"

    def build(key, root):
        time.sleep(0.01)
        with log.open("a") as built:
            built.write(f"{key}\n")
        (root / "data").write_text(key)

    def want(first):
        for key in wanted[first:] + wanted[:first]:
            layer = store.get(key, lambda root, key=key: build(key, root))
            assert (layer / "data").read_text() == key
            store.release(layer)

    processes = [multiprocessing.get_context("fork").Process(target=want, args=(number,)) for number in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    assert sorted(log.read_text().split()) == wanted
