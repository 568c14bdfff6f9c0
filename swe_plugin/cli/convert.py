"""What `swe-plugin convert` does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from swe_plugin.errors import ConfigError
from swe_plugin.tokens.renderers.build import read_template
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.trajectories.formats import Conversation
from swe_plugin.trajectories.formats.atif import write_atif
from swe_plugin.trajectories.formats.swe_agent import write_swe_agent
from swe_plugin.trajectories.names import safe_name
from swe_plugin.trajectories.sft import Converter, Problem, SftRow, write_rows

__all__ = ["build_renderer", "export", "make_rows"]

_WRITERS = {"atif": (write_atif, ".json"), "traj": (write_swe_agent, ".traj")}


def build_renderer(tokenizer: str, template: str) -> ChatTemplateRenderer:
    """Renderer of a model's tokenizer.

    Raises:
        ConfigError: it cannot be loaded, or its template is not append-only.
    """
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(tokenizer)
    except Exception as error:  # whatever a broken tokenizer raises
        reason = f"cannot be loaded: {type(error).__name__}: {str(error).splitlines()[0]}"
        raise ConfigError("--tokenizer", tokenizer, reason) from error
    return ChatTemplateRenderer(loaded, read_template(template))


def make_rows(
    conversations: Iterable[Conversation],
    out: Path | None,
    *,
    renderer: ChatTemplateRenderer | None,
    max_length: int,
    min_reward: float | None,
    check: bool,
) -> tuple[dict[str, Any], list[Problem]]:
    """Rows into `out`, unless that is None; a summary, and what is wrong.

    Raises:
        ValueError: a file cannot be read.
    """
    converter = Converter(renderer, max_length, min_reward, check)
    summary = {"trajectories": 0, "rows": 0, "tokens": 0, "trained_tokens": 0}

    def rows() -> Iterator[SftRow]:
        for conversation in conversations:
            summary["trajectories"] += 1
            for row in converter.rows(conversation):
                summary["rows"] += 1
                summary["tokens"] += len(row.input_ids)
                summary["trained_tokens"] += sum(row.loss_mask)
                yield row

    if out is None:
        for _ in rows():
            pass
    else:
        write_rows(out, rows())
    return {**summary, "left_out": converter.left_out}, converter.problems


def export(conversations: Iterable[Conversation], target: str, out: Path) -> int:
    """Each trajectory as a file of its own in `out`; returns how many.

    Raises:
        OSError: it cannot be written.
    """
    write, suffix = _WRITERS[target]
    out.mkdir(parents=True, exist_ok=True)
    names: dict[str, int] = {}
    for conversation in conversations:
        name = safe_name(conversation.name)
        names[name] = names.get(name, 0) + 1
        number = f".{names[name]}" if names[name] > 1 else ""
        text = json.dumps(write(conversation), ensure_ascii=True, indent=1)
        (out / f"{name}{number}{suffix}").write_text(text, encoding="utf-8")
    return sum(names.values())
