"""The bytes of a layer: as the stream has them, in order, digested, and nothing keeps on reading."""

import hashlib
import io
import os
import tarfile
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_plugin.environments.images import tape as module
from swe_plugin.environments.images.tape import Tape

DATA = bytes(range(256)) * 40


class Dribble:
    """A stream that gives what it likes, and breaks if it is told to."""

    def __init__(self, data, sizes=(7, 512, 1, 3000), error=None):
        self._file, self._sizes, self._error, self.n_reads = io.BytesIO(data), sizes, error, 0

    def read(self, size=-1, /):
        self.n_reads += 1
        data = self._file.read(min(size, self._sizes[self.n_reads % len(self._sizes)]))
        if not data and self._error:
            raise self._error
        return data


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from(["read", "peek", "seek", "pieces"]), st.integers(0, 4000)), max_size=12),
)
def test_it_reads_as_a_file_does_that_only_goes_forward(sizes, calls):
    plain = io.BytesIO(DATA)
    with Tape(Dribble(DATA, sizes)) as tape:
        for name, size in calls:
            if name == "read":
                assert tape.read(size) == plain.read(size)
            elif name == "peek":
                assert tape.peek(size) == plain.getbuffer()[plain.tell() : plain.tell() + size]
            elif name == "pieces":
                assert b"".join(tape.pieces(size)) == plain.read(size)
            else:
                tape.seek(min(tape.tell() + size, len(DATA)))
                plain.seek(min(plain.tell() + size, len(DATA)))
            assert tape.tell() == plain.tell()
        tape.drain()
        assert tape.read(1) == b""
    assert tape.digest == f"sha256:{hashlib.sha256(DATA).hexdigest()}"


def test_a_file_gets_all_of_its_bytes_or_an_error(tmp_path):
    with Tape(Dribble(DATA)) as tape, (tmp_path / "a").open("wb") as file:
        tape.write(file.fileno(), 9000)
        assert (tmp_path / "a").read_bytes() == DATA[:9000]
        with pytest.raises(tarfile.ReadError, match="unexpected end"):
            tape.write(file.fileno(), 9000)


def test_what_a_file_takes_in_part_is_written_on(monkeypatch):
    taken = []
    monkeypatch.setattr(os, "write", lambda _, data: taken.append(bytes(data[:100])) or len(taken[-1]))
    with Tape(Dribble(DATA)) as tape:
        tape.write(0, len(DATA))
    assert b"".join(taken) == DATA


def test_it_never_goes_back():
    with Tape(Dribble(DATA)) as tape:
        tape.seek(100)
        with pytest.raises(tarfile.StreamError):
            tape.seek(99)


def test_headers_as_large_as_memory_are_refused_before_they_are_read():
    with Tape(Dribble(DATA)) as tape:
        with pytest.raises(tarfile.ReadError, match="headers larger"):
            tape.read(1 << 40)
        tape.allow(1000)
        tape.read(600)
        with pytest.raises(tarfile.ReadError, match="headers larger"):
            tape.read(600)
        tape.allow(1000)
        assert tape.read(600) == DATA[600:1200]


@pytest.mark.parametrize("error", [OSError("gone"), KeyboardInterrupt("stop")], ids=type)
def test_what_the_stream_raises_comes_after_what_it_gave(error):
    with Tape(Dribble(DATA, error=error)) as tape:
        assert tape.read(len(DATA)) == DATA
        with pytest.raises(type(error), match=str(error)):
            tape.read(1)
        assert tape.read(1) == b""


def test_whoever_stops_early_leaves_no_thread_that_reads(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1)
    stream = Dribble(DATA, sizes=[1])
    with pytest.raises(ZeroDivisionError), Tape(stream):
        raise ZeroDivisionError
    assert stream.n_reads <= module._AHEAD * 3
    assert not any(thread.name == "swe-tape" for thread in threading.enumerate())
