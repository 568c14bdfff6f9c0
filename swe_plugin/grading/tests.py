"""`TestsGrader`: a patch is good if the hidden tests say so."""

from __future__ import annotations

import errno
import secrets
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from swe_plugin.errors import EnvironmentUnavailable, GraderError, GraderTimeout, GradingAborted, PatchError
from swe_plugin.grading.apply import apply_patch
from swe_plugin.grading.base import Grader
from swe_plugin.grading.integrity import hidden_paths, left_out, met, tests_edited
from swe_plugin.grading.parsers import parser, status_of
from swe_plugin.grading.paths import file_changes
from swe_plugin.grading.pytest_settings import PytestSettings
from swe_plugin.grading.signed import PLUGIN, REPORT, believed, can_sign, is_signed, signed_command
from swe_plugin.types import ExecResult, Grade, Task, TestStatus

if TYPE_CHECKING:
    from swe_plugin.config import GradingConfig
    from swe_plugin.environments.base import Environment

__all__ = ["TestsGrader"]

_LOG_CHARS = 10_000
_NOT_RUN = (126, 127)  # POSIX shells: not executable, not found
_KILLED = 137


class TestsGrader(Grader):
    """Applies the patch, injects the hidden tests, runs the task's command once and compares exact ids.

    Changes of the patch to test files and test configuration are not applied (`integrity`). Resolved means that
    every F2P and P2P id PASSED, or has the status that `GradingSpec.expected` names. What keeps the
    command from saying anything about the patch raises instead.

    Args:
        settings: the ``swe.grading`` section.
    """

    __test__ = False  # not a pytest class

    def __init__(self, settings: GradingConfig) -> None:
        self._settings = settings

    def prejudge(self, task: Task, patch: str) -> Grade | None:
        """An empty patch solves nothing; no environment is needed to know it."""
        return None if patch.strip() else Grade(resolved=False, flags=("empty_patch",))

    async def grade(self, task: Task, patch: str, environment: Environment) -> Grade:
        """Judge `patch`; see `Grader.grade`.

        Raises:
            GradingAborted: a limit ended the command in an environment that is alive; `GraderTimeout` if it was time.
        """
        began = time.perf_counter()
        changes, hidden = file_changes(patch), hidden_paths(task.grading)
        omitted = {item.path for item in left_out(changes, hidden)}
        applied = [item for item in changes if item.path not in omitted]
        settings = PytestSettings(environment, applied)
        await settings.remember()
        if applied or (patch.strip() and not changes):
            known = {item.path for item in changes}
            await apply_patch(environment, patch, leave_out=sorted(omitted), known=known)
        flags = {"tests_edited": tests_edited(changes, hidden), "test_configuration": await settings.restore()}
        await _inject(task, environment)
        statuses, log = await _run(task, environment)
        wanted = {test_id: status_of(test_id, statuses) for test_id in _ids(task)}
        return Grade(
            resolved=bool(wanted) and all(met(task.grading, *item) for item in wanted.items()),
            statuses=wanted,
            flags=tuple(flag for flag, seen in flags.items() if seen),
            duration_s=time.perf_counter() - began,
            log=log[-_LOG_CHARS:],
        )

    def reward(self, task: Task, grade: Grade) -> float:
        """1.0 if resolved, else 0.0."""
        return float(grade.resolved)


def _ids(task: Task) -> list[str]:
    return [*task.grading.fail_to_pass, *task.grading.pass_to_pass]


async def _inject(task: Task, environment: Environment) -> None:
    """Write the hidden tests over whatever is there."""
    for path, content in task.grading.tests.items():
        relative = PurePosixPath(path)
        if relative.is_absolute() or ".." in relative.parts:
            raise GraderError(f"hidden test {path!r} of {task.instance_id} lies outside the work directory")
        try:
            await environment.write_file(str(PurePosixPath(task.image.workdir) / relative), content.encode())
        except ConnectionError:
            raise
        except OSError as error:
            kind = GradingAborted if error.errno in (errno.ENOSPC, errno.EDQUOT) else GraderError
            raise kind(f"hidden test {path!r} of {task.instance_id} cannot be written: {error}") from error
    if task.grading.test_patch.strip():
        try:
            await apply_patch(environment, task.grading.test_patch)
        except PatchError as error:
            raise GraderError(f"the test patch of {task.instance_id} does not apply: {error}") from error


async def _run(task: Task, environment: Environment) -> tuple[dict[str, TestStatus], str]:
    """Run the test command: statuses by id, and the log.

    Raises:
        GraderError: nothing it printed is a verdict on the patch.
    """
    spec = task.grading
    parse = parser(spec.parser, task)
    if not spec.command or not _ids(task):
        raise GraderError(f"{task.instance_id} has no test command or no test ids")
    nonce = secrets.token_hex(16)
    command, report = await _signed(task, environment)
    result = await environment.exec(command, timeout_s=spec.timeout_s, stdin=f"{nonce}\n".encode())
    log = "\n".join(filter(None, (result.stdout, result.stderr)))
    if result.timed_out:
        if not await environment.is_alive():
            raise EnvironmentUnavailable(f"{task.instance_id}: the grading environment died")
        raise GraderTimeout(f"the tests of {task.instance_id} did not end within {spec.timeout_s:g} s: {log[-500:]}")
    statuses = parse(await _believed(environment, log, nonce, report), nonce)
    missing = any(status_of(test_id, statuses) is TestStatus.MISSING for test_id in _ids(task))
    if missing and (reason := _no_verdict(result, statuses)):
        raise GradingAborted(f"the tests of {task.instance_id} gave no verdict, {reason}: {log[-500:]}")
    return statuses, log.replace(nonce, "<nonce>")


async def _signed(task: Task, environment: Environment) -> tuple[list[str], str]:
    """The command, with the plugin that signs reports where it calls pytest, and where its report will be."""
    if not can_sign(task.grading):
        return list(task.grading.command), ""
    module = f"swe_{secrets.token_hex(8)}"
    folder = f"/tmp/.{module}"  # noqa: S108 - nobody can guess it
    await environment.write_file(f"{folder}/{module}.py", PLUGIN.encode())
    return signed_command(task.grading.command, folder, module), f"{folder}/{REPORT}"


async def _believed(environment: Environment, log: str, nonce: str, report: str) -> str:
    """What the statuses are read from."""
    if not report or not is_signed(log, nonce):
        return log
    try:
        return believed(log, await environment.read_file(report), nonce)
    except FileNotFoundError:
        return believed(log, b"", nonce)


def _no_verdict(result: ExecResult, statuses: dict[str, TestStatus]) -> str:
    """Why missing ids say nothing about the patch, or empty: then the code under test ended the run."""
    if result.truncated:
        return "its output exceeds the limit"
    if result.exit_code == _KILLED:
        return "the command was killed"
    if result.exit_code in _NOT_RUN and not statuses:
        return "the command could not be run"
    return ""
