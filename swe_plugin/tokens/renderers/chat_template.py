"""`ChatTemplateRenderer`: any Hugging Face chat template, append-only or refused."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from swe_plugin.errors import TokenStreamError
from swe_plugin.tokens.renderer import Piece
from swe_plugin.tokens.renderers.safe_encoder import Encoded, SafeEncoder
from swe_plugin.tokens.renderers.template import ChatMessage, Template
from swe_plugin.tokens.renderers.template_check import STAND_IN_TOOL, CheckReport, check_template
from swe_plugin.tokens.tool_calls import ParsedCalls, parse_tool_calls
from swe_plugin.types import Message, ToolCall

__all__ = ["ChatTemplateRenderer", "CheckReport"]

_CODE = "for i in a:\n    print(i)  # two\n"
"""A tokenizer that loses blanks makes no programs. (Some published ones do if transformers loads them as Llama's.)"""
_OPENINGS, _SHARED_CHARS = 32, 1 << 16
"""First prompts that are remembered, up to that length: all rollouts of a group begin with the same one."""


class ChatTemplateRenderer:
    """Takes from a template only what it adds.

    The first prompt is the template's rendering of it. What follows an answer is cut out of a rendering of
    a stand-in conversation, ``system, user, answer, *new messages``: everything from the token that ends
    the answer. So the past is never rendered again, templates that need a user turn or a system prompt get
    one, and nothing that the template would do to earlier turns (strip thoughts, drop a header) can change
    ids that were sampled. This is right only if the addition does not depend on the past; `check` tries
    that on several conversations when the renderer is built and refuses the template otherwise.

    Control tokens in message texts are encoded as plain text (see `SafeEncoder`). Safe to share between
    rollouts and threads.

    Args:
        tokenizer: a Hugging Face fast tokenizer.
        chat_template: jinja text that replaces the tokenizer's template.
        stop_ids: more ids that end a turn when sampled: the model's ``generation_config.eos_token_id``.
        template_kwargs: variables for the template, e.g. ``enable_thinking``.
        tools: tools will be offered: check the template with them too. (Without, they are checked at their first use.)

    Attributes:
        report: result of the self-check.

    Raises:
        ConfigError: no template, no fast tokenizer or one that loses blanks, or a template that is not append-only.
    """

    def __init__(
        self,
        tokenizer: Any,
        chat_template: str | None = None,
        *,
        stop_ids: Iterable[int] = (),
        template_kwargs: Mapping[str, Any] | None = None,
        tools: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._encoder = SafeEncoder(tokenizer)
        self._opening = lru_cache(_OPENINGS)(lambda text: array("I", self._encoder.encode(text).ids))
        self._text, self._variables = chat_template, dict(template_kwargs or {})
        eos = getattr(tokenizer, "eos_token_id", None)
        self._stop_ids = frozenset({*stop_ids, *(() if eos is None else (eos,))})
        if (back := self.decode(self._encode_plainly(_CODE))) != _CODE:
            raise self._encoder.refusal(f"reads {_CODE!r} and gives back {back!r}")
        self._check(tools=tools)

    @property
    def stop_ids(self) -> frozenset[int]:
        """The ids that end a turn in the template, the tokenizer's EOS, and those given."""
        return self._stop_ids

    def _check(self, *, tools: bool) -> None:
        control = self._encoder.control_ids
        stop_texts = [text for text, i in control.items() if i in self._stop_ids]
        schemas = [STAND_IN_TOOL] if tools else ()
        self._template = Template(
            self._tokenizer, self._text, self._variables, control, stop_texts=stop_texts, tools=schemas
        )
        self.report = check_template(self._template, self._encoder, self._encode_plainly)
        self._stop_ids |= {control[self._template.turn_end], control[self._template.call_end]}

    def initial(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Ids of the template's rendering with its generation prompt.

        Raises:
            ConfigError: the template refuses the messages, or cannot do tools append-only.
        """
        if tools and not self._template.tools:
            self._check(tools=True)
        text = self._template.render(self._dicts(messages), tools)
        return list(self._opening(text)) if len(text) <= _SHARED_CHARS else self._encoder.encode(text).ids

    def extension(
        self, messages: Sequence[Message], *, sampled: Sequence[int], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[Piece]:
        """Pieces between the sampled turn and the next one; see `Renderer.extension`.

        A turn that ended on another stop id than the template's gets the template's as well.

        Raises:
            ConfigError: the template refuses the messages.
            TokenStreamError: the messages are none, include an assistant's, or are results of no call (where the
                template says which tool each is of).
        """
        if not messages or any(m.role == "assistant" for m in messages):
            raise TokenStreamError("an extension takes one or more messages that are not the assistant's")
        dicts = self._dicts(messages)
        names = self._called(sampled, tools) if self._template.names_tools and dicts[0]["role"] == "tool" else ()
        encoded = self._encoder.encode(self._template.tail(dicts, tools, names))
        end = self._encoder.control_ids[self._template.end_before(dicts)]
        closed = len(sampled) > 0 and sampled[-1] == end
        return _pieces(encoded, [self._encoder.name(d["content"]) for d in dicts], skip=int(closed))

    def answer(self, message: Message, *, tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Ids of an answer as the model would have to sample them, for trajectories of which only the text is known:
        its text as it stands, its calls as the template writes them, and the end of the turn.

        Raises:
            ConfigError: the template refuses the message or its calls.
        """
        raw = self._dict(message)
        if not message.tool_calls:
            return [*self._encoder.encode(str(raw["content"])).ids, self._encoder.control_ids[self._template.turn_end]]
        written = self._encoder.encode(self._template.written(raw, tools)).ids
        return [*written, self._encoder.control_ids[self._template.call_end]]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a sampled turn without its stop id; special tokens inside it stay visible."""
        body = ids[:-1] if len(ids) and ids[-1] in self._stop_ids else ids
        text = self._tokenizer.decode(list(body), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def read_calls(self, text: str, *, tools: Sequence[Mapping[str, Any]], id_prefix: str) -> ParsedCalls:
        """Tool calls in the form in which the template writes them; see `ReadsCalls`."""
        return parse_tool_calls(text, form=self.report.call_form, tools=tools, id_prefix=id_prefix)

    def _called(self, sampled: Sequence[int], tools: Sequence[Mapping[str, Any]]) -> list[str]:
        """Names of the tools that an answer called.

        Raises:
            TokenStreamError: it called none.
        """
        calls = self.read_calls(self.decode(sampled), tools=tools, id_prefix="call000").calls
        if not calls:
            raise TokenStreamError("results follow an answer that called no tool")
        return [self._encoder.hide(call.name, trusted=False) for call in calls]

    def _encode_plainly(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _dicts(self, messages: Sequence[Message]) -> list[ChatMessage]:
        return [self._dict(message) for message in messages]

    def _dict(self, message: Message) -> ChatMessage:
        trusted = message.role in ("system", "assistant")
        raw: ChatMessage = {"role": message.role, "content": self._encoder.hide(message.content, trusted=trusted)}
        if message.tool_calls:
            raw["tool_calls"] = [self._call(call) for call in message.tool_calls]
        if message.tool_call_id:
            raw["tool_call_id"] = self._encoder.hide(message.tool_call_id, trusted=False)
        return raw

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = _map_text(call.arguments, lambda text: self._encoder.hide(text, trusted=True))
        made, name = (self._encoder.hide(text, trusted=False) for text in (call.call_id, call.name))
        return {"id": made, "type": "function", "function": {"name": name, "arguments": arguments}}


def _map_text(value: Any, function: Callable[[str], str]) -> Any:
    """`value` with `function` applied to each string in it."""
    if isinstance(value, str):
        return function(value)
    if isinstance(value, Mapping):
        return {_map_text(key, function): _map_text(item, function) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_text(item, function) for item in value]
    return value


def _pieces(encoded: Encoded, contents: Sequence[str], *, skip: int) -> list[Piece]:
    """Ids of an addition from `skip` on, divided into what messages say and what stands between.

    The division is for the reader of a record: both kinds have mask 0. A content that the template rewrote
    (quoted, trimmed inside) is not found, and then all of it counts as observation.
    """
    pieces: list[Piece] = []
    position, char = skip, 0
    for body in filter(None, (content.strip() for content in contents)):
        start = encoded.text.find(body, char)
        where = encoded.tokens_of(start, start + len(body)) if start >= 0 else None
        if where is None:
            return [Piece(encoded.ids[skip:], "observation")]
        first, last = max(where[0], position), max(where[1], position)
        pieces += [Piece(encoded.ids[position:first], "glue"), Piece(encoded.ids[first:last], "observation")]
        position, char = last, start + len(body)
    pieces.append(Piece(encoded.ids[position:], "glue"))
    return [piece for piece in pieces if piece.ids]
