"""Headers that are read fast are what `tarfile` makes of them, and the others are left to it."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.environments.images.header import Header
from swe_plugin.environments.images.tape import Tape

FIELDS = ("name", "mode", "uid", "gid", "size", "mtime", "type", "linkname")
KINDS = [tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
letters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
names = st.text(letters, min_size=1, max_size=60) | st.text("0/a", min_size=90, max_size=250)


def read(kind, block):
    """Fields, or the error."""
    try:
        header = kind.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        return type(error)
    if header.size < 0:
        return tarfile.InvalidHeaderError
    return [getattr(header, field) for field in FIELDS]


def checked(block):
    """With the right sum."""
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


@given(names, names, st.sampled_from(KINDS), st.integers(0, 1 << 40), st.integers(0, 0o7777), st.sampled_from(FORMATS))
def test_what_archives_have_is_read_alike(name, linkname, kind, size, mode, form):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode, info.mtime, info.uid = kind, linkname, size, mode, 12345, 1 << 22
    try:
        blocks = info.tobuf(form)
    except ValueError:
        return  # this format has no room for it
    for start in range(0, len(blocks), 512):
        assert read(Header, blocks[start : start + 512]) == read(tarfile.TarInfo, blocks[start : start + 512])


@given(
    st.lists(
        st.tuples(st.integers(0, 350), st.binary(min_size=1, max_size=13) | st.just(b"0")), min_size=1, max_size=4
    ),
    st.booleans(),
)
def test_so_is_what_no_archive_should_have(changes, sums):
    block = bytearray(tarfile.TarInfo("a/name").tobuf())
    for at, data in changes:
        block[at : at + len(data)] = data
    block = checked(bytes(block)) if sums else bytes(block)
    assert read(Header, block) == read(tarfile.TarInfo, block)


def test_numbers_without_an_end_are_read_to_their_end():
    block = bytearray(tarfile.TarInfo("a").tobuf())
    block[124:136] = b"000000012345"
    assert read(Header, checked(bytes(block)))[4] == 0o12345


@pytest.mark.parametrize("block", [b"", bytes(511), bytes(512), b"x" * 512])
def test_what_is_no_header_is_the_error_of_tarfile(block):
    assert read(Header, block) is read(tarfile.TarInfo, block)


def test_a_broken_header_in_an_archive_is_no_end():
    good = tarfile.TarInfo("a").tobuf()
    with Tape(io.BytesIO(good + b"x" * 1024)) as tape, pytest.raises(tarfile.ReadError, match="invalid header"):
        list(tarfile.TarFile(fileobj=tape, tarinfo=Header))


def test_a_prefix_that_begins_with_a_nought_is_one():
    info = tarfile.TarInfo("0day/" + "x" * 60 + "/" + "y" * 60)
    assert Header.frombuf(info.tobuf(tarfile.USTAR_FORMAT), "utf-8", "strict").name == info.name
