"""`TokenPolicy`: asks an inference server in token ids and records what it sampled."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, count
from typing import Any
from weakref import WeakKeyDictionary

from swe_plugin.errors import ContextOverflow, PolicyError, PromptTooLong, TokenStreamError
from swe_plugin.policies.limits import TokenLimits
from swe_plugin.tokens.journal import Journal, JournalRecord
from swe_plugin.tokens.recorder import TokenRecorder
from swe_plugin.tokens.renderer import Piece, ReadsCalls, Renderer
from swe_plugin.tokens.server import Completion, TokenServer
from swe_plugin.tokens.tool_calls import parse_tool_calls
from swe_plugin.types import Message, Reply, Segment

__all__ = ["TokenPolicy"]

_MAX_BACKOFF_S = 8.0
_LONG_TEXT_CHARS = 4_096
"""Longer texts are rendered in a thread, so that encoding them never holds the event loop."""


@cache
def _encoders() -> ThreadPoolExecutor:
    """Few: each that runs Python makes the event loop wait longer for its turn."""
    return ThreadPoolExecutor(max_workers=2, thread_name_prefix="swe-encode")


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _turns(loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
    """Whose turn it is to render on this loop."""
    return _locks.setdefault(loop, asyncio.Lock())


@dataclass(slots=True)
class _Plan:
    """How the next answer attaches to the stream: a whole prompt, or pieces after the last answer."""

    prompt: Sequence[int] | None = None
    pieces: Sequence[Piece] = field(default_factory=list)


class TokenPolicy:
    """One per rollout; satisfies `policies.base.Policy`.

    A history that extends the last one (the messages it saw, its own reply, then new user, system or tool
    messages) continues the segment. The same history again, without the reply, asks the last turn anew: the
    superseded answer leaves the stream. Any other history opens a new segment.

    An aborted answer is retried like a failed call and never recorded. An empty answer yields an empty,
    untruncated `Reply` and trains nothing. An answer is truncated when its last id is no stop id, whatever
    the server calls it; tool calls of a truncated answer are never parsed.

    Where the renderer would show the model another past than what was sampled, the stream goes on from what was
    sampled, or, with `follow_template`, a new segment opens with what the renderer shows.

    Args:
        renderer: text to ids and back.
        server: samples ids.
        limits: see `TokenLimits`.
        recorder: where the stream is kept; a fresh one by default.
        journal: where each call is written down; in memory by default.
        semaphore: bounds calls in flight, shared between rollouts.
        max_attempts: calls for one answer before `PolicyError`.
        call_timeout_s: seconds after which a call has failed, so that a server that hangs is no slow agent.
        backoff_s: seconds before the second call; doubles, up to 8.
        follow_template: render the whole history each turn, and open a new segment where it is not the stream.
        request_id: identifies the rollout to the server's router; random by default.
    """

    def __init__(
        self,
        renderer: Renderer,
        server: TokenServer,
        limits: TokenLimits,
        *,
        recorder: TokenRecorder | None = None,
        journal: Journal | None = None,
        semaphore: asyncio.Semaphore | None = None,
        max_attempts: int = 3,
        call_timeout_s: float = 1200.0,
        backoff_s: float = 0.5,
        follow_template: bool = False,
        request_id: str = "",
    ) -> None:
        self._renderer, self._server, self._limits = renderer, server, limits
        self.recorder = recorder or TokenRecorder()
        self.journal = journal or Journal()
        self.request_id = request_id or uuid.uuid4().hex
        self._gate: AbstractAsyncContextManager[object] = semaphore or nullcontext()
        self._max_attempts, self._backoff_s = max_attempts, backoff_s
        self._call_timeout_s = call_timeout_s
        self._follow_template = follow_template
        self._seen: list[Message] = []
        self._tools: Sequence[Mapping[str, Any]] = ()
        self._last_ids: Sequence[int] = ()

    @property
    def segments(self) -> Sequence[Segment]:
        """Token streams recorded so far."""
        return self.recorder.segments

    def branch(self) -> TokenPolicy:
        """A policy for another conversation of the same rollout, at the same time: see `policies.base.Branching`."""
        beside = copy(self)
        beside.recorder = TokenRecorder(self.recorder)
        beside._seen, beside._tools, beside._last_ids = [], (), ()
        return beside

    async def respond(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        """Answer the conversation; see `Policy.respond`.

        Raises:
            ContextOverflow: not one more id fits; the stream is as it was.
            PromptTooLong: not one id fits after the first prompt.
            PolicyError: every attempt failed or was aborted; the stream is as it was, but without an answer that
                was being asked for again.
            TokenStreamError: nothing new to answer, or the server broke the contract of `Completion`.
        """
        history = list(messages)
        plan = await self._plan(history, tools)
        context, max_tokens = self._budget(plan)
        completion = await self._sample(context, max_tokens)
        if len(completion.token_ids) > max_tokens:
            raise TokenStreamError(f"asked for {max_tokens} ids, got {len(completion.token_ids)}")
        self._commit(plan, completion)
        reply = replace(self._reply(completion, tools), n_prompt=len(context))
        self._seen, self._tools = [*history, reply.message], tools
        return reply

    async def _plan(self, history: list[Message], tools: Sequence[Mapping[str, Any]]) -> _Plan:
        known, new = self._seen, history[len(self._seen) :]
        if known and tools == self._tools:
            if history == known[:-1]:
                self.recorder.retract()
                self._seen = []  # a second failure must not retract again
                return _Plan()
            if history == known:
                raise TokenStreamError("the history ends with the last reply: nothing to answer")
            if history[: len(known)] == known and all(m.role != "assistant" for m in new):
                extension = self._renderer.extension
                pieces = await _off_loop(new, extension, new, sampled=self._last_ids, tools=tools)
                if not self._follow_template:
                    return _Plan(pieces=pieces)
                whole = await self._initial(history, tools)
                same = whole == [*self.recorder.ids, *chain.from_iterable(piece.ids for piece in pieces)]
                return _Plan(pieces=pieces) if same else _Plan(prompt=whole)
        return _Plan(prompt=await self._initial(history, tools))

    async def _initial(self, history: list[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        ids: list[int] = await _off_loop(history, self._renderer.initial, history, tools=tools)
        return ids

    def _budget(self, plan: _Plan) -> tuple[array[int], int]:
        if plan.prompt is not None:
            context, prompt_length = array("I", plan.prompt), len(plan.prompt)
        else:
            context = self.recorder.ids[:]
            for piece in plan.pieces:
                context.extend(piece.ids)
            prompt_length = self.recorder.prompt_length
        if (room := self._limits.room(prompt_length, len(context))) < 1:
            if not self.recorder.segments:
                raise PromptTooLong(
                    f"the first prompt has {prompt_length} ids, which leaves no room for an answer; raise "
                    f"data.max_prompt_length, or drop such tasks: {self._limits}"
                )
            raise ContextOverflow(f"no room after {len(context)} ids ({prompt_length} of them prompt): {self._limits}")
        return context, room

    def _commit(self, plan: _Plan, completion: Completion) -> None:
        if plan.prompt is not None:
            self.recorder.open(plan.prompt)
        else:
            self.recorder.extend(plan.pieces)
        self.recorder.sample(completion)
        self._last_ids = completion.token_ids

    def _reply(self, completion: Completion, tools: Sequence[Mapping[str, Any]]) -> Reply:
        ids = completion.token_ids
        truncated = len(ids) > 0 and ids[-1] not in self._renderer.stop_ids
        text = self._renderer.decode(ids)
        if not tools or truncated:
            return Reply(Message("assistant", text), truncated=truncated, n_tokens=len(ids))
        id_prefix = f"call{self.recorder.turn - 1:03}"
        if isinstance(self._renderer, ReadsCalls):
            parsed = self._renderer.read_calls(text, tools=tools, id_prefix=id_prefix)
        else:
            parsed = parse_tool_calls(text, tools=tools, id_prefix=id_prefix)
        message = Message("assistant", parsed.content, tuple(parsed.calls))
        return Reply(message, n_tokens=len(ids), problems=tuple(parsed.errors))

    async def _sample(self, context: array[int], max_tokens: int) -> Completion:
        for attempt in count(1):
            try:
                return await self._call(context, max_tokens, attempt)
            except PolicyError:
                if attempt >= self._max_attempts:
                    raise
            pause_s = min(self._backoff_s * 2 ** (attempt - 1), _MAX_BACKOFF_S)
            await asyncio.sleep(pause_s + random.uniform(0, self._backoff_s))  # noqa: S311 - not a secret
        raise AssertionError("unreachable")

    async def _call(self, context: array[int], max_tokens: int, attempt: int) -> Completion:
        """One journaled call. A call that was cancelled or raised is in the journal too."""
        completion, error = None, ""
        async with self._gate:
            began = time.perf_counter()
            try:
                completion = await self._generate(context, max_tokens)
            except BaseException as raised:
                error = f"{type(raised).__name__}: {raised}"
                raise
            finally:
                now, duration_s = time.time(), time.perf_counter() - began
                record = JournalRecord(
                    self.request_id, attempt, max_tokens=max_tokens, error=error, time=now, duration_s=duration_s
                )
                self.journal.append(_answered(record, completion) if completion else record, context)
        if completion.aborted:
            self.recorder.note("aborted", f"attempt {attempt}, {len(completion.token_ids)} ids dropped")
            raise PolicyError(f"the server aborted attempt {attempt} of {self._max_attempts}")
        return completion

    async def _generate(self, context: array[int], max_tokens: int) -> Completion:
        deadline = asyncio.timeout(self._call_timeout_s)
        try:
            async with deadline:
                return await self._server.generate(self.request_id, context, max_tokens=max_tokens)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise PolicyError(f"no answer within {self._call_timeout_s:g} s") from error


def _answered(record: JournalRecord, completion: Completion) -> JournalRecord:
    """The record with what came back."""
    versions = list(completion.extra.get("versions") or ())
    return replace(
        record,
        completion_ids=list(completion.token_ids),
        log_probs=list(completion.log_probs),
        min_version=completion.min_version,
        max_version=completion.max_version,
        versions=versions if set(versions) - {completion.min_version} else (),
        aborted=completion.aborted,
    )


async def _off_loop(messages: Sequence[Message], function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call `function` here if the messages are short, else in a thread.

    Here means one call per pass of the event loop: a crowd of rollouts that starts together does not hold it.
    """
    calls = [call.arguments for message in messages for call in message.tool_calls]
    if sum(len(m.content) for m in messages) + len(str(calls)) > _LONG_TEXT_CHARS:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_encoders(), partial(function, *args, **kwargs))
    async with _turns(asyncio.get_running_loop()):
        result = function(*args, **kwargs)
        await asyncio.sleep(0)
    return result
