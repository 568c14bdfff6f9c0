"""What makes a journal trustworthy by itself, before anything is compared with it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence

from swe_plugin.tokens.journal import JournalRecord
from swe_plugin.tokens.prompt_log import PromptLog, prompt_digest

__all__ = ["journal_faults", "prompts_of"]

_ROUNDING = 1e-4
"""A log-prob may exceed 0 by what 32-bit arithmetic over a vocabulary loses."""


def prompts_of(records: Sequence[JournalRecord]) -> Iterator[array[int] | None]:
    """Ids of each call's prompt, oldest first; None where the records do not give them, and from there on."""
    log = PromptLog()
    for record in records:
        try:
            prompt = log.expand(record.prompt_shared, record.prompt_new)
        except (ValueError, TypeError, OverflowError):
            break
        if len(prompt) != record.prompt_length or prompt_digest(prompt) != record.prompt_digest:
            break
        log.answered(prompt, record.completion_ids)
        yield prompt
    while True:
        yield None


def journal_faults(records: Sequence[JournalRecord]) -> list[tuple[int, str]]:
    """Index and fault of each record that cannot be what a journal writes.

    Checked: prompts rebuilt from the differences have the digests of the prompts sent (only the first that has
    not is named: those after it build on it); equal lengths; log-probs finite and not positive; versions
    within the reported range; no more ids than asked for.

    Args:
        records: of one journal, all of them, oldest first.
    """
    faults: list[tuple[int, str]] = []
    rebuilt = True
    for index, (record, prompt) in enumerate(zip(records, prompts_of(records), strict=False)):
        if rebuilt and prompt is None:
            faults.append((index, "its prompt, rebuilt from the calls before, is not the one sent"))
        rebuilt = prompt is not None
        faults += [(index, fault) for fault in _answer_faults(record)]
    return faults


def _answer_faults(record: JournalRecord) -> Iterator[str]:
    count = len(record.completion_ids)
    if len(record.log_probs) != count:
        yield f"{count} ids came with {len(record.log_probs)} log-probs"
    if not all(math.isfinite(value) and value <= _ROUNDING for value in record.log_probs):
        yield "a log-prob is positive or no number"
    if record.versions and len(record.versions) != count:
        yield f"{count} ids came with {len(record.versions)} versions"
    if record.versions and not record.min_version <= min(record.versions) <= max(record.versions) <= record.max_version:
        yield f"a version is outside of {record.min_version}..{record.max_version}"
    if record.max_tokens and count > record.max_tokens:
        yield f"{count} ids, but {record.max_tokens} were asked for"
