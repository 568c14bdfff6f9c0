"""`BashScaffold`: the agent that reads, runs shell scripts turn by turn, and submits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from swe_plugin.config import ScaffoldConfig
from swe_plugin.errors import ContextOverflow
from swe_plugin.scaffolds.base import Episode, Scaffold
from swe_plugin.scaffolds.history import History
from swe_plugin.scaffolds.parsers import TOOLS, Action, ActionFormatError, parse_fenced, parse_tool_calls
from swe_plugin.scaffolds.templates import Prompts
from swe_plugin.tokens.thoughts import said
from swe_plugin.types import Message, Reply, StopReason, Task, Turn

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.policies.base import Policy

__all__ = ["BashScaffold"]

_CUT = "the answer was cut by the length limit before it was complete, so nothing was run"
_NO_SUMMARY = "no summary was found in the answer; nothing was run, and the conversation stays as it is"


class BashScaffold(Scaffold):
    """One bash script per turn in the environment's persistent shell, until submit or a limit.

    An answer is a fenced block (``swe.scaffold.action=fenced``) or tool calls (``tools``); see `parsers`. An
    answer without a readable action gets a correction and counts as a format error.

    Args:
        settings: the ``swe.scaffold`` section.

    Raises:
        ConfigError: a prompt template is missing or wrong.
    """

    def __init__(self, settings: ScaffoldConfig) -> None:
        self._settings = settings
        self._prompts = Prompts(settings)
        self._tools = TOOLS if settings.action == "tools" else ()

    async def run(self, task: Task, environment: Environment, policy: Policy, episode: Episode) -> StopReason:
        """Drive one episode; see `Scaffold.run`. Stops: submitted, max_turns, context_full, format_errors."""
        episode.messages.extend(self._prompts.opening(task))
        history = History(self._settings.keep_observations, self._settings.summarize_after)
        errors_in_a_row = 0
        for _ in range(self._settings.max_turns):
            try:
                if history.due(episode.messages):
                    await self._summarize(task, policy, episode, history)
                    continue
                reply = await self._ask(policy, episode, history)
            except ContextOverflow:
                return StopReason.CONTEXT_FULL
            try:
                actions = self._read(reply)
            except ActionFormatError as error:
                errors_in_a_row += 1
                self._correct(task, reply, str(error), episode)
                if errors_in_a_row >= self._settings.max_format_errors:
                    return StopReason.FORMAT_ERRORS
                continue
            errors_in_a_row = 0
            if await self._act(task, actions, environment, episode):
                return StopReason.SUBMITTED
        return StopReason.MAX_TURNS

    async def _ask(self, policy: Policy, episode: Episode, history: History) -> Reply:
        with episode.timed("generate"):
            reply = await policy.respond(history.shown(episode.messages), tools=self._tools)
        episode.messages.append(reply.message)
        episode.turns.append(Turn())
        return reply

    async def _summarize(self, task: Task, policy: Policy, episode: Episode, history: History) -> None:
        """One turn for a summary. An answer without any text changes nothing; calls in it are not run."""
        last = episode.messages[-1]  # an observation that nobody has seen yet
        episode.messages[-1] = replace(last, content=f"{last.content}\n\n{self._prompts.summary(task)}")
        reply = await self._ask(policy, episode, history)
        text = said(reply.message.content).strip()
        if not text:
            self._refuse(reply, _NO_SUMMARY, episode)
        history.summarized(episode.messages, self._prompts.summary(task, text) if text else "")

    def _read(self, reply: Reply) -> Sequence[Action]:
        if reply.truncated:
            raise ActionFormatError(_CUT)
        if reply.problems:
            raise ActionFormatError("; ".join(reply.problems))
        if self._tools:
            return parse_tool_calls(reply.message.tool_calls)
        return [parse_fenced(reply.message.content)]

    def _correct(self, task: Task, reply: Reply, error: str, episode: Episode) -> None:
        episode.n_format_errors += 1
        episode.turns[-1].format_error = error
        self._refuse(reply, self._prompts.format_error(task, error), episode)

    def _refuse(self, reply: Reply, reason: str, episode: Episode) -> None:
        """Tell the model why nothing was done, once for each of its calls."""
        calls = reply.message.tool_calls if self._tools else ()
        episode.messages.extend(
            [Message("tool", reason, tool_call_id=call.call_id) for call in calls] or [Message("user", reason)]
        )

    async def _act(self, task: Task, actions: Sequence[Action], environment: Environment, episode: Episode) -> bool:
        """Run the actions of one turn in order; True as soon as one of them submits."""
        for action in actions:
            if action.submit:
                return True
            text = action.problem or await self._run(task, action.script, environment, episode)
            role = "tool" if self._tools else "user"
            episode.messages.append(Message(role, text, tool_call_id=action.call_id))
        return False

    async def _run(self, task: Task, script: str, environment: Environment, episode: Episode) -> str:
        turn = episode.turns[-1]
        turn.actions.append(script)  # before it runs: a rollout that is cut here shows what it was doing
        with episode.timed("exec"):
            result = await environment.shell(script, timeout_s=self._settings.command_timeout_s)
        turn.results.append(result)
        return self._prompts.observation(task, result)
