"""Trees that come out of a sandbox: the archive is not trusted."""

import io
import os
import socket
import tarfile
import threading

import pytest

from swe_plugin.environments.sandbox.transfer import receive_tree


def archive_of(*members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, link, 0o6777
            archive.addfile(member)
    return stream.getvalue()


ROOT = ("item", tarfile.DIRTYPE, "")
UP_LATER = [("item/a", tarfile.SYMTYPE, "d/.."), ("item/d", tarfile.SYMTYPE, ".")]


@pytest.mark.parametrize(
    "members",
    [
        [ROOT, ("item/../../evil", tarfile.REGTYPE, "")],
        [ROOT, ("/evil", tarfile.DIRTYPE, ""), ("item//evil", tarfile.REGTYPE, "")],
        [ROOT, ("item/a", tarfile.SYMTYPE, "."), ("item/a/../../evil", tarfile.REGTYPE, "")],
        [ROOT, ("item/a", tarfile.LNKTYPE, "item/../../evil")],
        [ROOT, ("item/a", tarfile.SYMTYPE, "d/.."), ("item/d", tarfile.SYMTYPE, ".")],
        [
            ROOT,
            ("item/a", tarfile.SYMTYPE, "d/.."),
            ("item/d", tarfile.SYMTYPE, "."),
            ("item/a/evil", tarfile.REGTYPE, ""),
        ],
        [
            ROOT,
            ("item/d", tarfile.DIRTYPE, ""),
            ("item/d/a", tarfile.SYMTYPE, ".."),
            ("item/a", tarfile.LNKTYPE, "item/d/a"),
        ],
        [
            ROOT,
            ("item/b", tarfile.DIRTYPE, ""),
            ("item/a", tarfile.SYMTYPE, "b"),
            ("item/a/inside", tarfile.REGTYPE, ""),
            ("item/b/c", tarfile.SYMTYPE, ".."),
            ("item/a", tarfile.LNKTYPE, "item/b/c"),
            ("item/a/evil", tarfile.REGTYPE, ""),
        ],
        [ROOT, ("item/null", tarfile.CHRTYPE, "")],
        [ROOT, ("item/pipe", tarfile.FIFOTYPE, "")],
    ],
)
def test_forged_archives_are_refused(tmp_path, members):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(archive_of(*members))
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(PermissionError, match="refused"):
            receive_tree(theirs, tmp_path / "target")
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "target/a").is_symlink() or (tmp_path / "target/a").resolve() == tmp_path / "target"


def test_special_bits_and_owners_are_not_taken_over(tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(archive_of(ROOT, ("item/file", tarfile.REGTYPE, "")))
        ours.shutdown(socket.SHUT_WR)
        receive_tree(theirs, tmp_path / "target")
    info = (tmp_path / "target/file").stat()
    assert (info.st_mode & 0o7777, info.st_uid) == (0o755, os.getuid())


def test_the_padding_of_an_archive_is_read_too(tmp_path):
    ours, theirs = socket.socketpair()
    whole = archive_of(ROOT)
    with ours, theirs:
        receiver = threading.Thread(target=receive_tree, args=(theirs, tmp_path / "target"))
        receiver.start()
        ours.sendall(whole)
        receiver.join(0.5)
        ours.sendall(whole[-512:])
        ours.shutdown(socket.SHUT_WR)
        receiver.join()
    assert (tmp_path / "target").is_dir()


def test_what_has_the_name_of_an_entry_gives_way_and_is_not_followed(tmp_path):
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "target").mkdir()
    (tmp_path / "target/file").symlink_to(tmp_path / "outside")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(archive_of(ROOT, ("item/file", tarfile.REGTYPE, "")))
        ours.shutdown(socket.SHUT_WR)
        receive_tree(theirs, tmp_path / "target")
    assert (tmp_path / "outside").read_text() == "mine"
    assert (tmp_path / "target/file").read_bytes() == b""


def test_a_link_to_itself_is_a_broken_link(tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(archive_of(ROOT, ("item/loop", tarfile.SYMTYPE, "loop"), ("item/file", tarfile.REGTYPE, "")))
        ours.shutdown(socket.SHUT_WR)
        receive_tree(theirs, tmp_path / "target")
    assert str((tmp_path / "target/loop").readlink()) == "loop"
