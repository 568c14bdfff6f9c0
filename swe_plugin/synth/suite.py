"""`Suite`: a project's own tests, run in fresh environments as a grader runs them."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from swe_plugin.errors import ConfigError, EnvironmentUnavailable
from swe_plugin.grading.parsers import pytest_summary, status_of
from swe_plugin.synth.recorder import PLUGIN, PLUGIN_FOLDER, PLUGIN_MODULE, RECORD_FILE, Record
from swe_plugin.types import Image, TestStatus

if TYPE_CHECKING:
    from swe_plugin.environments import EnvironmentPool, EnvironmentSpec
    from swe_plugin.synth.project import Project

__all__ = ["Suite", "SuiteRun", "suite_command"]

_OPTIONS = (
    "-rA --tb=line --show-capture=no --continue-on-collection-errors -p no:cacheprovider --color=no --rootdir=. "
    "-o addopts="
)

_LIMITED = 'ulimit -S -t "$0"; exec "$@"'
_OUT_OF_CPU_TIME = 128 + 24
"""As a shell reports SIGXCPU."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One run.

    Attributes:
        statuses: as the grader's parser reads them.
        record: messages of failures, and calls.
        duration_s: wall-clock seconds of the command.
        timed_out: it did not end in time, of the wall or of the processor.
        output: the tail, for reports.
    """

    statuses: Mapping[str, TestStatus] = field(default_factory=dict)
    record: Record = field(default_factory=Record)
    duration_s: float = 0.0
    timed_out: bool = False
    output: str = ""

    def status(self, test_id: str) -> TestStatus:
        """Of one test."""
        return status_of(test_id, self.statuses)

    @property
    def passed(self) -> set[str]:
        """Exact ids of tests that passed."""
        return {test_id for test_id, status in self.statuses.items() if status is TestStatus.PASSED}


def suite_command(project: Project, arguments: Sequence[str]) -> tuple[str, ...]:
    """The command of a task: the whole suite, by exact ids, without the project's own options of pytest."""
    paths = () if project.root == "." else ("-o", f"pythonpath={project.root}")
    return ("python3", "-m", "pytest", *shlex.split(_OPTIONS), *paths, *arguments, *project.test_paths)


@dataclass(frozen=True, slots=True)
class Suite:
    """Runs the tests of one project.

    Attributes:
        project: whose tests.
        image: with the project's files.
        command: see `suite_command`.
        pool: where environments come from.
        spec: an environment of an image, given a label.
    """

    project: Project
    image: Image
    command: tuple[str, ...]
    pool: EnvironmentPool
    spec: Callable[[Image, str], EnvironmentSpec]

    async def run(
        self, changed: Mapping[str, str | None], *, label: str, timeout_s: float, cpu_s: int = 0, calls: bool = False
    ) -> SuiteRun:
        """Run all tests once, in an environment of its own.

        Args:
            changed: path -> text that files have instead of the project's; None for files that are not there.
            label: for leases and logs.
            timeout_s: wall-clock limit.
            cpu_s: processor seconds of one process; what loops for ever is found by it however busy the machine is. 0:
                no limit.
            calls: record which functions tests call (slow).

        Raises:
            EnvironmentStartError, EnvironmentUnavailable: infrastructure failed.
        """
        async with self.pool.lease(self.spec(self.image, label), purpose="grading") as lease:
            environment = lease.environment
            workdir = PurePosixPath(self.image.workdir)
            for path, text in changed.items():
                if text is not None:
                    await environment.write_file(str(workdir / path), text.encode())
            if gone := [str(workdir / path) for path, text in changed.items() if text is None]:
                await environment.exec(["rm", "--", *gone])
            folder = str(workdir / PLUGIN_FOLDER)
            await environment.write_file(f"{folder}/{PLUGIN_MODULE}.py", PLUGIN.encode())
            env = {"PYTHONPATH": folder, "PYTEST_ADDOPTS": f"-p {PLUGIN_MODULE}"}
            env |= {"SWE_RECORD_CALLS": "1"} if calls else {}
            limited = ("bash", "-c", _LIMITED, str(cpu_s), *self.command) if cpu_s else self.command
            result = await environment.exec(list(limited), env=env, timeout_s=timeout_s)
            output = f"{result.stdout}\n{result.stderr}"
            if result.timed_out or result.exit_code == _OUT_OF_CPU_TIME:
                if not await environment.is_alive():
                    raise EnvironmentUnavailable(f"{label}: the environment died")
                return SuiteRun(duration_s=result.duration_s, timed_out=True, output=output[-2000:])
            try:
                record = Record.read(await environment.read_file(str(workdir / RECORD_FILE)))
            except FileNotFoundError:
                record = Record()  # pytest did not come to its end
            return SuiteRun(pytest_summary(output), record, result.duration_s, False, output[-2000:])

    async def check_image(self, timeout_s: float) -> None:
        """Start one environment, for which the image is built if it is not here, and look into it.

        Args:
            timeout_s: of the start.

        Raises:
            ConfigError: the image has a copy of the project, which would show the fix to every agent.
            EnvironmentStartError, EnvironmentUnavailable: infrastructure failed, or the image cannot be had.
        """
        spec = self.spec(self.image, f"{self.project.name}@image")
        patient = dataclasses.replace(spec, limits=dataclasses.replace(spec.limits, start_timeout_s=timeout_s))
        async with self.pool.lease(patient, purpose="grading") as lease:
            script = "import sys; from importlib.metadata import version; version(sys.argv[1])"
            command = ["python3", "-I", "-c", script, self.project.name]
            found = await lease.environment.exec(command, cwd="/")
        if found.exit_code == 0:
            fix = "is installed in the image as well (something needs it), where every agent can read the fix"
            raise ConfigError("source", self.project.name, fix)
