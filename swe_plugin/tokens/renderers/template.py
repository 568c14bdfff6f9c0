"""`Template`: what a chat template writes after an answer, cut out of a stand-in conversation."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile, zip_longest
from typing import Any

from swe_plugin.errors import ConfigError

__all__ = ["ANSWER", "QUESTION", "TOOL_NAME", "ChatMessage", "Template", "answer", "call_id", "result", "user"]

ChatMessage = dict[str, Any]
"""One message as templates take it: role, content, tool_calls, tool_call_id."""

ANSWER = f"zq{secrets.token_hex(8)}qz"
"""Random, so that no observation can contain it and be taken for the stand-in's answer."""
QUESTION = "zqquestionqz"
RESULT = "zqresultqz"
TOOL_NAME = "zqtoolqz"
_HEADER_ENDS = "\n>]"
"""What the header of a turn ends with: where a template's answer is cut off from it."""


class Template:
    """A chat template, always rendered with its generation prompt.

    Args:
        tokenizer: a Hugging Face tokenizer.
        text: jinja text that replaces the tokenizer's template; empty keeps that.
        variables: for the template, e.g. ``enable_thinking``.
        control_texts: texts of the tokenizer's added tokens.
        stop_texts: of these, those at which the model's server stops.
        tools: offered in every rendering of the stand-in; empty: a run without tools.

    Attributes:
        stand_in: the conversation whose answer is followed by what we want to see.
        turn_end: the control token that the template puts right after an answer.
        call_end: the one that ends an answer that makes calls: the same for most.
        names_tools: results name the tool that they are of.

    Raises:
        ConfigError: no template, or answers that no single control token ends.
    """

    def __init__(
        self,
        tokenizer: Any,
        text: str | None,
        variables: Mapping[str, Any],
        control_texts: Iterable[str],
        *,
        stop_texts: Iterable[str] = (),
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._tokenizer, self._text, self._variables = tokenizer, text, variables
        self.tools = tools
        if not text and not getattr(tokenizer, "chat_template", None):
            raise self.refusal("there is none")
        self.stand_in = self._find_stand_in()
        if tools and TOOL_NAME not in self.render(self.stand_in[:-1], tools):
            raise self.refusal("it does not show the model its tools")
        self.turn_end = self._find_turn_end(control_texts)
        self.call_end = self._find_call_end(stop_texts) if tools else self.turn_end
        self.names_tools = bool(tools) and TOOL_NAME in self.tail([result(RESULT)], tools)

    def render(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """Text of a conversation.

        Raises:
            ConfigError: the template refuses it.
        """
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages),
                tools=[dict(tool) for tool in tools] or None,
                chat_template=self._text,
                add_generation_prompt=True,
                tokenize=False,
                **self._variables,
            )
        except Exception as error:  # a template can raise anything
            roles = ", ".join(m["role"] for m in messages)
            raise self.refusal(f"it refuses messages of roles {roles}: {type(error).__name__}: {error}") from error
        return str(text)

    def tail(
        self, new: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]] = (), names: Sequence[str] = ()
    ) -> str:
        """What the template writes from the end of an answer on, if `new` follows it.

        Args:
            new: messages that follow.
            tools: that are offered.
            names: of the tools that the answer called, for templates whose results say them.

        Raises:
            ConfigError: the template refuses the messages, or drops the answer.
        """
        whole = self.render_after([*self.stand_in[:-1]], new, tools, names)
        start = whole.find(self.end_before(new), whole.rfind(ANSWER) + 1)
        if ANSWER not in whole or start < 0:
            raise self.refusal("it drops an answer, or does not end it")
        return whole[start:]

    def end_before(self, new: Sequence[ChatMessage]) -> str:
        """The control token that ends an answer which `new` follows."""
        return self.call_end if new[0]["role"] == "tool" else self.turn_end

    def render_after(
        self,
        history: Sequence[ChatMessage],
        new: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]] = (),
        names: Sequence[str] = (),
    ) -> str:
        """Text of `history`, the stand-in's answer, and `new`.

        The answer makes the calls that `new` has results of; only the first where the template takes no more.

        Raises:
            ConfigError: the template refuses the messages.
        """
        ids = [m.get("tool_call_id") or call_id(i) for i, m in enumerate(new) if m["role"] == "tool"]
        try:
            return self.render([*history, answer(ANSWER, ids, names), *new], tools)
        except ConfigError:
            if len(ids) < 2:
                raise
            return self.render([*history, answer(ANSWER, ids[:1], names), *new], tools)

    def written(self, message: ChatMessage, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """What the template writes between the header of an answer that makes calls and the end of its turn.

        A text that it drops beside calls comes first.

        Raises:
            ConfigError: the template refuses the message.
        """
        start = self.stand_in[:-1]
        results = [{"role": "tool", "content": RESULT, "tool_call_id": call["id"]} for call in message["tool_calls"]]
        prompt, whole = self.render(start, tools), self.render([*start, message, *results], tools)
        shared = shared_length(prompt, whole)
        begin = shared if shared == len(prompt) else max(whole.rfind(end, 0, shared) + 1 for end in _HEADER_ENDS)
        text = whole[begin : whole.rfind(self.call_end, begin, whole.find(RESULT, begin))]
        content = message["content"]
        return text if content.strip() in text else f"{content}{text}"

    def refusal(self, reason: str) -> ConfigError:
        """The error that says why this template cannot be used."""
        name = str(getattr(self._tokenizer, "name_or_path", "") or type(self._tokenizer).__name__)
        fix = f"this chat template cannot be trained turn by turn: {reason}; set a template that only appends"
        return ConfigError("swe.policy.chat_template", "given text" if self._text else f"that of {name}", fix)

    def _find_stand_in(self) -> list[ChatMessage]:
        system = {"role": "system", "content": "zqsystemqz"}
        try:
            self.render([system, user(QUESTION)], self.tools)
        except ConfigError:
            return [user(QUESTION), answer(ANSWER)]
        return [system, user(QUESTION), answer(ANSWER)]

    def _find_turn_end(self, control_texts: Iterable[str]) -> str:
        whole = self.render([*self.stand_in, user("next")], self.tools)
        _, found, after = whole.partition(ANSWER)
        ends = [text for text in control_texts if text and after.startswith(text)]
        if not found or not ends:
            raise self.refusal(f"it ends an answer with {after[:12]!r}, which is no single control token")
        return max(ends, key=len)

    def _find_call_end(self, stop_texts: Iterable[str]) -> str:
        """The end of a turn if it stands between a call and its result, else the first token there that stops the
        server."""
        whole = self.render_after(self.stand_in[:-1], [result(RESULT)], self.tools)
        _, found, rest = whole.rpartition(ANSWER)
        between, told, _ = rest.partition(RESULT)
        if not found or not told:
            raise self.refusal("it does not write a call and its result in this order")
        if self.turn_end in between:
            return self.turn_end
        stops = [text for text in stop_texts if text in between]
        if not stops:
            reason = f"it writes {between!r} between a call and its result, in which none of the model's stop tokens is"
            raise self.refusal(f"{reason} (its generation_config.json lists them as eos_token_id)")
        return min(stops, key=between.find)


def shared_length(one: str, other: str) -> int:
    """Length of the longest common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def user(text: str) -> ChatMessage:
    """A user's message."""
    return {"role": "user", "content": text}


def call_id(number: int) -> str:
    """Nine characters, which some templates insist on."""
    return f"call{number:05}"


def result(text: str, number: int = 0) -> ChatMessage:
    """A tool's result, of the answer's call of that number."""
    return {"role": "tool", "content": text, "tool_call_id": call_id(number)}


def answer(text: str, calls: Sequence[str] = (), names: Sequence[str] = ()) -> ChatMessage:
    """An assistant's message that makes calls of these ids, to tools of these names, and says `text` in their arguments
    too (some templates drop the text beside a call)."""
    message: ChatMessage = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": made, "type": "function", "function": {"name": name, "arguments": {"q": text}}}
            for made, name in zip_longest(calls, names[: len(calls)], fillvalue=TOOL_NAME)
        ]
    return message
