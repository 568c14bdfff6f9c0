"""Prompts: jinja templates that come with the package or from a user's path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from swe_plugin.errors import ConfigError
from swe_plugin.scaffolds.observations import observe
from swe_plugin.types import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swe_plugin.config import ScaffoldConfig
    from swe_plugin.types import ExecResult, Task

__all__ = ["BUNDLED", "Prompts", "TaskView"]

BUNDLED = Path(__file__).parent / "prompts"
"""Directory of the templates that come with the package."""

_VARIABLES = {
    "system": {"task", "limits"},
    "instance": {"task", "limits"},
    "observation": {"task", "limits", "result", "output"},
    "format_error": {"task", "limits", "error"},
    "summary": {"task", "limits", "summary"},
}


@dataclass(frozen=True, slots=True)
class TaskView:
    """What a template may say of a task: nothing of its grading, its gold patch or its metadata."""

    instance_id: str
    problem_statement: str
    repo: str
    base_commit: str
    workdir: str
    prompt_vars: Mapping[str, Any]

    @classmethod
    def of(cls, task: Task) -> Self:
        """The public side of `task`."""
        return cls(
            task.instance_id, task.problem_statement, task.repo, task.base_commit, task.image.workdir, task.prompt_vars
        )


class Prompts:
    """The templates of a scaffold, checked when built.

    Raises:
        ConfigError: a template is missing, is no valid jinja, or uses a variable that does not exist.
    """

    def __init__(self, settings: ScaffoldConfig) -> None:
        self._limits = settings
        self._jinja = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
        )
        self._templates = {kind: self._load(kind, getattr(settings, f"{kind}_prompt")) for kind in _VARIABLES}

    def opening(self, task: Task) -> list[Message]:
        """System and first user message; no system message if its template renders to nothing."""
        system, instance = (self._render(kind, task) for kind in ("system", "instance"))
        messages = [Message("system", system)] if system.strip() else []
        return [*messages, Message("user", instance)]

    def observation(self, task: Task, result: ExecResult) -> str:
        """What the model is told of a command's result: its cleaned output, cut to the limit."""
        both = result.stdout + result.stderr
        return self._render("observation", task, result=result, output=observe(both, self._limits.observation_chars))

    def format_error(self, task: Task, error: str) -> str:
        """The correction after an answer in which no action could be read."""
        return self._render("format_error", task, error=error)

    def summary(self, task: Task, summary: str = "") -> str:
        """The request for a summary; with one, what the conversation goes on from."""
        return self._render("summary", task, summary=summary)

    def _render(self, kind: str, task: Task, **variables: object) -> str:
        return self._templates[kind].render(task=TaskView.of(task), limits=self._limits, **variables)

    def _load(self, kind: str, name: str) -> Template:
        key = f"swe.scaffold.{kind}_prompt"
        path = Path(name) if "/" in name or name.endswith((".jinja", ".j2")) else BUNDLED / f"{name}_{kind}.jinja"
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            known = ", ".join(sorted(p.name.removesuffix(f"_{kind}.jinja") for p in BUNDLED.glob(f"*_{kind}.jinja")))
            raise ConfigError(key, name, f"not a template ({error}); bundled: {known}; or give a path") from error
        try:
            unknown = meta.find_undeclared_variables(self._jinja.parse(source)) - _VARIABLES[kind]
            if unknown:
                has = ", ".join(sorted(_VARIABLES[kind]))
                raise ConfigError(key, name, f"no variable {', '.join(sorted(unknown))} here; there are {has}")
            return self._jinja.from_string(source)
        except TemplateSyntaxError as error:
            raise ConfigError(key, name, f"line {error.lineno}: {error.message}") from error
