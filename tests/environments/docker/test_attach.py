"""The daemon's framing is taken off wherever it is cut."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.environments.docker.attach import StreamDemuxer


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40))), st.integers(1, 30))
def test_stdout_arrives_whole_however_it_is_cut(frames, step):
    wire = b"".join(struct.pack(">BxxxI", kind, len(data)) + data for kind, data in frames)
    demuxer = StreamDemuxer("test")
    got = b"".join(demuxer(wire[at : at + step]) for at in range(0, len(wire), step))
    assert got == b"".join(data for kind, data in frames if kind == 1)


def test_what_the_supervisor_says_on_stderr_is_logged(caplog):
    assert StreamDemuxer("try")(struct.pack(">BxxxI", 2, 5) + b"oops\n") == b""
    assert "try: oops" in caplog.text
