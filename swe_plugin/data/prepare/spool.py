"""Tasks on disk between reading and writing, so that any order can be written without holding them."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from swe_plugin.types import Image, Task

__all__ = ["Spool", "Spooled"]


@dataclass(frozen=True, slots=True)
class Spooled:
    """What is remembered of a task: where it lies, and what the summary needs.

    Attributes:
        offset: in the file.
        repo: of the task.
        base: of its image.
        recipe: digest of what is made on that base; empty where nothing is.
        tokens: of its statement.
    """

    offset: int
    repo: str
    base: str
    recipe: str
    tokens: int


class Spool:
    """A temporary file of tasks; use as a context manager."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self.tasks: list[Spooled] = []

    def add(self, task: Task, tokens: int) -> None:
        """Append a task.

        Raises:
            UnicodeEncodeError: a text of it is no UTF-8.
        """
        line = task.to_json().encode() + b"\n"
        self.tasks.append(Spooled(self._file.tell(), task.repo, task.image.base, _recipe(task.image), tokens))
        self._file.write(line)

    def read(self, item: Spooled) -> Task:
        """A task that was added."""
        self._file.seek(item.offset)
        return Task.from_json(self._file.readline().decode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _recipe(image: Image) -> str:
    made = image.files or image.repository or image.requirements or image.setup
    return hashlib.sha256(repr(image).encode()).hexdigest()[:16] if made else ""
