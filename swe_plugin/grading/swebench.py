"""Reading logs as the package `swebench` does (extra ``swebench``): the one file that knows it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any, NamedTuple

from swe_plugin.errors import GraderError, GradingAborted
from swe_plugin.types import Task, TestStatus

__all__ = ["swebench_parser"]


_STATUSES = {status.value: status for status in TestStatus}
"""Some of its parsers take any word that begins like a status, ``ERROR:`` for example; such a one is not passed."""


def swebench_parser(name: str, task: Task) -> Callable[[str, str], dict[str, TestStatus]]:
    """One of swebench's parsers, e.g. ``parse_log_django``, as one of ours.

    The log of an evaluation script goes through swebench's own function: what stands between the two marks is parsed, a
    log without them, or of a run that its exit code contradicts, has no statuses.

    Args:
        name: in swebench's registry.
        task: some parsers choose by its instance id or by ``version`` in its metadata.

    Raises:
        GraderError: the package is not installed, or has no such parser.
    """
    swebench = _swebench()
    if name not in swebench.parsers:
        raise GraderError(f"grading.parser='swebench:{name}': the installed swebench has {', '.join(swebench.parsers)}")
    version = str(task.metadata.get("version", ""))
    spec = SimpleNamespace(log_parser=name, instance_id=task.instance_id, version=version)

    def parse(log: str, nonce: str) -> dict[str, TestStatus]:
        fd = os.memfd_create("log")  # read_log wants a path; this one outlives nobody
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(log)
            file.flush()
            try:
                with redirect_stdout(sys.stderr):  # some parsers print
                    statuses, _ = swebench.read_log(spec, f"/proc/self/fd/{fd}")
            except Exception as error:  # half a JSON document, say: the patch's doing or not, a control run tells
                reason = f"{type(error).__name__}: {error}"
                raise GradingAborted(f"{name} of swebench cannot read the log: {reason}") from error
        return {test_id: _STATUSES.get(status, TestStatus.ERROR) for test_id, status in statuses.items()}

    return parse


class _Swebench(NamedTuple):
    parsers: Mapping[str, Any]
    read_log: Callable[[Any, str], tuple[dict[str, str], bool]]


def _swebench() -> _Swebench:
    try:
        from swebench.harness.grading import get_logs_eval
        from swebench.harness.log_parsers import PARSER_REGISTRY
    except ImportError as error:
        raise GraderError(f"parsers of swebench: pip install 'swe-plugin[swebench]' ({error})") from error
    return _Swebench(PARSER_REGISTRY, get_logs_eval)
