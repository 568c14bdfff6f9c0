"""A backend of four methods keeps the whole contract: the example plugin's, on real processes of this machine."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest
import pytest_asyncio

from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.process import run_process
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image

from .conftest import host_processes

EXAMPLE = Path(__file__).parents[1] / "example_plugin"
FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "pkg/data.txt": "one\ntwo\n"}

NAP = f"sleep 61.{os.getpid()}"
"""A command of this test run alone."""


def local(**image):
    if str(EXAMPLE) not in sys.path:
        sys.path.insert(0, str(EXAMPLE))
    from swe_plugin_example.environment import LocalEnvironment

    return LocalEnvironment(EnvironmentSpec(Image(**{"files": FILES, **image}), env=AGENT_ENV, label="test"))


@pytest_asyncio.fixture
async def environment():
    async with local() as environment:
        yield environment


async def test_files_are_one_commit_and_the_directory_goes(environment):
    done = await environment.exec(["bash", "-c", "git log --oneline | wc -l; git status --short; cat pkg/data.txt"])
    assert done.stdout == "1\none\ntwo\n"
    await environment.stop()
    await environment.stop()
    assert not await environment.is_alive()
    with pytest.raises(EnvironmentUnavailable):
        await environment.exec(["true"])
    with pytest.raises(EnvironmentUnavailable):
        await environment.read_file("/testbed/calc.py")


async def test_an_image_it_cannot_make_is_refused():
    with pytest.raises(EnvironmentStartError, match="docker:x"):
        async with local(base="docker:x"):
            pass
    with pytest.raises(EnvironmentStartError, match=r"image\.files"):
        async with local(files={"../outside": ""}):
            pass


async def test_the_shell_keeps_directory_variables_and_functions(environment):
    await environment.shell("cd pkg; name='a\nb'; twice() { echo $1$1; }")
    done = await environment.shell('echo "$name"; twice x; basename "$PWD"; echo oops >&2; cat')
    assert (done.stdout, done.stderr, done.exit_code) == ("a\nb\nxx\npkg\noops\n", "", 0)
    assert (await environment.shell("exit 3")).exit_code == 3
    await environment.shell("set -- calc.py; name=c")  # its own words are not ours
    assert (await environment.shell("echo $name; git status --short")).stdout == "c\n"
    assert (await environment.shell("false")).exit_code == 1
    assert (await environment.shell("basename $PWD")).stdout == "pkg\n"


@pytest.mark.parametrize("size", [0, 5, 256 << 10, (600 << 10) + 1], ids=str)
async def test_files_of_any_size_and_content_go_in_and_out(environment, size):
    content = bytes(range(256)) * (size // 256 + 1)
    await environment.write_file("/testbed/new/x.bin", content[:size], mode=0o755)
    assert await environment.read_file("/testbed/new/x.bin") == content[:size]
    assert (await environment.exec(["stat", "-c", "%a", "new/x.bin"])).stdout == "755\n"


async def test_errors_of_files_are_errors_of_files(environment):
    with pytest.raises(FileNotFoundError, match="no such file"):
        await environment.read_file("/testbed/absent")
    with pytest.raises(FileNotFoundError):
        await environment.read_file("/testbed/pkg")
    with pytest.raises(OSError, match="pkg"):
        await environment.write_file("/testbed/pkg", b"")


async def test_trees_go_in_and_out(environment, tmp_path):
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "run").write_text("#!/bin/sh\n")
    (tmp_path / "tree" / "sub" / "run").chmod(0o755)
    (tmp_path / "tree" / "link").symlink_to("sub/run")
    await environment.upload(tmp_path / "tree", "/testbed/in")
    await environment.upload(tmp_path / "tree" / "sub" / "run", "/testbed/one")
    await environment.download("/testbed/in", tmp_path / "out")
    await environment.download("/testbed/one", tmp_path / "single")
    assert (tmp_path / "out" / "link").readlink() == Path("sub/run")
    assert (tmp_path / "out" / "sub" / "run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "single").read_text() == "#!/bin/sh\n"
    await environment.exec(["ln", "-s", "/etc/passwd", "in/evil"])
    with pytest.raises(PermissionError, match="refused"):
        await environment.download("/testbed/in", tmp_path / "again")
    assert not (tmp_path / "again").exists()


async def test_a_time_out_is_a_result_and_ends_everything(environment):
    began = time.monotonic()
    done = await environment.exec(["bash", "-c", f"echo before; {NAP} & {NAP}"], timeout_s=0.3)
    assert (done.stdout, done.exit_code, done.timed_out) == ("before\n", -1, True)
    assert time.monotonic() - began < 10
    assert not host_processes(NAP)


async def test_a_cancelled_command_is_dead():
    command = asyncio.create_task(run_process(NAP.split()))
    await asyncio.sleep(0.2)
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    assert not host_processes(NAP)


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["no-such-program"], 127), (["/"], 126), (["bash", "-c", "kill -9 $$"], 137), (["bash", "-c", "exit 3"], 3)],
)
async def test_exit_codes_are_the_shells(argv, code):
    assert (await run_process(argv)).exit_code == code


async def test_the_middle_of_a_long_output_is_dropped():
    done = await run_process(
        ["bash", "-c", "printf a; head -c 5000 /dev/zero | tr '\\0' -; printf z"], output_bytes=100
    )
    assert done.truncated
    assert (len(done.stdout), done.stdout[0], done.stdout[-1]) == (100, "a", "z")


async def test_the_limit_of_a_command_holds_however_many_run():
    running = [run_process(NAP.split(), timeout_s=1.0) for _ in range(128)]
    done = await asyncio.wait_for(asyncio.gather(*running), 60)
    assert all(result.timed_out for result in done)
    assert max(result.duration_s for result in done) < 10
    assert host_processes(NAP) == []
