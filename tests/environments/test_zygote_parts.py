"""The parts of the zygote that need no kernel: frames, output buffer, system-call filter, cgroup files."""

import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_plugin.environments.sandbox.zygote import cgroups
from swe_plugin.environments.sandbox.zygote.frames import Decoder, encode
from swe_plugin.environments.sandbox.zygote.output import OutputBuffer
from swe_plugin.environments.sandbox.zygote.seccomp import _OF_PROCESS, DENIED, build_filter, denying
from swe_plugin.environments.sandbox.zygote.server import _report

FRAMES = st.lists(st.tuples(st.dictionaries(st.text(max_size=3), st.integers()), st.binary(max_size=40)), max_size=5)


@settings(max_examples=60)
@given(FRAMES, st.integers(1, 17))
def test_frames_survive_any_cut_of_the_stream(frames, step):
    stream = b"".join(encode(header, payload) for header, payload in frames)
    decoder = Decoder()
    got = [frame for i in range(0, len(stream), step) for frame in decoder.feed(stream[i : i + step])]
    assert got == frames


def test_frames_carry_undecodable_names():
    (frame,) = Decoder().feed(encode({"path": "a\udcff"}))
    assert frame[0]["path"] == "a\udcff"


@settings(max_examples=80)
@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(0, 60))
def test_output_keeps_head_and_tail_and_counts_the_rest(chunks, limit):
    buffer, whole = OutputBuffer(limit), b"".join(chunks)
    for chunk in chunks:
        buffer.add(chunk)
    kept, dropped = buffer.take()
    if len(whole) <= limit:
        assert (kept, dropped) == (whole, 0)
        return
    head, tail = limit - limit // 2, limit // 2
    assert dropped == len(whole) - limit
    assert kept == whole[:head] + b"\n[... %d bytes dropped ...]\n" % dropped + (whole[-tail:] if tail else b"")


def run_filter(program, number, arch, arguments=(0, 0)):
    """A classic BPF machine for the instructions the filter uses."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *arguments, 0, 0, 0, 0)
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        else:
            test = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
            at += if_true if test else if_false


ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, EAFNOSUPPORT = 0x00050001, 0x00050026, 0x00050061
MACHINES = [("x86_64", 0xC000003E, 0), ("aarch64", 0xC00000B7, 1)]


@pytest.mark.parametrize(("machine", "arch", "column"), MACHINES)
def test_filter(machine, arch, column):
    program = build_filter(machine)
    for name, numbers in DENIED.items():
        assert run_filter(program, numbers[column], arch) == EPERM, name
    assert run_filter(program, 435, arch) == ENOSYS
    assert run_filter(program, 425, arch) == ENOSYS
    clone, ioctl, socket = ((56, 220), (16, 29), (41, 198))
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
        assert run_filter(program, clone[column], arch, (flag | 17, 0)) == EPERM, hex(flag)
    assert run_filter(program, clone[column], arch, (0x3D0F00 | 17, 0)) == ALLOW  # flags of pthread_create
    assert run_filter(program, ioctl[column], arch, (0, 0x5412)) == EPERM
    assert run_filter(program, ioctl[column], arch, (0, 0x541C)) == EPERM
    assert run_filter(program, ioctl[column], arch, (0, 0xFFFF00005412)) == EPERM
    assert run_filter(program, ioctl[column], arch, (0, 0x5413)) == ALLOW
    for family, verdict in {1: ALLOW, 2: ALLOW, 10: ALLOW, 16: ALLOW, 17: EAFNOSUPPORT, 40: EAFNOSUPPORT}.items():
        assert run_filter(program, socket[column], arch, (family, 0)) == verdict, family
    assert run_filter(program, 0, arch) == ALLOW
    assert run_filter(program, 0, 0x40000003) == KILL  # i386
    if machine == "x86_64":
        assert run_filter(program, 0x40000000, arch) == KILL  # x32


@pytest.mark.parametrize(("machine", "arch", "column"), MACHINES)
def test_a_call_that_the_filter_leaves_is_refused_by_another_on_top(machine, arch, column):
    program, rest = build_filter(machine, but="setns"), denying("setns", machine)
    for name, numbers in DENIED.items():
        verdicts = [run_filter(part, numbers[column], arch) for part in (program, rest)]
        assert verdicts == ([ALLOW, EPERM] if name == "setns" else [EPERM, ALLOW]), name


def test_no_filter_for_an_unknown_machine():
    with pytest.raises(ValueError, match="riscv64"):
        build_filter("riscv64")


@pytest.mark.parametrize(("machine", "arch", "column"), MACHINES)
def test_filter_protects_process_1_from_its_own_user(machine, arch, column):
    program = build_filter(machine)
    for name, numbers in _OF_PROCESS.items():
        assert run_filter(program, numbers[column], arch, (1, 0)) == EPERM, name
        assert run_filter(program, numbers[column], arch, (0, 1)) == ALLOW, name


@pytest.mark.parametrize(("machine", "arch", "column"), MACHINES)
def test_filter_keeps_commands_reapers_of_what_they_start(machine, arch, column):
    program, prctl = build_filter(machine), (157, 167)[column]
    assert run_filter(program, prctl, arch, (36, 0)) == EPERM
    assert run_filter(program, prctl, arch, (36, 1)) == ALLOW
    assert run_filter(program, prctl, arch, (1, 0)) == ALLOW
    for pair in ((40, 1), (30, 1)):
        assert run_filter(program, (53, 199)[column], arch, pair) == EAFNOSUPPORT
    assert run_filter(program, (53, 199)[column], arch, (1, 1)) == ALLOW


def test_a_failing_sandbox_reports_without_reading_source_files(tmp_path, capfd):
    source = tmp_path / "module.py"
    source.write_text("raise ValueError('broken')  # the agent's text\n")
    try:
        exec(compile(source.read_text(), str(source), "exec"))
    except ValueError as error:
        _report(error)
    said = capfd.readouterr().err
    assert f"{source}:1" in said
    assert "broken" in said
    assert "the agent's text" not in said


LIMITS = {"memory_bytes": 512 << 20, "pids": 99, "cpus": 1.5}


@pytest.mark.parametrize(
    ("version", "files"),
    [
        (1, {"memory.limit_in_bytes": "536870912", "pids.max": "99", "cpu.cfs_quota_us": "150000"}),
        (2, {"memory.max": "536870912", "memory.swap.max": "0", "pids.max": "99", "cpu.max": "150000 100000"}),
    ],
)
def test_cgroup_limits_are_written_in_the_words_of_each_version(tmp_path, version, files):
    group = tmp_path / "group"
    group.mkdir()
    for name in {"memory.swap.max", "cpu.cfs_period_us", *files}:
        (group / name).touch()
    groups = dict.fromkeys(("memory", "pids", "cpu"), str(group))
    cgroups.create(groups, version, **LIMITS)
    assert {name: (group / name).read_text() for name in files} == files
    assert not (group / "memory.memsw.limit_in_bytes").exists()  # optional, and not there


@pytest.mark.parametrize(("version", "name"), [(1, "tasks"), (2, "cgroup.procs")])
def test_a_process_joins_by_the_file_that_takes_the_least_lock(tmp_path, version, name):
    (tmp_path / name).touch()
    (member,) = cgroups.open_members({"memory": str(tmp_path), "pids": str(tmp_path)}, version)
    os.write(member, b"0")
    os.close(member)
    assert (tmp_path / name).read_text() == "0"


def test_removing_cgroups_tells_busy_from_gone(tmp_path):
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy/member").touch()
    assert cgroups.remove({"memory": str(tmp_path / "gone")})
    assert not cgroups.remove({"memory": str(tmp_path / "busy")})
