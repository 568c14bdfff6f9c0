"""Layers of images: what overlayfs shows of them is what their archives say, and nothing gets out."""

import contextlib
import io
import os
import resource
import shutil
import stat
import subprocess
import tarfile
import tracemalloc
import types
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_plugin.environments.images import unpack as module
from swe_plugin.environments.images import writeback
from swe_plugin.environments.images.unpack import LayerError, unpack_layer
from swe_plugin.environments.images.view import MergedView

from .image_archives import layer, member, sha256

AS_ROOT = os.geteuid() == 0


def unpack(tmp_path, *layers, squash=not AS_ROOT):
    """Unpack layers, lowest first; returns their directories, topmost first."""
    roots = []
    for data in layers:
        root = Path(tmp_path, f"layer{len(roots)}")
        root.mkdir()
        unpack_layer(io.BytesIO(data), sha256(data), root, MergedView(roots), squash=squash)
        roots.insert(0, root)
    return roots


def seen(roots):
    """path -> None (a directory), content or link, as `MergedView` has it."""
    return {str(path)[1:]: _content(real) for path, real in MergedView(roots).walk("/")}


def _content(real):
    if real.is_symlink():
        return f"->{real.readlink()}"
    return None if real.is_dir() else real.read_text()


def mounted(tmp_path, roots):
    """The same as the kernel has it: the layers mounted as overlayfs, in a mount namespace of its own."""
    for name in ("none", "at"):
        Path(tmp_path, name).mkdir(exist_ok=True)
    lowers = ":".join([*map(str, roots), str(Path(tmp_path, "none"))])
    options, flags = (f"lowerdir={lowers}", "-m") if AS_ROOT else (f"lowerdir={lowers},userxattr", "-Urm")
    script = 'mount -t overlay overlay -o "$1" "$2" && cd "$2" && find . -mindepth 1 -printf "%P\\t%y\\t%l\\n"'
    run = subprocess.run(
        ["unshare", flags, "sh", "-c", script, "sh", options, str(Path(tmp_path, "at"))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = (line.split("\t") for line in run.stdout.splitlines())
    return {path: {"d": None, "l": f"->{link}"}.get(kind, kind) for path, kind, link in rows}


def kinds(tree):
    return {path: "f" if value is not None and not value.startswith("->") else value for path, value in tree.items()}


def applied(layers):
    """A naive model: a dict, to which each layer's deletions and then its entries are applied in turn."""
    tree = {}

    def drop(path, itself=True):
        for known in [known for known in tree if known.startswith(path + "/") or (itself and known == path)]:
            del tree[known]

    for entries in layers:
        for path in [path for kind, path, _ in entries if kind == "delete"]:
            drop(path)
        for path in [path for kind, path, _ in entries if kind == "opaque"]:
            if tree.get(path, "no") is None:
                drop(path, itself=False)
        for kind, path, text in entries:
            if kind in ("delete", "opaque"):
                continue
            parents = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 1)]
            for parent in parents:
                if tree.get(parent, "no") is not None:
                    drop(parent)
                    tree[parent] = None
            if kind == "file":
                drop(path)
                tree[path] = text
            elif tree.get(path, "no") is not None:
                tree[path] = None
    return tree


def written(entries):
    names = {
        "delete": lambda path: _beside(path, ".wh." + Path(path).name),
        "opaque": lambda path: path + "/.wh..wh..opq",
    }
    rows = []
    for kind, path, text in entries:
        rows.append((path + "/", None) if kind == "directory" else (names.get(kind, str)(path), text))
    return layer(*rows)


def _beside(path, name):
    return str(Path(path).parent / name)


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
ENTRIES = st.tuples(st.sampled_from(["file", "file", "directory", "delete", "opaque"]), PATHS, st.sampled_from("xyz"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layers=st.lists(st.lists(ENTRIES, max_size=6), min_size=1, max_size=4))
def test_stacked_layers_are_what_a_naive_model_says(layers, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("layers")
    roots = unpack(tmp_path, *map(written, layers))
    expected = applied(layers)
    assert seen(roots) == expected
    assert mounted(tmp_path, roots) == kinds(expected)


def test_a_layer_keeps_modes_times_links_and_hard_links(tmp_path):
    info, data = member("bin/tool", data=b"#!/bin/sh\n", mode=0o4755, mtime=1234567890.5)
    entries = [
        member("tmp", tarfile.DIRTYPE, mode=0o1777),
        (info, data),
        ("bin/same", "=bin/tool"),
        ("to", "->/bin/tool"),
        member("pipe", tarfile.FIFOTYPE),
        member("null", tarfile.CHRTYPE),
    ]
    (root,) = unpack(tmp_path, layer(*entries))
    tool = (root / "bin/tool").stat()
    assert (stat.S_IMODE(tool.st_mode), tool.st_mtime_ns, tool.st_nlink) == (0o4755, 1234567890_500000000, 2)
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777
    assert (root / "bin/same").samefile(root / "bin/tool")
    assert str((root / "to").readlink()) == "/bin/tool"
    assert stat.S_ISFIFO((root / "pipe").stat().st_mode)
    assert not (root / "null").exists()


@pytest.mark.parametrize(
    "words", ["--format=gnu", "--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"]
)
def test_files_with_holes_are_whole(tmp_path, words):
    (tmp_path / "in").mkdir()
    with (tmp_path / "in/sparse").open("wb") as file:
        for offset in (0, 1 << 20, 3 << 20):
            file.seek(offset)
            file.write(b"data" * 2000)
        file.write(b"more" * (3 << 18))  # more than headers may take
        file.truncate(9 << 20)
    (tmp_path / "in/z").write_text("after it")
    names = ["sparse", "z"]
    tar = subprocess.run(["tar", "-C", tmp_path / "in", "-cS", words, *names], check=True, capture_output=True).stdout
    assert len(tar) < 4 << 20
    (root,) = unpack(tmp_path, tar)
    assert [(root / name).read_bytes() == (tmp_path / "in" / name).read_bytes() for name in names] == [True, True]


@pytest.mark.skipif(not AS_ROOT, reason="owners take root")
def test_owners_are_the_archives_or_squashed_to_the_caller(tmp_path):
    data = layer(
        member("mail", data=b"x", uid=8, gid=9, mode=0o000), member("spool", tarfile.DIRTYPE, uid=8, mode=0o000)
    )
    for name, squash, uid, mode in (("kept", False, 8, 0o000), ("squashed", True, os.geteuid(), 0o600)):
        (tmp_path / name).mkdir()
        unpack_layer(io.BytesIO(data), "", tmp_path / name, MergedView([]), squash=squash)
        info = (tmp_path / name / "mail").stat()
        assert (info.st_uid, stat.S_IMODE(info.st_mode)) == (uid, mode)


def test_a_directory_that_the_layer_does_not_list_is_as_below(tmp_path):
    lower = layer(member("tmp", tarfile.DIRTYPE, mode=0o1777), member("srv", tarfile.DIRTYPE, mode=0o700))
    upper, _ = unpack(tmp_path, lower, layer(("tmp/x", "x"), ("srv/.wh.no", ""), ("new/y", "y")))
    assert stat.S_IMODE((upper / "tmp").stat().st_mode) == 0o1777
    assert not (upper / "srv").exists(), "there was nothing to delete"
    assert stat.S_IMODE((upper / "new").stat().st_mode) == 0o755


def test_parents_that_are_links_lead_where_they_lead_inside(tmp_path):
    roots = unpack(
        tmp_path, layer(("usr/lib/", None), ("lib", "->usr/lib")), layer(("lib/new.so", "n"), ("lib/.wh.x", ""))
    )
    assert seen(roots) == {"usr": None, "usr/lib": None, "usr/lib/new.so": "n", "lib": "->usr/lib"}
    assert mounted(tmp_path, roots) == kinds(seen(roots))


def test_a_hard_link_to_a_file_of_a_lower_layer_is_a_copy(tmp_path):
    upper, lower = unpack(tmp_path, layer(("a", "text"), ("l", "->a")), layer(("b", "=a"), ("m", "=l")))
    assert (upper / "b").read_text() == "text"
    assert not (upper / "b").samefile(lower / "a")
    assert str((upper / "m").readlink()) == "a"


OUTSIDE = "OUTSIDE"
ESCAPES = {
    "dot dot": [("a/../../OUTSIDE/new", "x")],
    "absolute": [("/OUTSIDE/new", "x")],
    "link then file": [("to", "->OUTSIDE"), ("to/new", "x")],
    "relative link then file": [("to", "->" + "../" * 40 + "OUTSIDE"), ("to/new", "x")],
    "link to a link": [("one", "->OUTSIDE"), ("two", "->one"), ("two/new", "x")],
    "link then directory": [("to", "->OUTSIDE"), ("to/", None), ("to/new", "x")],
    "directory then link": [("to/", None), ("to/.wh.secret", ""), ("to", "->OUTSIDE")],
    "opaque then link": [("to/", None), ("to/.wh..wh..opq", ""), ("to", "->OUTSIDE")],
    "mode of what became a link": [member("to/in", tarfile.DIRTYPE, mode=0o777), ("to", "->OUTSIDE/..")],
    "hard link out": [("hard", "=../../OUTSIDE/secret"), ("hard", "x")],
    "hard link through a link": [("to", "->OUTSIDE"), ("hard", "=to/secret"), ("hard", "x")],
    "hard link to a link, then written": [("to", "->OUTSIDE/secret"), ("hard", "=to"), ("hard", "x")],
    "whiteout through a link": [("to", "->OUTSIDE"), ("to/.wh.secret", "")],
    "opaque through a link": [("to", "->OUTSIDE"), ("to/.wh..wh..opq", "")],
    "whiteout of dot dot": [("a/", None), ("a/.wh...", "")],
    "file through its own link": [("to", "->OUTSIDE/secret"), ("to", "x")],
    "a loop": [("a", "->b"), ("b", "->a"), ("a/new", "x")],
    "link in place of a full one": [
        ("a/", None), ("a/b/", None), ("a/b/f", "x"), ("a/b", "->OUTSIDE"), ("a/b/secret", "x")
    ],
    "hard link in place of a full one": [
        ("l", "->OUTSIDE"), ("a/", None), ("a/x", "x"), ("a", "=l"), ("a/secret", "x")
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize(
    "below", [[], [("to", "->OUTSIDE"), ("OUTSIDE/secret", "below"), ("a/x", "")]], ids=["alone", "on one"]
)
def test_nothing_gets_out_of_a_layer(tmp_path, name, below):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (outside / "in").mkdir(mode=0o700)
    before = _state(outside)

    def placed(entries):
        where = str(outside)
        rows = []
        for entry in entries:
            if isinstance(entry[0], tarfile.TarInfo):
                rows.append(entry)
            else:
                target = entry[1] and entry[1].replace("OUTSIDE", where if "->OUT" in entry[1] else where[1:])
                rows.append((entry[0].replace("OUTSIDE", where[1:]), target))
        return layer(*rows)

    try:
        roots = unpack(tmp_path, placed(below), placed(ESCAPES[name]))
    except LayerError:
        roots = [tmp_path / "layer0"]
    assert _state(outside) == before
    for root in roots:
        for path in root.rglob("*"):
            assert path.is_symlink() or not path.is_file() or path.read_text() != "secret"


STEPS = st.one_of(
    st.tuples(st.sampled_from(["a/", "a/b/", "b/"]), st.none()),
    st.tuples(st.sampled_from(["a", "b", "a/b", "l", "a/secret", "a/b/secret", "b/secret", "l/secret"]), st.just("x")),
    st.tuples(st.sampled_from(["a", "b", "a/b", "l"]), st.sampled_from(["->OUTSIDE", "->l", "=l", "=a"])),
    st.tuples(st.sampled_from(["a/.wh.secret", "a/b/.wh.secret", ".wh.b", "a/.wh..wh..opq"]), st.just("")),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=2, max_size=9))
def test_nothing_gets_out_in_whatever_order(steps, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("layers")
    (tmp_path / "outside/b").mkdir(parents=True)
    (tmp_path / "outside/secret").write_text("secret")
    before = _state(tmp_path / "outside")
    with contextlib.suppress(LayerError):
        unpack(tmp_path, layer(*((name, to and to.replace("OUTSIDE", f"{tmp_path}/outside")) for name, to in steps)))
    assert _state(tmp_path / "outside") == before


def test_trees_too_deep_to_walk_are_refused_also_by_links(tmp_path):
    with pytest.raises(LayerError, match="more than 200 directories in one another"):
        unpack(tmp_path, layer(("a/" * 1900 + "x", "x")))
    shutil.rmtree(tmp_path / "layer0")
    deep = "a/" * 150
    with pytest.raises(LayerError, match="more than 200 directories in one another"):
        unpack(tmp_path, layer((deep, None), ("link", "->" + deep), ("link/" + deep + "x", "x")))
    shutil.rmtree(tmp_path / "layer0")
    with pytest.raises(LayerError, match="more than 200 directories in one another"):
        unpack(tmp_path, layer(*(("a/" * depth, None) for depth in range(1, 250))))


def test_a_file_that_says_it_is_larger_than_the_disk_is_not_written(tmp_path):
    info, _ = member("bomb")
    info.size = 1 << 60
    with pytest.raises(OSError, match="No space left"):
        unpack_layer(io.BytesIO(info.tobuf() + bytes(10240)), "", tmp_path, MergedView([]), squash=True)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("kind", "size", "why"),
    [
        (tarfile.REGTYPE, -1, "a size of -1"),
        (tarfile.SYMTYPE, -512, "a size of -512"),
        (tarfile.GNUTYPE_SPARSE, -512, "a size of -512"),
        (b"V", 1 << 77, "damaged"),
        (tarfile.XHDTYPE, 1 << 40, "damaged: headers larger"),
        (tarfile.GNUTYPE_LONGNAME, 1 << 77, "damaged: headers larger"),
    ],
    ids=[
        "less than nothing",
        "a link of less",
        "holes of less",
        "a kind to skip",
        "more names than memory",
        "a name longer than any",
    ],
)
def test_a_size_that_cannot_be_is_refused_at_once(tmp_path, kind, size, why):
    info, _ = member("a", kind)
    info.size = size
    with pytest.raises(LayerError, match=why):
        unpack_layer(
            io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240)), "", tmp_path, MergedView([]), squash=True
        )


def test_any_number_of_files_has_headers(tmp_path):
    (root,) = unpack(tmp_path, layer(*((f"{number}", "") for number in range(3000))))
    assert len(list(root.iterdir())) == 3000


def test_the_disk_is_looked_at_again_after_some_files(tmp_path, monkeypatch):
    looks = iter([1 << 40, 0])
    monkeypatch.setattr(module, "_LOOK_BYTES", 100)
    monkeypatch.setattr(os, "statvfs", lambda _: types.SimpleNamespace(f_bavail=next(looks), f_frsize=1))
    with pytest.raises(OSError, match="No space left"):
        unpack(tmp_path, layer(("a", "x" * 60), ("b", "x" * 40), ("c", "x")))
    assert sorted(path.name for path in (tmp_path / "layer0").iterdir()) == ["a", "b"]


def test_the_disk_writes_while_a_layer_grows(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(writeback, "_STRIDE_BYTES", 100)
    monkeypatch.setattr(writeback, "_sync", asked.append)
    unpack(tmp_path, layer(*((name, "x" * 60) for name in "abcd")))
    assert asked
    asked.clear()
    bomb, _ = member("bomb", tarfile.DIRTYPE)
    bomb.size = 1 << 33
    unpack_layer(io.BytesIO(bomb.tobuf() + bytes(1024)), "", tmp_path, MergedView([]), squash=True)
    assert asked == []  # what is only claimed does not count


def extended(records, kind=tarfile.XHDTYPE):
    """A header of PAX records, as the next entry has it before itself."""
    info, _ = member("pax", kind)
    info.size = len(records)
    return info.tobuf(tarfile.GNU_FORMAT) + records + bytes(-len(records) % 512)


def record(text):
    """`<length> <key>=<value>` and a newline, the length its own included."""
    size = next(size for size in range(5, 9999) if size == len(f"{size} ".encode() + text) + 1)
    return b"%d %b\n" % (size, text)


PLAIN = member("a")[0].tobuf(tarfile.GNU_FORMAT)
MALFORMED = {
    "keys that never end": extended(b"2 " * 60_000 + b"="),
    "a record longer than all": extended(b"99999 a=b\n"),
    "a length of a thousand digits": extended(b"9" * 1000 + b" a=b\n"),
    "a record of nothing": extended(b"0 a=b\n"),
    "a time that is none": extended(record(b"mtime=nan")) + PLAIN,
    "an owner larger than any": extended(record(b"uid=" + b"9" * 30)) + PLAIN,
    "an owner below all": extended(record(b"gid=-1")) + PLAIN,
    "a size below nothing": extended(record(b"size=-512")) + PLAIN,
    "holes of many digits": extended(record(b"GNU.sparse.size=" + b"9" * 5000)) + PLAIN,
    "a text of no encoding": extended(record(b"hdrcharset=\xff")) + PLAIN,
    "headers of headers": extended(record(b"a=b")) * 900 + PLAIN,
    "headers of headers that are large": extended(record(b"a=" + b"b" * 9000)) * 200 + PLAIN,
    "names of names": extended(b"a" * 600, tarfile.GNUTYPE_LONGNAME) * 900 + PLAIN,
    "more globals than files": extended(b"".join(record(b"k%d=v" % n) for n in range(5000)), tarfile.XGLTYPE) + PLAIN,
}


@pytest.mark.skipif(not AS_ROOT, reason="owners are the archive's for root only")
@pytest.mark.parametrize("name", MALFORMED)
def test_headers_that_nobody_writes_are_refused_in_little_memory(tmp_path, name):
    tracemalloc.start()
    try:
        with pytest.raises(LayerError, match="layer"):
            unpack_layer(io.BytesIO(MALFORMED[name] + bytes(1024)), "", tmp_path, MergedView([]), squash=False)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_old_sparse_headers_without_end_are_refused(tmp_path):
    info, _ = member("holes", tarfile.GNUTYPE_SPARSE)
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[482] = 1
    head[148:156] = b"%06o\0 " % (sum(head[:148]) + 8 * 32 + sum(head[156:]))
    more = (b"00000000001\0" * 42 + b"\1").ljust(512, b"\0")
    for extensions in (b"", more, more * 5000):
        with pytest.raises(LayerError, match="damaged"):
            unpack_layer(io.BytesIO(bytes(head) + extensions), "", tmp_path, MergedView([]), squash=True)


def test_a_root_that_is_a_file_says_nothing_of_the_root(tmp_path):
    (root,) = unpack(tmp_path, layer(member(".", mode=0), ("a", "x")))
    assert stat.S_IMODE(root.stat().st_mode) != 0
    assert (root / "a").read_text() == "x"


def test_a_file_that_the_disk_takes_only_in_part_is_an_error(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, ((1 << 20) + 1000, hard)
    )  # a write up to it is cut short, without an error
    try:
        with pytest.raises((OSError, LayerError), match="File too large"):
            unpack(tmp_path, layer(("big", "x" * (3 << 19))))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_takes_the_place_of_a_link_changes_where_its_own_directory_is(tmp_path):
    way = ("d/c", "->/q"), ("l", "->d/c/../d")
    (root,) = unpack(tmp_path, layer(("q/", None), ("d/", None), *way, ("l/a", "1"), ("l/c", "2"), ("l/b", "3")))
    assert seen([root]) == {"d": None, "d/a": "1", "d/c": "2", "d/d": None, "d/d/b": "3", "l": "->d/c/../d", "q": None}


def test_devices_are_left_out_and_never_made(tmp_path):
    kinds = [tarfile.CHRTYPE, tarfile.BLKTYPE]
    (root,) = unpack(tmp_path, layer(*(member(f"d{k[0]}", k, devmajor=8, devminor=0) for k in kinds), ("f", "x")))
    assert [path.name for path in root.iterdir()] == ["f"]


def _state(top):
    rows = [
        (str(path), path.lstat().st_mode, os.listxattr(path), path.stat().st_nlink) for path in (top, *top.rglob("*"))
    ]
    return rows, (top / "secret").read_text()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lambda good: good[:700], "damaged"),
        (lambda good: good[: len(good) // 2], "damaged: its content is"),
        (lambda good: b"no tar at all" * 100, "damaged"),
        (lambda good: b"", "damaged"),
        (lambda good: good + b"\0" * 512, "damaged: its content is"),
    ],
    ids=["cut in a file", "cut in the end", "no tar", "empty", "longer"],
)
def test_a_damaged_layer_is_refused(tmp_path, data, why):
    good = layer(("a", "x" * 600), ("b", "y"))
    with pytest.raises(LayerError, match=why):
        unpack_layer(io.BytesIO(data(good)), sha256(good), tmp_path, MergedView([]), squash=True)


def test_without_a_digest_a_cut_archive_is_noticed_by_its_end(tmp_path):
    good = layer(("a", "x" * 600), ("b", "y"))
    for number, data in enumerate(
        [good[:1536], good[:1536] + b"broken" * 500, good[:1536] + b"no header!" * 60 + bytes(2048)]
    ):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(LayerError, match="damaged"):
            unpack_layer(io.BytesIO(data), "", tmp_path / str(number), MergedView([]), squash=True)
