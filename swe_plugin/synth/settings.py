"""How tasks are made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from swe_plugin.errors import ConfigError
from swe_plugin.synth.bugs import KINDS
from swe_plugin.synth.statement import check_hint

__all__ = ["SynthSettings"]

_VERSION = "synth-1"
"""Part of every digest: raise it when the same settings lead to other tasks."""


@dataclass(frozen=True, slots=True)
class SynthSettings:
    """What decides about the tasks of a project; equal settings give equal tasks.

    Attributes:
        count: tasks wanted per project.
        attempts: bugs tried per project at most.
        kinds: of bugs, names of `KINDS`.
        per_function: tasks per function at most.
        runs: of the tests, before and with each bug; whatever differs between them is left out.
        visible: share of the tests that pass either way and stay in the agent's tree.
        most_failing: share of the tests that may fail.
        hint: how much a statement tells, see `statement.HINTS`.
        statements: ``template`` or ``litellm:<provider>/<model>``.
        seed: of every choice.
        timeout_s: of one run of the tests before a bug, in seconds.
        arguments: more words for pytest.
    """

    count: int = 50
    attempts: int = 500
    kinds: tuple[str, ...] = tuple(KINDS)
    per_function: int = 3
    runs: int = 3
    visible: float = 0.5
    most_failing: float = 0.5
    hint: str = "function"
    statements: str = "template"
    seed: int = 0
    timeout_s: float = 120.0
    arguments: tuple[str, ...] = ()

    def check(self) -> SynthSettings:
        """Return itself.

        Raises:
            ConfigError: a value is out of range; names the option.
        """
        check_hint(self.hint)
        if unknown := sorted(set(self.kinds) - set(KINDS)):
            raise ConfigError("--kind", unknown[0], f"there are {', '.join(KINDS)}")
        if self.runs < 2:
            raise ConfigError("--runs", self.runs, "one run cannot tell which tests are flaky: at least 2")
        if not (self.statements == "template" or self.statements.startswith("litellm:")):
            raise ConfigError("--statements", self.statements, "must be template or litellm:<provider>/<model>")
        return self

    def digest(self, project: str, requirements: Sequence[str]) -> str:
        """Of everything that decides about one attempt at a bug of a project.

        Args:
            project: digest of its files.
            requirements: of its image, or its base.
        """
        values = {key: value for key, value in asdict(self).items() if key not in ("count", "attempts", "per_function")}
        text = json.dumps([_VERSION, values, project, list(requirements)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
