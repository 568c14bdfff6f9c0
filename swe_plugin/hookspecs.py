"""The hooks third parties implement (pluggy, prefix ``swe_``, entry-point group ``swe_plugin``).

Registration hooks receive a `register` callback: ``register(name, "package.module:Class", summary="...")``.
Targets are strings, so that nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pluggy

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.types import RolloutResult, Task

__all__ = ["PROJECT", "Register", "hookimpl", "hookspec"]

PROJECT = "swe_plugin"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class Register(Protocol):
    """Callback given to registration hooks."""

    def __call__(self, name: str, target: str, *, summary: str = "") -> None:
        """Claim `name` for the object at `target` (``package.module:Class``)."""
        ...


@hookspec
def swe_register_environments(register: Register) -> None:
    """Environment backends: subclasses of `environments.base.Environment`, built as ``Class(spec)``."""


@hookspec
def swe_register_scaffolds(register: Register) -> None:
    """Agents: subclasses of `scaffolds.base.Scaffold`, built as ``Class(settings)`` from ``swe.scaffold``."""


@hookspec
def swe_register_graders(register: Register) -> None:
    """Graders: subclasses of `grading.base.Grader`."""


@hookspec
def swe_register_datasets(register: Register) -> None:
    """Task sources: callables ``(settings) -> Iterable[Task]``, or subclasses of `data.sources.Source`, which make
    tasks of the rows of a dataset (``swe-plugin prepare``)."""


@hookspec
def swe_register_renderers(register: Register) -> None:
    """Chat renderers: classes that satisfy `tokens.renderer.Renderer`, built as ``Class(tokenizer, chat_template,
    stop_ids=..., template_kwargs=..., tools=...)`` when a run starts; see `tokens.renderers.build.RendererFactory`."""


@hookspec
def swe_register_commands(register: Register) -> None:
    """CLI sub-commands: typer apps."""


@hookspec
def swe_rollout_started(task: Task, environment: Environment) -> None:
    """The environment of `task` is ready and the agent is about to run. Errors are logged, not raised."""


@hookspec
def swe_rollout_finished(result: RolloutResult) -> None:
    """A rollout ended, in whatever way. Errors are logged, not raised."""
