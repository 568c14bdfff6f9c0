"""Which rows are wanted, in which order, and on which side of the split."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from swe_plugin.data.sources.dropped import Dropped, Reason
from swe_plugin.errors import ConfigError
from swe_plugin.types import Task

__all__ = ["Condition", "Selection", "read_keep_list", "read_slice"]


@dataclass(frozen=True, slots=True)
class Condition:
    """``column=pattern`` or ``column!=pattern``: a glob over a column of the row."""

    column: str
    pattern: str
    wanted: bool

    @classmethod
    def parse(cls, text: str) -> Condition:
        """The condition that `text` says.

        Raises:
            ConfigError: it says none.
        """
        column, separator, pattern = text.partition("=")
        if not separator or not column.strip("! "):
            raise ConfigError("--where", text, "write COLUMN=GLOB or COLUMN!=GLOB, e.g. 'repo=django/*'")
        return cls(column.rstrip("! "), pattern.strip(), not column.endswith("!"))

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether it holds for `row`.

        Raises:
            ConfigError: the row has no such column.
        """
        if self.column not in row:
            raise ConfigError("--where", self.column, f"no such column; there are {', '.join(map(str, row))}")
        return fnmatchcase(str(row[self.column]), self.pattern) is self.wanted


@dataclass(frozen=True, slots=True)
class Selection:
    """Applied in this order: conditions and limits, shuffle, slice, split.

    Attributes:
        where: conditions, all of which must hold.
        keep: instance ids of a keep-list, or None for all.
        max_tests: F2P and P2P ids of a task; 0: any number.
        max_statement_tokens: of a problem statement; 0: any number.
        shuffle: seed of the order, or None for the order of the rows.
        part: of the order.
        val_repos: globs over repositories that are held out.
        val_fraction: else, the share of rows that is held out at least, by whole repositories.
        seed: which repositories these are.
    """

    where: tuple[Condition, ...] = ()
    keep: frozenset[str] | None = None
    max_tests: int = 0
    max_statement_tokens: int = 0
    shuffle: int | None = None
    part: slice = field(default_factory=lambda: slice(None))
    val_repos: tuple[str, ...] = ()
    val_fraction: float = 0.0
    seed: int = 0

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Raise `Dropped` for a row that a condition excludes."""
        for condition in self.where:
            if not condition.holds(row):
                raise Dropped(Reason.FILTERED)

    def check_task(self, task: Task, tokens: int) -> None:
        """Raise `Dropped` for a task that is not on the keep-list or exceeds a limit."""
        tests = len(task.grading.fail_to_pass) + len(task.grading.pass_to_pass)
        if self.keep is not None and task.instance_id not in self.keep:
            raise Dropped(Reason.NOT_KEPT)
        if self.max_tests and tests > self.max_tests:
            raise Dropped(Reason.TOO_MANY_TESTS, f"{tests}")
        if self.max_statement_tokens and tokens > self.max_statement_tokens:
            raise Dropped(Reason.TOO_LONG, f"{tokens} tokens")

    def order(self, count: int) -> list[int]:
        """Which of `count` tasks are taken, in which order."""
        order = list(range(count))
        if self.shuffle is not None:
            random.Random(self.shuffle).shuffle(order)  # noqa: S311 - no secret
        return order[self.part]

    def held_out(self, repos: Sequence[str]) -> set[str]:
        """Repositories that are held out, of those of the tasks that are taken: no repository is on both sides."""
        if self.val_repos:
            return {repo for repo in repos if any(fnmatchcase(repo, glob) for glob in self.val_repos)}
        sizes, chosen, rows = Counter(repos), set[str](), 0
        for repo in sorted(sizes, key=lambda name: hashlib.sha256(f"{self.seed}/{name}".encode()).digest()):
            if rows < self.val_fraction * len(repos) and len(chosen) + 1 < len(sizes):
                chosen.add(repo)
                rows += sizes[repo]
        return chosen


def read_slice(text: str) -> slice:
    """``START:STOP`` as in Python, either side may be missing.

    Raises:
        ConfigError: anything else.
    """
    start, separator, stop = text.partition(":")
    try:
        if text and not separator:
            raise ValueError
        return slice(int(start) if start else None, int(stop) if stop else None)
    except ValueError as error:
        raise ConfigError("--slice", text, "write START:STOP, e.g. 0:100") from error


def read_keep_list(path: Path) -> frozenset[str]:
    """Instance ids of a file, one a line; what follows a ``#`` at the beginning of a line is a comment.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("--keep", str(path), f"cannot be read: {error}") from error
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
