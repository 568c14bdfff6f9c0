"""`Journal`: what crossed the boundary to the inference server, written independently of the recorder."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from swe_plugin.tokens.prompt_log import PrefixDigest, PromptLog

__all__ = ["Journal", "JournalRecord", "read_journal"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One call of the inference server, whatever became of it.

    Attributes:
        request_id: of the rollout.
        attempt: 1 for the first call for an answer.
        prompt_length: ids sent.
        prompt_digest: `prompt_digest` of the ids sent.
        prompt_shared: how many of them, from the first on, are those of the journal's call before this one, prompt and
            completion.
        prompt_new: the ids sent after those.
        completion_ids: ids received, those of an aborted call too; empty if the call raised.
        log_probs: log-probs received.
        min_version, max_version: weight versions reported.
        versions: weight version of each id, where the engine told them and not all are `min_version`.
        max_tokens: what was asked for.
        aborted: as reported.
        error: ``TypeName: message`` if the call raised.
        time: Unix seconds when the call returned.
        duration_s: seconds the call took.
    """

    request_id: str
    attempt: int
    prompt_length: int = 0
    prompt_digest: str = ""
    prompt_shared: int = 0
    prompt_new: Sequence[int] = ()
    completion_ids: Sequence[int] = ()
    log_probs: Sequence[float] = ()
    min_version: int = -1
    max_version: int = -1
    versions: Sequence[int] = ()
    max_tokens: int = 0
    aborted: bool = False
    error: str = ""
    time: float = 0.0
    duration_s: float = 0.0


@cache
def _writer() -> ThreadPoolExecutor:
    """One thread writes all journals of the process; the interpreter joins it at exit."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="swe-journal")


class Journal:
    """Append-only JSONL file of `JournalRecord`s, safe to use from an event loop.

    `append` only queues; a thread writes whole lines. What a crash can cost is the last moments and one
    torn line, which `read_journal` skips.

    Args:
        path: the file; None keeps records in memory only.

    Attributes:
        records: those that are not in the file yet; all if there is none.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.records: list[JournalRecord] = []
        self._path = path
        self._prompts = PromptLog()
        self._digest = PrefixDigest()
        self._lock = threading.Lock()
        self._scheduled = False
        self._pending: Future[None] | None = None

    def append(self, record: JournalRecord, prompt_ids: Sequence[int]) -> None:
        """Add a record; returns at once.

        Args:
            record: of the call, its ``prompt_*`` fields empty.
            prompt_ids: the ids sent.
        """
        prompt = prompt_ids if isinstance(prompt_ids, array) else array("I", prompt_ids)
        shared, new = self._prompts.shrink(prompt)
        extends = shared == self._prompts.length
        self._prompts.answered(prompt, record.completion_ids, shared=shared)
        if not extends:
            self._digest = PrefixDigest()
        self._digest.update(new if extends else prompt)  # a turn costs what it adds, not the whole conversation
        digest = self._digest.hexdigest()
        self._digest.update(record.completion_ids)
        self.records.append(
            dataclasses.replace(
                record,
                prompt_length=len(prompt),
                prompt_digest=digest,
                prompt_shared=shared,
                prompt_new=new,
            )
        )
        if self._path is not None and not self._scheduled:
            self._scheduled = True
            self._pending = _writer().submit(self._write_later)

    @property
    def is_written(self) -> bool:
        """Everything appended is in the file: `flush` would do nothing."""
        return self._path is None or (not self.records and (self._pending is None or self._pending.done()))

    def flush(self) -> None:
        """Wait until everything appended is in the file. Blocking: call it through `asyncio.to_thread`.

        Raises:
            OSError: the file cannot be written.
        """
        if self._pending is not None:
            wait([self._pending])
        self._write()

    def _write_later(self) -> None:
        self._scheduled = False  # first, so that a record added from now on schedules its own write
        try:
            self._write()
        except OSError as error:  # the records stay; the next write or flush tries again, and flush raises
            logger.error("journal %s cannot be written: %s", self._path, error)  # noqa: TRY400

    def _write(self) -> None:
        if self._path is None:
            return
        with self._lock:
            new = self.records[:]
            if not new:
                return
            lines = "".join(map(_line, new))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                if file.tell() and not _ends_with_newline(self._path):
                    file.write("\n")
                file.write(lines)
            del self.records[: len(new)]


def _line(record: JournalRecord) -> str:
    values = {name: getattr(record, name) for name in JournalRecord.__slots__}
    plain = {name: value.tolist() if isinstance(value, array) else value for name, value in values.items()}
    return json.dumps(plain, separators=(",", ":")) + "\n"


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"


def read_journal(path: Path) -> Iterator[JournalRecord]:
    """Records of a journal file, oldest first; lines torn by a crash are skipped with a warning."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                yield JournalRecord(**json.loads(line))
            except (ValueError, TypeError):
                logger.warning("%s:%d: not a journal record, skipped", path, number)
