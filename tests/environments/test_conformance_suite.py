"""The public suite itself: it is large, it can fail, and it says what it leaves out."""

import subprocess
import sys

import pytest

from swe_plugin.environments.conformance import ConformanceSuite

pytestmark = pytest.mark.slow

BROKEN = """
import dataclasses
from swe_plugin.environments.base import Capability
from swe_plugin.environments.conformance import ConformanceSuite
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.environments.sandbox import SandboxEnvironment

class Deaf(DummyEnvironment):
    lacks = {Capability.PROCESSES: "deaf", Capability.IMAGES: "deaf"}
    async def stop(self): pass
    async def write_file(self, path, content, *, mode=0o644): await super().write_file(path, content[:3])

class Leaky(SandboxEnvironment):
    async def exec(self, argv, **options):
        result = await super().exec(argv, **{**options, "env": {**(options.get("env") or {}), "TOKEN": "x"}})
        return dataclasses.replace(result, stdout=result.stdout + result.stderr, exit_code=result.exit_code & 127)
    async def shell(self, script, **options): return await self.exec(["bash", "-c", script], **options)

class TestDeaf(ConformanceSuite): backend = Deaf
class TestLeaky(ConformanceSuite): backend = Leaky
"""


def test_the_suite_has_more_than_sixty_checks():
    assert len([name for name in dir(ConformanceSuite) if name.startswith("test_")]) >= 60


@pytest.mark.parametrize(
    ("suite", "checks", "failed"),
    [
        (
            "TestDeaf",
            "alive_from_start or idempotent or content_goes or cannot_be_started_again",
            {"test_an_environment_is_alive_from_start_to_stop", "test_content_goes_in_and_out_unchanged"},
        ),
        (
            "TestLeaky",
            "streams_are_kept or signal_is_128 or variables_are_those or options_survive or directory_can_be_chosen",
            {
                "test_streams_are_kept_apart",
                "test_a_signal_is_128_plus_its_number",
                "test_variables_are_those_of_the_spec_and_no_others",
                "test_directory_variables_functions_and_options_survive",
            },
        ),
    ],
)
def test_broken_backends_do_not_pass(tmp_path, suite, checks, failed):
    (tmp_path / "test_broken.py").write_text(BROKEN)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rf", "--tb=no", "-q", "-k"]
    run = subprocess.run([*command, f"{suite} and ({checks})"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    for name in failed:
        assert f"FAILED test_broken.py::{suite}::{name}" in run.stdout
    assert " passed" in run.stdout


def test_what_is_skipped_is_said_with_the_reason(tmp_path):
    (tmp_path / "test_deaf.py").write_text(BROKEN)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "-q", "-k"]
    run = subprocess.run(
        [*command, "TestDeaf and (fork_bomb or can_be_stopped)"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "Deaf lacks processes: deaf" in run.stdout
    assert "TestDeaf.kill does not say how to kill a Deaf" in run.stdout
