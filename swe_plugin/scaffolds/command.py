"""`CommandScaffold`: any agent with a command line that speaks OpenAI's protocol, run inside the environment."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from swe_plugin.config import ScaffoldConfig, read_options
from swe_plugin.errors import ConfigError, ScaffoldError
from swe_plugin.gateway import MODEL, Gateway, Session
from swe_plugin.scaffolds.base import Episode, Scaffold
from swe_plugin.scaffolds.observations import observe
from swe_plugin.scaffolds.templates import Prompts, TaskView
from swe_plugin.types import ExecResult, StopReason, Task

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.policies.base import Policy

__all__ = ["CommandOptions", "CommandScaffold"]

_OPTIONS = "swe.scaffold.options"
_TAIL_CHARS = 2000


@dataclass
class CommandOptions:
    """``swe.scaffold.options`` of the scaffold ``command``. Templates are jinja; the filter ``quote`` is for the shell;
    variables: ``task``, ``limits``, ``prompt``, ``url``, ``key``, ``model``."""

    command: str = ""
    """Bash script that runs the agent in the repository; the prompt comes on stdin, and is ``{{ prompt }}``."""
    env: dict[str, str] = field(default_factory=dict)
    """More environment variables: name -> template."""
    upload: dict[str, str] = field(default_factory=dict)
    """Files and directories to bring along: path inside -> path here."""
    timeout_s: float = 0.0
    """Time of the command; 0: ``swe.scaffold.wall_clock_s``."""


class CommandScaffold(Scaffold):
    """Runs a command that calls the gateway: OPENAI_BASE_URL, OPENAI_API_BASE, OPENAI_API_KEY and OPENAI_MODEL are set.

    The patch is what the repository's files became, committed or not. Exit code 0 hands in; any other only ends.

    Args:
        settings: the ``swe.scaffold`` section.

    Raises:
        ConfigError: an option is wrong or missing.
    """

    def __init__(self, settings: ScaffoldConfig) -> None:
        self._settings, self._gateway = settings, Gateway()
        self._options = read_options(CommandOptions, settings.options, _OPTIONS)
        self._prompts = Prompts(settings)
        self._jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
        self._jinja.filters["quote"] = lambda text: shlex.quote(str(text))
        if not self._options.command.strip():
            raise ConfigError(
                f"{_OPTIONS}.command", "", "say how to start the agent, e.g. 'my-agent --task {{ prompt | quote }}'"
            )
        self._command = self._template("command", self._options.command)
        self._env = {name: self._template(f"env.{name}", text) for name, text in self._options.env.items()}
        for source in self._options.upload.values():
            if not Path(source).exists():
                raise ConfigError(f"{_OPTIONS}.upload", source, "there is no such file or directory")

    async def run(self, task: Task, environment: Environment, policy: Policy, episode: Episode) -> StopReason:
        """Run the agent once; see `Scaffold.run`. Stops: submitted, stopped, wall_clock, max_turns, context_full.

        Raises:
            ScaffoldError: the agent ended without an answer of the policy.
        """
        for inside, source in self._options.upload.items():
            await environment.upload(Path(source), inside)
        limit = self._options.timeout_s or self._settings.wall_clock_s
        async with (
            self._gateway.open(policy, episode, max_calls=self._settings.max_turns) as session,
            self._gateway.inside(environment, session, timeout_s=self._settings.wall_clock_s + 60) as url,
        ):
            return await self._run(task, environment, episode, session, url, limit)

    async def close(self) -> None:
        """Stop the gateway."""
        await self._gateway.close()

    async def _run(
        self, task: Task, environment: Environment, episode: Episode, session: Session, url: str, timeout_s: float
    ) -> StopReason:
        prompt = "\n\n".join(message.content for message in self._prompts.opening(task))
        variables = {"url": url, "key": session.key, "model": MODEL, "prompt": prompt}
        every = {**variables, "task": TaskView.of(task), "limits": self._settings}
        script = self._command.render(every)
        env = {"OPENAI_BASE_URL": url, "OPENAI_API_BASE": url, "OPENAI_API_KEY": session.key, "OPENAI_MODEL": MODEL}
        env |= {name: template.render(every) for name, template in self._env.items()}
        argv = ["bash", "-c", script]
        with episode.timed("exec"):
            agent = environment.exec(argv, env=env, timeout_s=timeout_s, stdin=prompt.encode())
            result = await session.run(agent)
        if result is None:
            return session.stop_reason(StopReason.STOPPED)
        if episode.turns:
            episode.turns[-1].actions.append(script.replace(session.key, "***"))
            episode.turns[-1].results.append(result)
        return _judge(result, session)

    def _template(self, name: str, text: str) -> Template:
        try:
            return self._jinja.from_string(text)
        except TemplateError as error:
            raise ConfigError(f"{_OPTIONS}.{name}", text, f"not a jinja template: {error}") from error


def _judge(result: ExecResult, session: Session) -> StopReason:
    """What the end of the command means; a line in the record unless it simply ended."""
    how = "took too long" if result.timed_out else f"ended with exit code {result.exit_code}"
    if result.exit_code:
        session.note(f"the command {how}: {observe(result.stderr or result.stdout, _TAIL_CHARS)}")
    if not session.calls and session.stop_reason(StopReason.STOPPED) is StopReason.STOPPED:
        tail = observe(result.stdout + result.stderr, _TAIL_CHARS)
        raise ScaffoldError(f"the command {how} without an answer of the policy; its output: {tail}")
    if result.timed_out:
        return StopReason.WALL_CLOCK
    return session.stop_reason(StopReason.STOPPED if result.exit_code else StopReason.SUBMITTED)
