"""kill -9 of builders and evictors at random instants: no layer that anybody can use is ever less than whole."""

import multiprocessing
import random
import time

import pytest

from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.environments.leases import lease_directory, reap
from swe_plugin.types import Image

from .image_archives import directory_layer, docker_save, layer
from .image_repositories import git
from .test_base_commits import ME, write

FORK = multiprocessing.get_context("fork")
N_ROUNDS, N_PROCESSES = 34, 3


@pytest.fixture
def image(tmp_path, monkeypatch):
    """Three layers with whiteouts, and a repository whose history has to be cut."""
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))
    top = tmp_path / "image/testbed"
    top.mkdir(parents=True)
    git(top, "init", "-q")
    write(top, {f"{number}.py": str(number) * 500 for number in range(40)})
    git(top, "add", ".")
    git(top, "commit", "-qm", "one")
    lowest = layer(*((f"usr/{number}", "x" * 3000) for number in range(100)), ("srv/a", "a"), ("srv/b", "b"))
    layers = [lowest, layer(("srv/.wh.a", ""), ("etc/x", "x")), directory_layer(tmp_path / "image")]
    docker_save(tmp_path / "x.tar", layers)
    return Image(f"oci:{tmp_path}/x.tar")


def build(image):
    resolve(image, owner=ME).release()


def evict():
    ImageStore().shrink(0)


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_no_instant_is_a_bad_one_to_die(image):
    chance, store = random.Random(11), ImageStore()
    began = time.monotonic()
    build(image)
    whole_s = time.monotonic() - began
    evict()
    n_killed = 0
    for number in range(N_ROUNDS):
        works = [FORK.Process(target=build, args=(image,)) for _ in range(N_PROCESSES)]
        if number % 4 == 3:
            works.append(FORK.Process(target=evict))
        for work in works:
            work.start()
        for work in works:
            time.sleep(chance.uniform(0, min(whole_s, 1.0) / 2))
            n_killed += work.is_alive()
            work.kill()
        for work in works:
            work.join()
        for entry in store.entries():
            assert "was lost" not in entry.what
            assert store.damage(entry) == ""
        if number % 3 == 2:
            evict()
    assert n_killed > N_ROUNDS / 2, "most died at work"
    reap()
    assert list((store.root / "tmp").iterdir()) == []
    assert list(lease_directory().iterdir()) == []
    layers = resolve(image, owner=ME)
    assert layers.view.names("/srv") == ["b"]
    assert len(layers.view.names("/usr")) == 100
    assert len(layers.view.names("/testbed")) == 41
    assert not any(store.damage(entry) for entry in store.entries())
    layers.release()
    assert len(store.shrink(0)) == 4
