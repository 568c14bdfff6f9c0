"""`Session`: one rollout's access to its policy through the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from swe_plugin.errors import ConfigError, ContextOverflow
from swe_plugin.gateway.conversations import Conversation, Conversations
from swe_plugin.gateway.errors import ApiError
from swe_plugin.gateway.request import ChatRequest
from swe_plugin.types import Message, Reply, StopReason, Turn

if TYPE_CHECKING:
    from swe_plugin.policies.base import Policy
    from swe_plugin.scaffolds.base import Episode

__all__ = ["MODEL", "Session"]

logger = logging.getLogger(__name__)

MODEL = "policy"
"""The only model's name."""
MAX_WAITING = 64
"""Requests of one rollout at once; more are told to come back."""
MAX_READING = 4
"""Bodies of one rollout that are held at once while they come in: each may be large."""
_MAX_NOTES = 100
_T = TypeVar("_T")


@dataclass(slots=True)
class _Flight:
    """An answer on its way, and how many clients wait for it."""

    work: asyncio.Task[Reply]
    waiting: int = 0


class Session:
    """Answers the requests of one rollout, records them, and knows why it cannot go on.

    Args:
        policy: the rollout's.
        episode: gets the messages in the order in which they came, a turn per answer, and a line for each mistake.
        max_calls: answers that the rollout may have.

    Attributes:
        key: a client needs it.
        calls: answers given so far.
        reading: whoever reads a request's body holds it.
    """

    def __init__(self, policy: Policy, episode: Episode, *, max_calls: int) -> None:
        self.key = f"swe-{secrets.token_urlsafe(32)}"
        self.calls = 0
        self.reading = asyncio.Semaphore(MAX_READING)
        self._conversations, self._episode, self._max_calls = Conversations(policy), episode, max_calls
        self._flights: list[tuple[ChatRequest, _Flight]] = []
        self._over = asyncio.Event()
        self._failure: BaseException | None = None
        self._stop: StopReason | None = None
        self._closed = False

    async def run(self, agent: Coroutine[Any, Any, _T]) -> _T | None:
        """Run an agent that calls in, until it ends or may not go on.

        Returns:
            What it returned, or None if it was stopped because its answers are used up.

        Raises:
            Exception: whatever kept the policy from answering, else what the agent raised.
        """
        work, over = asyncio.ensure_future(agent), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, over):
                task.cancel()
            await asyncio.wait({work, over})
        if self._failure is not None:
            if not work.cancelled():
                work.exception()  # seen: a consequence
            raise self._failure
        return None if work.cancelled() else work.result()

    @property
    def failed(self) -> bool:
        """The policy, not the agent, failed."""
        return self._failure is not None

    def stop_reason(self, otherwise: StopReason) -> StopReason:
        """Why the rollout ended, if the gateway knows better than the agent's own end."""
        return self._stop or otherwise

    def fail(self, error: BaseException) -> None:
        """The rollout cannot go on: `run` stops the agent and raises this."""
        self._failure = self._failure or error
        self._over.set()

    def note(self, line: str) -> None:
        """A line for the record."""
        if self._closed:
            logger.warning("a request after its rollout ended: %s", line)
        notes = self._episode.notes
        if len(notes) < _MAX_NOTES and line not in notes:
            notes.append(line)

    async def close(self) -> None:
        """Give up what is on its way; later requests are refused."""
        self._closed = True
        flights = [flight.work for _, flight in self._flights]
        for work in flights:
            work.cancel()
        if flights:
            await asyncio.wait(flights)

    async def answer(self, request: ChatRequest) -> Reply:
        """Answer a request. The same request while its answer is on the way gets the same answer; cancelling the last
        one that waits for it gives it up.

        Raises:
            ApiError: it is not answered; the record says so.
        """
        flight = next((flight for other, flight in self._flights if other == request), None)
        if flight is None:
            self._admit()
            if request.ignored:
                self.note(f"not followed, the run says how answers are sampled: {', '.join(request.ignored)}")
            flight = _Flight(asyncio.ensure_future(self._ask(request)))
            entry = (request, flight)
            self._flights.append(entry)
            flight.work.add_done_callback(lambda _: self._flights.remove(entry))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.work)
        except asyncio.CancelledError:
            if flight.work.cancelled():
                raise self._refusal() from None
            raise
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                flight.work.cancel()

    def _admit(self) -> None:
        """Raises:
        ApiError: no further answer is to be had.
        """
        if self._closed or self._failure is not None:
            raise self._refusal()
        if self.calls >= self._max_calls:
            self._stop = StopReason.MAX_TURNS
            self._over.set()
            raise ApiError(403, f"all {self._max_calls} answers of this rollout are used", "turn_limit_reached")
        if len(self._flights) >= min(MAX_WAITING, self._max_calls - self.calls):
            message = f"{len(self._flights)} requests of this rollout are waiting already"
            raise ApiError(429, message, "rate_limit_exceeded", again=True)

    def _refusal(self) -> ApiError:
        if self._failure is not None:
            return ApiError(500, f"the policy cannot answer: {self._failure}", "policy_failed")
        return ApiError(401, "the rollout of this key has ended", "invalid_api_key")

    async def _ask(self, request: ChatRequest) -> Reply:
        conversation, history = self._conversations.find(request.messages, request.tools)
        try:
            async with conversation.turn:
                with self._episode.timed("generate"):
                    reply = await conversation.policy.respond(history, tools=request.tools)
                self._record(conversation, history, reply)
        except ContextOverflow as error:
            self._stop = StopReason.CONTEXT_FULL
            raise ApiError(400, f"context length exceeded: {error}", "context_length_exceeded") from error
        except ConfigError as error:  # the chat template refuses the conversation
            raise ApiError(400, str(error), "invalid_request", param="messages") from error
        except Exception as error:
            self.fail(error)
            raise self._refusal() from error
        self._stop = None
        return reply

    def _record(self, conversation: Conversation, history: Sequence[Message], reply: Reply) -> None:
        episode, known = self._episode, conversation.seen
        if known and history == known[:-1]:  # asked anew: the answer before is not what the agent went on with
            with contextlib.suppress(ValueError):
                episode.messages.remove(known[-1])
        else:
            episode.messages.extend(history[len(known) :] if history[: len(known)] == known else history)
            episode.turns.append(Turn())
        self.calls += 1
        episode.messages.append(reply.message)
        if reply.problems:
            episode.n_format_errors += 1
            episode.turns[-1].format_error = "; ".join(reply.problems)
        conversation.seen = [*history, reply.message]
