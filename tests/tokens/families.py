"""What our renderer makes of real chat templates: one cell per family and kind of conversation.

The templates are real. Six families have their own tokenizer as well. For the others it is ours: a small byte-level BPE
that knows each template's control texts as control tokens, as the real one does. So their cells say what the *template*
does; that ids are exact under the real tokenizer rests on the check that every renderer runs at its start.
"""

from __future__ import annotations

# ruff: noqa: RUF001 - control tokens of DeepSeek
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from jinja2 import TemplateError
from tokenizers import Regex, pre_tokenizers
from transformers import AutoTokenizer

from swe_plugin.errors import ConfigError
from swe_plugin.tokens.renderers.build import pinned_date
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.types import Message, ToolCall

from . import chatml

TEMPLATES = Path(os.environ.get("SWE_CHAT_TEMPLATES", Path(__file__).parents[2] / ".cache" / "chat_templates"))
"""Where `make test-templates` puts them."""
CONTROL = re.compile(
    r"<\|[^|<>\s'\"{}]+\|>|<｜[^｜<>\s]+｜>|<(?:start_of_turn|end_of_turn)>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|"
    r"TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK)\]|\[gMASK\]|<sop>|\]~!b\[|\]~b\]|\[e~\[|<\|turn>|<turn\|>"
)
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
WORDS = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*\n+|\s+"
"""Newlines stay together whatever follows, as in the tokenizers of these models."""
DAY = "2026-01-31"


@dataclass(frozen=True)
class Family:
    """A template file, and the special tokens that its model's tokenizer has.

    Attributes:
        own: folder of the model's own tokenizer, if we have it.
        stops: further tokens that its generation configuration names.
        shows_tools: text put before the messages, for a template that leaves it to the caller to show tools.
    """

    name: str
    file: str
    eos: str
    bos: str = ""
    own: str = ""
    stops: tuple[str, ...] = ()
    shows_tools: str = ""

    @property
    def present(self) -> bool:
        return not self.own or (TEMPLATES / self.own).is_dir()

    def tokenizer(self):
        return _tokenizer(self)

    def load(self):
        template = (TEMPLATES / f"{self.file}.jinja").read_text(encoding="utf-8") if self.file else None
        if self.shows_tools:
            template = template.replace("{{ bos_token }}", "{{ bos_token }}" + self.shows_tools)
        return self._load(template) if self.own else self._make(template)

    def _load(self, template):
        """The model's own; a GGUF file does not say which token ends a turn."""
        folder = TEMPLATES / self.own
        gguf = {"gguf_file": "model.gguf"} if (folder / "model.gguf").exists() else {}
        loaded = AutoTokenizer.from_pretrained(folder, **gguf, eos_token=self.eos)
        loaded.chat_template = template or loaded.chat_template
        return loaded

    def _make(self, text):
        made = chatml.tokenizer(text)
        made.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
        )
        special = sorted({*CONTROL.findall(text), self.eos, *([self.bos] if self.bos else [])})
        made.add_special_tokens({"additional_special_tokens": special, "eos_token": self.eos})
        if self.bos:
            made.add_special_tokens({"bos_token": self.bos})
        return made

    def renderer(self, tools: bool) -> ChatTemplateRenderer:
        return _renderer(self, tools)


@cache
def _tokenizer(family: Family):
    return family.load()


@cache
def _renderer(family: Family, tools: bool) -> ChatTemplateRenderer:
    tokenizer = family.tokenizer()
    stops = tokenizer.convert_tokens_to_ids(list(family.stops))
    return ChatTemplateRenderer(tokenizer, stop_ids=stops, template_kwargs=pinned_date(DAY), tools=tools)


QWEN = {"eos": "<|im_end|>"}
LLAMA = {"eos": "<|eot_id|>", "bos": "<|begin_of_text|>"}
DEEPSEEK = {"eos": "<｜end▁of▁sentence｜>", "bos": "<｜begin▁of▁sentence｜>"}
GPT_OSS = {"eos": "<|return|>", "stops": ("<|call|>",)}
SHOWN = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
MISTRAL = {"eos": "</s>", "bos": "<s>"}
FAMILIES = [
    Family("Qwen2.5", "Qwen-Qwen2.5-7B-Instruct", **QWEN),
    Family("Qwen3", "Qwen-Qwen3-0.6B", **QWEN),
    Family("Qwen3-Coder", "Qwen3-Coder", **QWEN),
    Family("Qwen3.5", "Qwen3.5-4B", **QWEN),
    Family("QwQ", "Qwen-QwQ-32B", **QWEN),
    Family("Hermes-3", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", eos="<|im_end|>", bos="<|begin_of_text|>"),
    Family("SmolLM3", "HuggingFaceTB-SmolLM3-3B", **QWEN),
    Family("Llama-3.1", "meta-llama-Llama-3.1-8B-Instruct", **LLAMA),
    Family("Llama-3.2", "meta-llama-Llama-3.2-3B-Instruct", **LLAMA),
    Family("Llama-3.3", "meta-llama-Llama-3.3-70B-Instruct", **LLAMA),
    Family("Gemma-2", "google-gemma-2-2b-it", eos="<end_of_turn>", bos="<bos>"),
    Family("Gemma-4", "google-gemma-4-31B-it", eos="<turn|>", bos="<bos>"),
    Family("DeepSeek-V3.1", "deepseek-ai-DeepSeek-V3.1", **DEEPSEEK),
    Family("DeepSeek-V3.1, shown tools", "deepseek-ai-DeepSeek-V3.1", **DEEPSEEK, shows_tools=SHOWN),
    Family("R1-Distill-Qwen", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", **DEEPSEEK),
    Family("R1-Distill-Llama", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", **DEEPSEEK),
    Family("gpt-oss", "openai-gpt-oss-120b", **GPT_OSS),
    Family("Phi-3.5", "microsoft-Phi-3.5-mini-instruct", eos="<|endoftext|>"),
    Family("Mistral-Nemo", "mistralai-Mistral-Nemo-Instruct-2407", **MISTRAL),
    Family("Mistral-Small-3.2", "Mistral-Small-3.2-24B-Instruct-2506", **MISTRAL),
    Family("Devstral-Small", "unsloth-mistral-Devstral-Small-2507", **MISTRAL),
    Family("GLM-4.6", "GLM-4.6", eos="<|user|>", stops=("<|observation|>",)),
    Family("MiniMax-M2", "MiniMax-M2", eos="[e~["),
    Family("Kimi-K2", "moonshotai-Kimi-K2", eos="<|im_end|>"),
    Family("Kimi-K2, later template", "Kimi-K2-Instruct", eos="<|im_end|>"),
    Family("Granite-3.3", "ibm-granite-granite-3.3-2B-Instruct", eos="<|end_of_text|>"),
    Family("Granite-4.0", "ibm-granite-granite-4.0", eos="<|end_of_text|>"),
]

OWN = [
    Family("SmolLM2", "", eos="<|im_end|>", own="smollm2"),
    Family("Qwen3", "Qwen-Qwen3-0.6B", **QWEN, own="qwen3"),
    Family("Llama-3.1", "meta-llama-Llama-3.1-8B-Instruct", **LLAMA, own="llama3_1"),
    Family("Gemma-3", "", eos="<end_of_turn>", own="gemma3"),
    Family("DeepSeek-V3", "", **DEEPSEEK, own="deepseek_v3"),
    Family("gpt-oss", "openai-gpt-oss-120b", **GPT_OSS, own="gptoss"),
]

SYSTEM, ASK = Message("system", "be brief"), Message("user", "read the file")
NEXT = Message("user", "and now?")
CALLS = [ToolCall("bash", {"command": "ls"}, "call00000"), ToolCall("bash", {"command": "pwd"}, "call00001")]
RESULTS = [Message("tool", "a.py", tool_call_id="call00000"), Message("tool", "/testbed", tool_call_id="call00001")]
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "runs a script",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


DONE, THOUGHT = Message("assistant", "done"), "<think>\nhm\n</think>\n\ndone"


@dataclass(frozen=True)
class Case:
    """A conversation: what comes first, one answer, what follows.

    Attributes:
        answer: as the template would be given it later, with its calls.
        said: what the model samples, if the template does not write the answer itself.
        cut: the turn ends without its end: as sampled, or nothing at all.
        offered: the run has tools, though this answer calls none.
    """

    first: tuple[Message, ...] = (SYSTEM, ASK)
    answer: Message = DONE
    after: tuple[Message, ...] = (NEXT,)
    said: str = "done"
    cut: str = ""
    offered: bool = False

    @property
    def tools(self) -> list[dict]:
        return [BASH] if self.answer.tool_calls or self.offered else []


CASES = {
    "plain": Case(),
    "thinking": Case(answer=Message("assistant", THOUGHT), said=THOUGHT),
    "tool calls": Case(answer=Message("assistant", "", CALLS[:1]), after=(RESULTS[0],), said=""),
    "consecutive results": Case(answer=Message("assistant", "", CALLS), after=tuple(RESULTS), said=""),
    "no call made": Case(offered=True),
    "no system prompt": Case(first=(ASK,)),
    "truncated turn": Case(cut="truncated"),
    "empty turn": Case(answer=Message("assistant", ""), cut="empty", said=""),
}


class SilentlyWrong(AssertionError):
    """The stream is not the template's, and nobody was told."""


def cell(family: Family, case: Case) -> tuple[str, str]:
    """``exact``, ``kept`` (the template rewrites answers, the stream keeps them, the report says so) or ``refused``,
    and the reason.

    Raises:
        SilentlyWrong: none of them.
    """
    tokenizer = family.tokenizer()
    pinned = pinned_date(DAY)
    try:
        renderer = family.renderer(bool(case.tools))
        prompt = renderer.initial(case.first, tools=case.tools)
    except ConfigError as error:
        return "refused", error.fix

    def whole(*messages: Message) -> list[int]:
        raw = [_raw(message) for message in messages]
        text = tokenizer.apply_chat_template(
            raw, tools=case.tools or None, add_generation_prompt=True, tokenize=False, **pinned
        )
        return tokenizer.encode(text, add_special_tokens=False)

    if prompt != whole(*case.first):
        raise SilentlyWrong("the first prompt is not the template's")
    end = [turn_end(renderer, case)]
    answer = case.answer
    try:
        theirs = whole(*case.first, answer, *case.after)
    except TemplateError:  # it takes one call per turn: both results follow that one
        answer = replace(answer, tool_calls=CALLS[:1])
        theirs = whole(*case.first, answer, *case.after)
    if answer.tool_calls:  # the template writes the call: take what it says as sampled
        sampled = renderer.answer(answer, tools=case.tools)[:-1]
    else:
        sampled = tokenizer.encode(case.said, add_special_tokens=False)
    added = _flat(renderer, case, [*sampled, *end])
    if case.cut:
        for partial in (sampled, []):
            if _flat(renderer, case, partial) != end + added:
                raise SilentlyWrong("a turn without its end is not closed like one with it")
    if theirs == [*prompt, *sampled, *end, *added]:
        return "exact", ""
    if theirs[-len(added) - 1 :] != end + added:
        raise SilentlyWrong("what follows the answer is not what the template writes")
    if not renderer.report.notes:
        raise SilentlyWrong("the template changes the past without a note")
    return "kept", renderer.report.notes[0]


def turn_end(renderer: ChatTemplateRenderer, case: Case) -> int:
    """The id that ends an answer of this case."""
    template = renderer._template
    return renderer._encoder.control_ids[template.call_end if case.answer.tool_calls else template.turn_end]


def _flat(renderer: ChatTemplateRenderer, case: Case, sampled: list[int]) -> list[int]:
    return [i for piece in renderer.extension(case.after, sampled=sampled, tools=case.tools) for i in piece.ids]


def _raw(message: Message) -> dict:
    raw = {"role": message.role, "content": message.content}
    if message.tool_calls:
        raw["tool_calls"] = [
            {"id": c.call_id, "type": "function", "function": {"name": c.name, "arguments": dict(c.arguments)}}
            for c in message.tool_calls
        ]
    if message.tool_call_id:
        raw["tool_call_id"] = message.tool_call_id
    return raw


def page(cells: Callable[[Family, str], tuple[str, str]]) -> str:
    """docs/families.md, from a function of family and name of a case."""
    lines, notes = {}, []
    for family in (*OWN, *FAMILIES):
        found = {name: cells(family, name) for name in CASES}
        reads = family.renderer(True).report.call_form if found["tool calls"][0] != "refused" else ""
        lines[family] = f"| {family.name} | " + " | ".join(state for state, _ in found.values()) + f" | {reads} |"
        reasons = dict.fromkeys(reason for _, reason in found.values() if reason)
        notes += [f"- **{family.name}**: {_one_line(reason)}" for reason in reasons]
    head = [f"| family | {' | '.join(CASES)} | form of calls |", "|---" * (len(CASES) + 2) + "|"]
    tables = [INTRODUCTION, *head, *(lines[f] for f in OWN), "", SMALL, "", *head, *(lines[f] for f in FAMILIES)]
    return "\n".join([*tables, "", "## Why", "", *dict.fromkeys(notes), ""])


def _one_line(text: str) -> str:
    text = text.removeprefix("this chat template cannot be trained turn by turn: ")
    text = text.removesuffix("; set a template that only appends")
    return " ".join(text.split())[:240].replace("<", "&lt;").replace("|", "&#124;")


INTRODUCTION = """<!-- Generated by `make test-templates UPDATE=1`; do not edit. -->

# Chat templates

What the renderer `chat_template` makes of real chat templates, as `make test-templates` finds it. Every cell is one of

- **exact**: the stream that is built turn by turn is the template's own rendering of the whole conversation;
- **kept**: the template rewrites earlier *answers* (drops thoughts, moves a header). The stream keeps what was sampled,
  so the model goes on seeing it; `renderer.report` says so;
- **refused**: the run ends with the reason below before it starts. Set `swe.policy.chat_template`, register a renderer
  of your own (`swe_register_renderers`), act in fenced blocks (`swe.scaffold.action=fenced`) where only tools are
  refused, or give a `swe.scaffold.system_prompt` that renders to nothing where only system prompts are.

"No call made" is an answer without a call where tools are offered. Templates that print today's date see the day the
run started. Where a template takes one call per turn, both of two consecutive results follow that one.
`make test-templates` also writes the text of every control token of a tokenizer into observations and prompts: no
control token comes out.

Each family writes tool calls in its own form; the last column is the one that `swe.scaffold.action=tools` reads. It is
found by letting the template write a call; a template whose calls cannot be read back is refused with tools.

With the models' own tokenizers:
"""
SMALL = """With a small tokenizer of our own that knows the control tokens of the model's; the model's own is checked in
the same way at the start of every run:"""
