"""`SweAgentScaffold`: the loop of an agent that is configured as for SWE-agent."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from swe_plugin.config import ScaffoldConfig, read_options
from swe_plugin.errors import ConfigError, ContextOverflow
from swe_plugin.scaffolds.base import Episode, Scaffold
from swe_plugin.scaffolds.observations import clean
from swe_plugin.scaffolds.parsers import ActionFormatError
from swe_plugin.scaffolds.swe_agent.config import KEY, read_config
from swe_plugin.scaffolds.swe_agent.editor import Editor
from swe_plugin.scaffolds.swe_agent.parsers import PARSERS, Call, parse_call
from swe_plugin.scaffolds.swe_agent.tools import command_docs, schemas
from swe_plugin.types import ExecResult, Message, Reply, StopReason, Task, Turn

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.policies.base import Policy

__all__ = ["SweAgentOptions", "SweAgentScaffold"]

_ALWAYS = {"problem_statement", "working_dir", "repo", "instance_id", "command_docs"}
_TEMPLATES: dict[str, set[str]] = {
    "system_template": set(),
    "instance_template": set(),
    "next_step_template": {"observation"},
    "next_step_no_output_template": {"observation"},
    "next_step_truncated_observation_template": {"observation", "max_observation_length", "elided_chars"},
    "command_cancelled_timeout_template": {"command", "timeout"},
}
_FORMAT_ERROR = "Your answer could not be read: {{ error }}. Give exactly one action in the form you were told."


@dataclass
class SweAgentOptions:
    """``swe.scaffold.options`` of the scaffold ``swe_agent``."""

    config: str = ""
    """Path of a configuration written for SWE-agent; its section `agent` is used."""


class SweAgentScaffold(Scaffold):
    """One action per answer, until it is submitted or a limit is reached.

    Limits are the smaller of the configuration's and of ``swe.scaffold``'s.

    Args:
        settings: the ``swe.scaffold`` section.

    Raises:
        ConfigError: the configuration is wrong, or holds what is not supported; names it.
    """

    def __init__(self, settings: ScaffoldConfig) -> None:
        self._settings = settings
        self._config = read_config(read_options(SweAgentOptions, settings.options, "swe.scaffold.options").config)
        self._jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
        texts = {name: getattr(self._config.templates, name) for name in _TEMPLATES}
        self._templates = {name: self._load(f"templates.{name}", texts[name], _TEMPLATES[name]) for name in texts}
        error = self._config.tools.format_error_template or _FORMAT_ERROR
        self._templates["format_error"] = self._load(
            "tools.format_error_template", error, {"error", "error_code", "exception_message"}
        )
        self._reviews = [
            self._load("tools.registry_variables.SUBMIT_REVIEW_MESSAGES", t, {"diff"}) for t in self._config.review
        ]

    async def run(self, task: Task, environment: Environment, policy: Policy, episode: Episode) -> StopReason:
        """Drive one episode; see `Scaffold.run`. Stops: submitted, stopped, max_turns, wall_clock, context_full,
        format_errors."""
        return await _Run(self, task, environment, episode).until_its_end(policy)

    def render(self, name: str, variables: dict[str, Any]) -> str:
        """A template of the configuration."""
        return self._templates[name].render(variables)

    def _load(self, name: str, text: str, variables: set[str]) -> Template:
        try:
            unknown = meta.find_undeclared_variables(self._jinja.parse(text)) - variables - _ALWAYS
            if unknown:
                has = ", ".join(sorted(variables | _ALWAYS))
                raise ConfigError(
                    f"{KEY}: agent.{name}", ", ".join(sorted(unknown)), f"no such variable; there are {has}"
                )
            return self._jinja.from_string(text)
        except TemplateSyntaxError as error:
            raise ConfigError(f"{KEY}: agent.{name}", text, f"line {error.lineno}: {error.message}") from error


class _Run:
    """One episode."""

    def __init__(self, scaffold: SweAgentScaffold, task: Task, environment: Environment, episode: Episode) -> None:
        self._scaffold, self._config, self._settings = scaffold, scaffold._config, scaffold._settings
        self._environment, self._episode = environment, episode
        self._editor = Editor(environment)
        self._always = {
            "problem_statement": task.problem_statement,
            "working_dir": task.image.workdir,
            "repo": task.repo,
            "instance_id": task.instance_id,
            "command_docs": command_docs(self._config.names),
        }
        self._calls_tools = self._config.parse_function == "function_calling"
        self._submissions = self._timeouts = 0

    async def until_its_end(self, policy: Policy) -> StopReason:
        config, episode = self._config, self._episode
        if config.templates.system_template.strip():
            episode.messages.append(Message("system", self._render("system_template")))
        episode.messages.append(Message("user", self._render("instance_template")))
        await self._set_variables()
        mistakes = 0
        for _ in range(min(self._settings.max_turns, config.max_calls or self._settings.max_turns)):
            try:
                reply = await self._ask(policy)
            except ContextOverflow:
                return StopReason.CONTEXT_FULL
            try:
                call = self._read(reply)
            except ActionFormatError as error:
                mistakes += 1
                self._correct(reply, str(error))
                if mistakes > config.max_requeries:
                    return StopReason.FORMAT_ERRORS
                continue
            mistakes = 0
            if (stop := await self._act(call)) is not None:
                return stop
        return StopReason.MAX_TURNS

    async def _ask(self, policy: Policy) -> Reply:
        shown: Sequence[Message] = self._episode.messages
        for processor in self._config.processors:
            shown = processor.shown(shown)
        tools = schemas(self._config.names) if self._calls_tools else ()
        with self._episode.timed("generate"):
            reply = await policy.respond(shown, tools=tools)
        self._episode.messages.append(reply.message)
        self._episode.turns.append(Turn())
        return reply

    def _read(self, reply: Reply) -> Call:
        if reply.truncated:
            raise ActionFormatError("it was cut by the length limit")
        if reply.problems:
            raise ActionFormatError("; ".join(reply.problems))
        if self._calls_tools:
            return parse_call(reply.message.tool_calls)
        return PARSERS[self._config.parse_function](reply.message.content, self._config.names)

    def _correct(self, reply: Reply, error: str) -> None:
        self._episode.n_format_errors += 1
        self._episode.turns[-1].format_error = error
        text = self._render("format_error", error=error, error_code="", exception_message=error)
        calls = reply.message.tool_calls if self._calls_tools else ()
        refused = [Message("tool", text, tool_call_id=call.call_id) for call in calls]
        self._episode.messages.extend(refused or [Message("user", text)])

    async def _act(self, call: Call) -> StopReason | None:
        """Run one call; the reason if it was the last one."""
        if call.name == "submit" and "submit" in self._config.names:
            if self._submissions >= len(self._scaffold._reviews):
                return StopReason.SUBMITTED
            text = self._scaffold._reviews[self._submissions].render(self._always, diff=await self._diff())
            self._submissions += 1
        elif call.name == "str_replace_editor" and call.name in self._config.names:
            self._episode.turns[-1].actions.append(
                f"{call.name} {call.arguments.get('command')} {call.arguments.get('path')}"
            )
            with self._episode.timed("exec"):
                text = self._observe(await self._editor.run(call.arguments))
            self._episode.turns[-1].results.append(ExecResult(text))
        elif call.name == "bash" and "bash" in self._config.names and isinstance(call.arguments.get("command"), str):
            text = await self._bash(str(call.arguments["command"]))
        else:
            text = f"There is no such call of {call.name!r}; the tools are {', '.join(self._config.names)}."
        role = "tool" if self._calls_tools else "user"
        self._episode.messages.append(Message(role, text, tool_call_id=call.call_id))
        if self._timeouts >= self._config.tools.max_consecutive_execution_timeouts:
            return StopReason.STOPPED
        return StopReason.WALL_CLOCK if self._episode.exec_s > self._config.tools.total_execution_timeout else None

    async def _bash(self, script: str) -> str:
        turn, limit = (
            self._episode.turns[-1],
            min(self._config.tools.execution_timeout, self._settings.command_timeout_s),
        )
        turn.actions.append(script)
        with self._episode.timed("exec"):
            result = await self._environment.shell(script.replace("\0", ""), timeout_s=limit)
        turn.results.append(result)
        self._timeouts = self._timeouts + 1 if result.timed_out else 0
        if result.timed_out:
            return self._render("command_cancelled_timeout_template", command=script, timeout=f"{limit:g}")
        return self._observe(result.stdout + result.stderr)

    def _observe(self, text: str) -> str:
        text = clean(text).rstrip()
        limit = min(self._config.templates.max_observation_length, self._settings.observation_chars)
        if not text:
            return self._render("next_step_no_output_template", observation="")
        if len(text) <= limit:
            return self._render("next_step_template", observation=text)
        left = {"max_observation_length": limit, "elided_chars": len(text) - limit}
        return self._render("next_step_truncated_observation_template", observation=text[:limit], **left)

    async def _diff(self) -> str:
        script = "git add -A && git diff --cached"
        return self._observe((await self._environment.exec(["bash", "-c", script], timeout_s=60)).stdout)

    async def _set_variables(self) -> None:
        exports = [f"export {k}={shlex.quote(str(v))}" for k, v in self._config.tools.env_variables.items()]
        if exports:
            await self._environment.shell("\n".join(exports))

    def _render(self, name: str, **variables: Any) -> str:
        return self._scaffold.render(name, {**self._always, **variables})
