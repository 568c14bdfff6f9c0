"""SWE-bench: full, Lite, Verified, Multilingual. https://www.swebench.com"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from swe_plugin.data.sources.dropped import Dropped, Reason
from swe_plugin.data.sources.pytest_command import pytest_command, test_files
from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.source import Source
from swe_plugin.data.sources.tasks import Tasks
from swe_plugin.types import GradingSpec, Image, Task

__all__ = ["SweBench", "SweBenchLite", "SweBenchMultilingual", "SweBenchVerified"]

_SCRIPT = ".swe_plugin_eval.sh"
_END, _EXIT_CODE = ">>>>> End Test Output", 'echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"'
_TIMEOUT_S = 1800.0
"""As swebench's own harness has it."""


class SweBench(Source):
    """Rows of version 5 bring their script and the name of their parser (extra ``swebench``). Older ones are run with
    pytest, where their test ids are pytest's."""

    hub: ClassVar[str] = "SWE-bench/SWE-bench"

    def task(self, row: Row) -> Task:
        """See `Source.task`; images follow the published rule, lower case with ``__`` as ``_1776_``.

        A column ``image`` that is an object is an `Image`: a recipe, say, where there is no registry.
        """
        return Task(
            instance_id=row.text("instance_id"),
            problem_statement=row.text("problem_statement"),
            repo=row.text("repo"),
            image=_recipe(row) or Image(base=f"docker:{self.image(row)}"),
            grading=self.grading(row),
            base_commit=row.text("base_commit"),
            gold_patch=row.text("patch"),
            metadata=self.metadata(row),
        )

    def metadata(self, row: Row) -> dict[str, str]:
        """What is kept beside the task."""
        return row.kept("version", "created_at", "difficulty")

    def image(self, row: Row) -> str:
        """Docker reference of a row's image."""
        key = row.text("instance_id").lower().replace("__", "_1776_")
        return row.text("image") or (f"swebench/sweb.eval.x86_64.{key}:latest" if key else "")

    def grading(self, row: Row) -> GradingSpec:
        """How a row is judged.

        Raises:
            Dropped: nothing says how to run its tests, or only failing tests are reported.
        """
        f2p, p2p = row.tests("FAIL_TO_PASS"), row.tests("PASS_TO_PASS")
        if not (script := row.text("eval_script")):
            return GradingSpec(
                command=pytest_command(test_files((*f2p, *p2p))),
                parser="pytest",
                test_patch=row.text("test_patch"),
                fail_to_pass=f2p,
                pass_to_pass=p2p,
                timeout_s=_TIMEOUT_S,
            )
        if row.text("eval_type") == "fail_only":
            raise Dropped(Reason.NO_COMMAND, "eval_type fail_only: its log does not name tests that pass")
        return GradingSpec(
            # a file: a patch in a script may be larger than an argument can be; one stream: the marks around the tests'
            # output are traces of the shell, which go to stderr
            command=("bash", "-c", f"exec bash {_SCRIPT} 2>&1"),
            parser=f"swebench:{row.text('log_parser')}",
            tests={_SCRIPT: _with_exit_code(script)},
            protected=row.patched("test_patch"),
            fail_to_pass=f2p,
            pass_to_pass=p2p,
            timeout_s=_TIMEOUT_S,
        )


def _recipe(row: Row) -> Image | None:
    given = row.values.get("image")
    if not isinstance(given, Mapping):
        return None
    return Tasks().task(Row({"instance_id": "-", "problem_statement": "-", "image": given})).image


def _with_exit_code(script: str) -> str:
    """The script, which also prints what its test command returned, behind the tests' output, as swebench's harness has
    it do: a log that names no failure of a command that failed is not believed."""
    lines = script.splitlines()
    for number, line in enumerate(lines):
        if _END in line:
            lines[number : number + 1] = ["SWEBENCH_TEST_EXIT_CODE=$?", line, _EXIT_CODE]
            return "\n".join(lines) + "\n"
    return script


class SweBenchLite(SweBench):
    """300 rows of the full set."""

    hub: ClassVar[str] = "SWE-bench/SWE-bench_Lite"


class SweBenchVerified(SweBench):
    """500 rows that people checked."""

    hub: ClassVar[str] = "SWE-bench/SWE-bench_Verified"


class SweBenchMultilingual(SweBench):
    """Nine languages; test lists are lists, not text."""

    hub: ClassVar[str] = "SWE-bench/SWE-bench_Multilingual"
