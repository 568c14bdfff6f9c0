"""Running the tests of a row that says which ones, but not how."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from swe_plugin.data.sources.dropped import Dropped, Reason

__all__ = ["CONDA", "PYTEST", "pytest_command", "test_files"]

CONDA = "source /opt/miniconda3/bin/activate && conda activate testbed"
"""How images of the SWE-bench family make their Python the current one."""

PYTEST = "pytest --tb=short -p no:cacheprovider"


def test_files(ids: Iterable[str]) -> tuple[str, ...]:
    """The files of pytest's node ids, ``path/to/test_file.py::name[parameters]``, each once.

    Raises:
        Dropped: an id is not pytest's.
    """
    files: dict[str, None] = {}
    for test_id in ids:
        file, separator, _ = test_id.partition("::")
        if not separator or not file.endswith(".py"):
            raise Dropped(Reason.NO_COMMAND, f"{test_id!r} is no node id of pytest, and the row has no command")
        files[file] = None
    return tuple(files)


def pytest_command(files: Sequence[str], *, prepare: str = CONDA, pytest: str = PYTEST) -> tuple[str, ...]:
    """A command that runs whole test files, since some tests depend on others of their file, and reports every test by
    its exact id; empty without files.

    Args:
        files: relative to the work directory.
        prepare: shell before it.
        pytest: the call, options included.
    """
    return ("bash", "-c", f"{prepare} && python -m {pytest} -rA --color=no {shlex.join(files)}") if files else ()
