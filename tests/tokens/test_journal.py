"""Journal: everything that crossed the boundary is on disk, whatever happens next."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import pytest

from swe_plugin.tokens.journal import Journal, JournalRecord, PrefixDigest, prompt_digest, read_journal


def record(n=1, **kwargs):
    return JournalRecord("r", n, 3, prompt_digest([1, 2, n]), [5, 6], [-0.1, -0.25], 1, 2, 8, **kwargs)


def as_json(records):
    return [(r.attempt, list(r.completion_ids), list(r.log_probs)) for r in records]


def test_records_come_back_as_they_were(tmp_path):
    journal = Journal(tmp_path / "new" / "journal.jsonl")
    for n in range(100):
        journal.append(record(n))
    journal.flush()
    read = list(read_journal(tmp_path / "new" / "journal.jsonl"))
    assert as_json(read) == as_json(journal.records)
    assert read[0].prompt_digest == prompt_digest([1, 2, 0])


def test_without_a_path_records_stay_in_memory():
    journal = Journal()
    journal.append(record())
    journal.flush()
    assert len(journal.records) == 1


def test_a_torn_line_is_skipped_and_does_not_spoil_the_next(tmp_path, caplog):
    path = tmp_path / "j.jsonl"
    first = Journal(path)
    first.append(record(1))
    first.flush()
    with path.open("ab") as file:
        file.write(b'{"request_id": "torn\xff')
    second = Journal(path)
    second.append(record(2))
    second.flush()
    with caplog.at_level(logging.WARNING):
        assert [r.attempt for r in read_journal(path)] == [1, 2]
    assert "skipped" in caplog.text


def test_append_never_waits_for_the_disk(tmp_path, monkeypatch):
    gate = threading.Event()
    journal = Journal(tmp_path / "j.jsonl")
    write = journal._write

    def slow():
        gate.wait(10)
        write()

    monkeypatch.setattr(journal, "_write", slow)
    for n in range(10):
        journal.append(record(n))
    assert not (tmp_path / "j.jsonl").exists()
    gate.set()
    journal.flush()
    assert len(list(read_journal(tmp_path / "j.jsonl"))) == 10


def test_a_disk_error_is_raised_by_flush_and_nothing_is_lost(tmp_path):
    path = tmp_path / "dir" / "j.jsonl"
    path.parent.write_text("a file where the directory should be")
    journal = Journal(path)
    journal.append(record(1))
    with pytest.raises(OSError, match="dir"):
        journal.flush()
    path.parent.unlink()
    journal.append(record(2))
    journal.flush()
    assert [r.attempt for r in read_journal(path)] == [1, 2]


def test_records_reach_the_disk_without_a_flush_at_exit(tmp_path):
    code = (
        "import sys; from pathlib import Path; from swe_plugin.tokens.journal import *\n"
        "j = Journal(Path(sys.argv[1]))\n"
        "for n in range(50): j.append(JournalRecord('r', n, 0, ''))\n"
    )
    path = tmp_path / "j.jsonl"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert len(list(read_journal(path))) == 50


def test_a_digest_of_a_prefix_is_the_digest_of_the_prompt():
    digest = PrefixDigest()
    digest.update([1, 2])
    first = digest.hexdigest()
    digest.update([3])
    assert (first, digest.hexdigest()) == (prompt_digest([1, 2]), prompt_digest([1, 2, 3]))
    assert prompt_digest([1, 23]) != prompt_digest([12, 3])
