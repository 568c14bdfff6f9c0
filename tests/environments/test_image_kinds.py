"""Images of every kind, made here, and sandboxes that run on them."""

import bz2
import dataclasses
import gzip
import lzma
import os
import shutil
import sys
import tarfile
from functools import partial

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

from .conftest import AGENT, MODES, skip_unless
from .image_archives import directory_layer, docker_save, layer, member, oci_layout
from .image_repositories import FIX, git, leaky_repository

pytestmark = pytest.mark.slow

HELLO = layer(("testbed/", None), ("testbed/hello.txt", "hello\n"), ("srv/a/one", "1"), ("srv/b", "2"), ("srv/c", "3"))
CHANGES = layer(("srv/.wh.b", ""), ("srv/a/.wh..wh..opq", ""), ("srv/a/two", "2"), ("srv/c/", None), ("srv/c/d", "4"))
TREE = "srv: a c\nsrv/a: two\nsrv/c: d\nhello\n"
LOOK = "cd / && for d in srv srv/a srv/c; do echo $d: $(ls $d); done; cat /testbed/hello.txt"


@pytest.fixture(scope="module")
def root(home, tmp_path_factory):
    """A directory with bash, git and coreutils: the host image without Python, for these tests' time."""
    host, root = resolve(Image(), owner=AGENT).directories[-1], tmp_path_factory.mktemp("base") / "root"
    shutil.copytree(host, root, symlinks=True, copy_function=os.link, ignore=shutil.ignore_patterns("python*"))
    return root


@pytest.fixture(scope="module")
def base(root):
    """The same as a layer."""
    return directory_layer(root)


@pytest.fixture(scope="module")
def kinds(root, base, tmp_path_factory):
    """The same image in every form, by name."""
    top = tmp_path_factory.mktemp("archives")
    layers = [base, HELLO, CHANGES]
    fast = partial(gzip.compress, compresslevel=1)
    layout = oci_layout(top / "layout", {"demo": layers, "other": [base, HELLO]}, compress=fast)
    with tarfile.open(top / "oci.tar", "w") as archive:
        for path in layout.iterdir():
            archive.add(path, path.name)
    docker_save(top / "save.tar", layers)
    whole = top / "root"
    shutil.copytree(root, whole, symlinks=True, copy_function=os.link)
    for name, text in {"srv/a/two": "2", "srv/c/d": "4", "testbed/hello.txt": "hello\n"}.items():
        (whole / name).parent.mkdir(parents=True)
        (whole / name).write_text(text)
    (top / "root.tar.gz").write_bytes(fast(directory_layer(whole)))
    return {
        "layout": f"oci:{layout}#demo",
        "layout, short": f"oci:{layout}#other",
        "archive": f"oci:{top}/oci.tar#demo",
        "docker save": f"oci:{top}/save.tar",
        "root tar": f"rootfs:{top}/root.tar.gz",
        "root": f"rootfs:{whole}",
    }


def spec(image, mode="auto", **fields):
    limits = EnvironmentLimits(memory_mib=256, disk_mib=64)
    return EnvironmentSpec(image, limits, AGENT_ENV, label="task-7@0", options={"mode": mode}, **fields)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["layout", "archive", "docker save", "root tar", "root"])
async def test_every_kind_starts_and_is_the_same_inside(kinds, kind, mode):
    skip_unless(mode)
    async with SandboxEnvironment(spec(Image(kinds[kind]), mode)) as environment:
        assert (await environment.shell(LOOK)).stdout == TREE
        script = "echo mine > /testbed/new && rm /testbed/hello.txt && git -C / --version && ls /testbed"
        assert (await environment.shell(script)).stdout.endswith("\nnew\n")
    async with SandboxEnvironment(spec(Image(kinds[kind]), mode)) as environment:
        assert (await environment.shell("ls /testbed")).stdout == "hello.txt\n"


def test_images_share_their_layers(kinds):
    one, two = (resolve(Image(kinds[kind], workdir="/nowhere"), owner=AGENT) for kind in ("layout", "layout, short"))
    assert one.directories[1:] == two.directories
    three = resolve(Image(kinds["docker save"], workdir="/nowhere"), owner=AGENT)
    assert one.directories == three.directories, "the form does not matter, the content does"
    assert one.key == three.key != two.key
    for layers in (one, two, three):
        layers.release()


def test_a_second_look_reads_no_archive(kinds, tmp_path):
    docker_save(tmp_path / "x.tar", [HELLO])
    image = Image(f"oci:{tmp_path}/x.tar", workdir="/nowhere")
    first = resolve(image, owner=AGENT)
    (tmp_path / "x.tar").unlink()
    assert resolve(image, owner=AGENT).directories == first.directories
    for _ in range(2):
        first.release()
    ImageStore().remove(first.directories[0].name)
    with pytest.raises(EnvironmentStartError, match=r"x.tar does not exist"):
        resolve(image, owner=AGENT)


async def test_a_running_sandbox_keeps_its_layers(kinds):
    store = ImageStore()
    async with SandboxEnvironment(spec(Image(kinds["layout"]))) as environment:
        used = {path.name for path in environment._layers.directories}
        store.shrink(0)
        assert used <= {path.name for path in store.root.iterdir()}
        assert (await environment.shell(LOOK)).stdout == TREE
    assert not any(store.is_held(key) for key in used)


async def test_variables_of_the_image_are_there_and_its_path_counts(base, tmp_path):
    env = ["PATH=/opt/tool/bin:/usr/local/bin:/usr/bin:/bin", "LANG=en_US.UTF-8", "TOOL=yes"]
    tool = layer(
        ("testbed/", None), member("opt/tool/bin/tool", data=b"#!/bin/sh\necho tool $TOOL $LANG\n", mode=0o755)
    )
    docker_save(tmp_path / "x.tar", [base, tool], config={"Env": env})
    async with SandboxEnvironment(spec(Image(f"oci:{tmp_path}/x.tar"))) as environment:
        assert (await environment.exec(["tool"])).stdout == "tool yes C.UTF-8\n"
        assert (await environment.shell("tool")).stdout == "tool yes C.UTF-8\n"


@pytest.fixture(scope="module")
def leaky(base, tmp_path_factory):
    """An image with a repository that hides the fix everywhere; (image, base commit, forbidden objects)."""
    top = tmp_path_factory.mktemp("leaky")
    commit, forbidden = leaky_repository(top / "testbed", top / "opt/objects")
    docker_save(top / "x.tar", [base, _below(top, "opt"), _below(top, "testbed")])
    return Image(f"oci:{top}/x.tar", commit=commit), commit, forbidden


def _below(top, name):
    """The directory `name` of `top`, as a layer."""
    only = top / f"only-{name}"
    only.mkdir()
    (top / name).rename(only / name)
    return directory_layer(only)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("commit_given", [True, False], ids=["base commit given", "checked out"])
async def test_nothing_after_the_base_commit_is_in_the_workspace(leaky, mode, commit_given):
    skip_unless(mode)
    image, commit, forbidden = leaky
    image = image if commit_given else dataclasses.replace(image, commit="")
    async with SandboxEnvironment(spec(image, mode)) as environment:
        listed = await environment.exec(["git", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"])
        assert listed.exit_code == 0, listed.stderr
        there = set(listed.stdout.split())
        assert commit in there
        assert not there & forbidden
        asked = await environment.exec(
            ["git", "cat-file", "--batch-check"], stdin="\n".join(sorted(forbidden)).encode()
        )
        assert asked.stdout.count(" missing\n") == len(forbidden) > 8
        refs = await environment.exec(["git", "for-each-ref", "--format=%(refname)"])
        assert refs.stdout.split() == ["refs/heads/main", "refs/tags/v1.0", "refs/tags/v1.1"]
        assert (await environment.exec(["git", "log", "--all", "--format=%s"])).stdout == "work 2\nwork 1\n"
        assert (await environment.exec(["git", "reflog"])).stdout == ""
        assert (await environment.exec(["git", "remote"])).stdout == ""
        assert (await environment.exec(["git", "stash", "list"])).stdout == ""
        found = await environment.shell(
            "grep -rlaE 'the fix|example.invalid|fsmonitor' /testbed; find .git -name '*HEAD*'"
        )
        assert found.stdout == ".git/HEAD\n"
        assert (await environment.exec(["git", "status", "--porcelain"])).stdout == "?? untracked.txt\n"
        assert (await environment.exec(["git", "fsck", "--full"])).exit_code == 0
        assert (await environment.exec(["git", "describe", "--tags"])).stdout == "v1.1\n"
        await environment.shell("echo x >> calc.py && git -c user.name=a -c user.email=a@b commit -qam mine")
        assert (await environment.exec(["git", "log", "-1", "--format=%s"])).stdout == "mine\n"


async def test_a_base_commit_that_the_image_lacks_is_said(leaky):
    image = dataclasses.replace(leaky[0], commit="12" * 20)
    with pytest.raises(EnvironmentStartError, match=r"task-7@0: image 'oci:.*x.tar': .* lacks the base commit 1212"):
        await SandboxEnvironment(spec(image)).start()


def test_a_checkout_brings_the_history_up_to_its_commit_only(home, tmp_path):
    commit, forbidden = leaky_repository(tmp_path / "repo", tmp_path / "alternate")
    git(tmp_path / "repo", "replace", "-d", commit)
    image = Image(repository=str(tmp_path / "repo"), commit=commit)
    layers = resolve(image, owner=AGENT)
    top = layers.directories[0] / "testbed"
    assert (top / "calc.py").read_text() != FIX
    assert git(top, "rev-parse", "HEAD") == commit
    assert git(top, "status", "--porcelain") == ""
    there = set(git(top, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
    assert not there & forbidden
    assert git(top, "tag").split() == ["v1.0", "v1.1"]
    assert top.stat().st_uid == (top / "calc.py").stat().st_uid == AGENT[0]
    with pytest.raises(EnvironmentStartError, match=r"image.commit='main': must be a full commit id"):
        resolve(dataclasses.replace(image, commit="main"), owner=AGENT)


ALIEN = b"\x7fELF\x02\x01\x01" + bytes(11) + (8).to_bytes(2, "little") + bytes(44)
BAD = {
    "missing file": ("oci:{top}/none.tar", [], "none.tar does not exist; wanted: save one"),
    "no archive": ("oci:{top}/text", [], "damaged"),
    "no image of that name": ("oci:{top}/x.tar#nope", [HELLO], "holds no 'nope'; name one of demo:latest after a '#'"),
    "no work directory": ("oci:{top}/x.tar", [layer(("srv/", None))], r"no directory /testbed \(image.workdir\): name"),
    "no bash": ("oci:{top}/x.tar", [HELLO], "has no bash in /usr/local/sbin.*: the agent's shell is bash: install it"),
    "no git": ("oci:{top}/x.tar", [HELLO, layer(("bin/bash", "x"))], "has no git in .*: patches are read with git"),
    "other machine": (
        "oci:{top}/x.tar", [HELLO, layer(member("bin/bash", data=ALIEN))],
        "wrong architecture: its bash is for ELF machine 8, this machine is",
    ),
    "no python": ("oci:{top}/x.tar", [HELLO, layer(("bin/bash", "x"))], "has no python3.11 in .*: its requirements"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_image_is_one_clear_error_with_instance_and_fix(home, tmp_path, name):
    reference, layers, message = BAD[name]
    (tmp_path / "text").write_text("hello")
    docker_save(tmp_path / "x.tar", layers)
    image = Image(reference.format(top=tmp_path))
    if name == "no python":
        image = dataclasses.replace(image, python="python3.11", requirements=["sympy"])
    with pytest.raises(EnvironmentStartError, match=message) as caught:
        await SandboxEnvironment(spec(image)).start()
    assert str(caught.value).startswith(f"task-7@0: image '{reference.format(top=tmp_path)}': ")
    assert "\n" not in str(caught.value)


async def test_an_image_for_another_architecture_says_so_before_anything_is_unpacked(home, tmp_path):
    docker_save(tmp_path / "x.tar", [HELLO], architecture="riscv64")
    oci_layout(tmp_path / "layout", {"a": ([HELLO], {"architecture": "s390x"})})
    for reference, there in ((f"oci:{tmp_path}/x.tar", "riscv64"), (f"oci:{tmp_path}/layout", "s390x")):
        with pytest.raises(
            EnvironmentStartError, match=f"wrong architecture: it is for linux/{there}, this machine is"
        ):
            resolve(Image(reference), owner=AGENT)


def test_a_work_directory_that_the_agent_may_not_write_is_refused(kinds):
    image = Image(kinds["root"], workdir="/usr")
    layers = resolve(image, owner=(os.geteuid(), os.getegid()))
    layers.check(image, AGENT_ENV, (os.geteuid(), os.getegid()))
    with pytest.raises(EnvironmentStartError, match=r"image 'rootfs:.*': /usr is read-only for the agent \(uid 4242\)"):
        layers.check(image, AGENT_ENV, (4242, 4242))


@pytest.mark.parametrize("what", ["layer", "config", "manifest", "missing"])
def test_a_damaged_layout_is_found_by_its_digests(home, tmp_path, what):
    layout = oci_layout(tmp_path / "layout", {"demo": [layer(("a", what))]}, compress=bytes)
    blobs = {path: path.read_bytes() for path in (layout / "blobs/sha256").iterdir()}
    mark = {"layer": b"ustar", "config": b'"rootfs"', "manifest": b'"layers": [', "missing": b"ustar"}[what]
    (path,) = [path for path, data in blobs.items() if mark in data]
    if what == "missing":
        path.unlink()
    else:
        path.write_bytes(blobs[path].replace(b"0", b"1", 1))
    with pytest.raises(EnvironmentStartError, match=r"image 'oci:.*layout'.* damaged") as caught:
        resolve(Image(f"oci:{layout}", workdir="/nowhere"), owner=AGENT)
    assert "\n" not in str(caught.value)
    assert not ImageStore().has("a")


@pytest.fixture(params=["isal", "builtin"])
def gunzip(request, monkeypatch):
    """Which library undoes gzip."""
    if request.param == "builtin":
        monkeypatch.setitem(sys.modules, "isal", None)
    else:
        pytest.importorskip("isal", reason="layers compressed with gzip, fast")


@pytest.mark.parametrize("compression", ["none", "gzip", "bz2", "xz", "zstd"])
def test_layers_may_be_compressed(home, tmp_path, gunzip, compression):
    compress = {"none": bytes, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}.get(compression)
    if compress is None:
        compress = pytest.importorskip("zstandard", reason="layers compressed with zstd").compress
    data = layer(("testbed/", None), ("testbed/word", compression))
    layout = oci_layout(tmp_path / "layout", {"demo": [data]}, compress=compress)
    layers = resolve(Image(f"oci:{layout}", workdir="/nowhere"), owner=AGENT)
    assert (layers.directories[0] / "testbed/word").read_text() == compression


@pytest.mark.parametrize("change", ["cut", "other bytes", "other sum"])
def test_a_damaged_gzip_is_an_error_that_names_the_image(home, tmp_path, gunzip, change):
    def compress(data):
        good = gzip.compress(data)
        middle = len(good) // 2
        return {
            "cut": good[:middle],
            "other bytes": good[:middle] + bytes(20) + good[middle + 20 :],
            "other sum": good[:-8] + bytes(8),
        }[change]

    layout = oci_layout(tmp_path / "layout", {"demo": [layer(("a", os.urandom(50000).hex()))]}, compress=compress)
    with pytest.raises(EnvironmentStartError, match=r"image 'oci:.*layout'.*(damaged|CRC)") as caught:
        resolve(Image(f"oci:{layout}", workdir="/nowhere"), owner=AGENT)
    assert "\n" not in str(caught.value)
