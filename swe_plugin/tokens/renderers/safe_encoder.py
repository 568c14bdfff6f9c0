"""`SafeEncoder`: encodes a rendered prompt in which only the template can write control tokens."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer

from swe_plugin.errors import ConfigError

__all__ = ["Encoded", "SafeEncoder"]

_SURROGATES = re.compile("[\ud800-\udfff]")
_LONG_TEXT_CHARS = 4_096


class Encoded:
    """Ids of one text and the way from characters to ids.

    Attributes:
        text: the text that was encoded; control tokens stand in it under their private names.
        ids: the tokenizer's ids.
    """

    def __init__(self, text: str, ids: list[int], encoding: Any) -> None:
        self.text, self.ids, self._encoding = text, ids, encoding

    def tokens_of(self, start: int, stop: int) -> tuple[int, int] | None:
        """Range of ids that cover the characters ``[start, stop)``, or None if the tokenizer cannot tell."""
        if start >= stop:
            return None
        first, last = self._encoding.char_to_token(start), self._encoding.char_to_token(stop - 1)
        return None if first is None or last is None else (first, last + 1)


class SafeEncoder:
    """A copy of a tokenizer whose control tokens answer to private names only.

    ``<|im_end|>`` in an observation must stay text, while ``<|im_end|>`` from the template must be one id.
    Encoding the parts separately would split words at their borders, so the whole text is encoded in one
    pass: in message contents each control text is hidden behind a marker while the template is rendered
    (`hide`); in the result, control texts that the template wrote are replaced by their private names and
    the markers by what they hid (`encode`). Private names and markers carry 96 random bits per process.

    Control tokens are the tokenizer's added tokens, except those that its model writes for the same text
    anyway (Gemma lists newlines among its added tokens).

    Args:
        tokenizer: a Hugging Face fast tokenizer.

    Attributes:
        control_ids: text of each control token -> its id.

    Raises:
        ConfigError: the tokenizer has no fast backend, or observations could forge a special token of it.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._model = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise self.refusal("needs a fast (tokenizers) tokenizer")
        spec = json.loads(backend.to_str())
        self._nonce = secrets.token_hex(12)
        self._build(spec, [token for token in spec["added_tokens"] if token["content"]])
        if words := self._words():
            control = [t for t in spec["added_tokens"] if t["content"] and t["content"] not in words]
            self._build(spec, control)
            if self._words():
                raise self.refusal(f"reads the text of a control token as one: {sorted(self._words())[:3]}")

    def hide(self, text: str, *, trusted: bool) -> str:
        """Hide control texts from template and tokenizer.

        Args:
            text: a message's content; what is no valid Unicode becomes U+FFFD.
            trusted: keep control tokens that are not special (``<think>``, ``<tool_call>``): what a recipe's
                author or the model itself wrote means them. Special tokens are always hidden.
        """
        pattern = self._special if trusted else self._control
        return pattern.sub(lambda match: self._markers[match[0]], _SURROGATES.sub("\ufffd", text))

    def name(self, text: str) -> str:
        """Put private names in the place of control texts, then what `hide` took in the place of markers."""
        named = self._control.sub(lambda match: self._names[match[0]], text)
        return self._marker.sub(lambda match: self._hidden[match[0]], named)

    def encode(self, text: str) -> Encoded:
        """Encode a rendered text with hidden contents."""
        named = self.name(text)
        if len(named) > _LONG_TEXT_CHARS:  # `encode` holds the interpreter while it works; `encode_batch` does not
            (encoding,) = self._copy.encode_batch([named], add_special_tokens=False)
        else:
            encoding = self._copy.encode(named, add_special_tokens=False)
        return Encoded(named, self._original(encoding.ids), encoding)

    def _build(self, spec: dict[str, Any], control: list[dict[str, Any]]) -> None:
        """Make the copy, with private names for the control tokens."""
        texts = [token["content"] for token in control]
        self.control_ids: dict[str, int] = {token["content"]: int(token["id"]) for token in control}
        self._specials = frozenset(token["content"] for token in control if token["special"])
        self._names = {text: f"q{self._nonce}n{i}q" for i, text in enumerate(texts)}
        self._markers = {text: f"q{self._nonce}m{i}q" for i, text in enumerate(texts)}
        self._hidden = {marker: text for text, marker in self._markers.items()}
        self._control, self._special = _either(texts), _either(self._specials)
        self._marker = re.compile(f"q{self._nonce}m[0-9]+q")
        added = [{**t, "content": self._names.get(t["content"], t["content"])} for t in spec["added_tokens"]]
        copy = {**spec, "added_tokens": added, "post_processor": None, "truncation": None, "padding": None}
        self._copy: Tokenizer = Tokenizer.from_str(json.dumps(copy))
        ids = {int(self._copy.token_to_id(name)): self.control_ids[text] for text, name in self._names.items()}
        self._ids = {} if all(here == there for here, there in ids.items()) else ids

    def _original(self, ids: list[int]) -> list[int]:
        return [self._ids.get(i, i) for i in ids] if self._ids else ids

    def _words(self) -> set[str]:
        """Control texts that the copy, which knows them under other names, still encodes as control ids."""
        texts, control = list(self.control_ids), set(self.control_ids.values())
        encodings = self._copy.encode_batch(texts, add_special_tokens=False)
        words = {t for t, e in zip(texts, encodings, strict=True) if control.intersection(self._original(e.ids))}
        if forged := words & self._specials:
            raise self.refusal(f"reads the text {min(forged)!r} as a control token, so observations could forge one")
        return words

    def refusal(self, reason: str) -> ConfigError:
        """The error that says why this tokenizer cannot be used."""
        return ConfigError("actor_rollout_ref.model.path", self._model, f"the tokenizer {reason}")


def _either(texts: Iterable[str]) -> re.Pattern[str]:
    """Pattern for the longest of the texts at the leftmost place, like the tokenizer's own matcher."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
