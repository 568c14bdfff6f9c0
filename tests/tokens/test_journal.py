"""Journal: everything that crossed the boundary is on disk, whatever happens next."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.tokens.journal import Journal, JournalRecord, read_journal
from swe_plugin.tokens.journal_check import journal_faults, prompts_of
from swe_plugin.tokens.prompt_log import PrefixDigest, first_difference, prompt_digest


def record(n=1, **kwargs):
    answer = {"completion_ids": [5, 6], "log_probs": [-0.1, -0.25], "min_version": 1, "max_version": 2}
    return JournalRecord("r", n, max_tokens=8, **answer, **kwargs)


PROMPT = [1, 2, 3]


def as_json(records):
    lists = ("prompt_new", "completion_ids", "log_probs", "versions")
    return [dataclasses.asdict(r) | {name: list(getattr(r, name)) for name in lists} for r in records]


def test_records_come_back_as_they_were(tmp_path):
    journal, memory = Journal(tmp_path / "new" / "journal.jsonl"), Journal()
    for n in range(100):
        journal.append(record(n), [1, 2, n])
        memory.append(record(n), [1, 2, n])
    journal.flush()
    assert journal.records == []
    read = list(read_journal(tmp_path / "new" / "journal.jsonl"))
    assert as_json(read) == as_json(memory.records)
    assert read[0].prompt_digest == prompt_digest([1, 2, 0])


def test_without_a_path_records_stay_in_memory():
    journal = Journal()
    journal.append(record(), PROMPT)
    journal.flush()
    assert len(journal.records) == 1


def test_a_torn_line_is_skipped_and_does_not_spoil_the_next(tmp_path, caplog):
    path = tmp_path / "j.jsonl"
    first = Journal(path)
    first.append(record(1), PROMPT)
    first.flush()
    with path.open("ab") as file:
        file.write(b'{"request_id": "torn\xff')
    second = Journal(path)
    second.append(record(2), PROMPT)
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
        journal.append(record(n), [1, 2, n])
    assert not (tmp_path / "j.jsonl").exists()
    gate.set()
    journal.flush()
    assert len(list(read_journal(tmp_path / "j.jsonl"))) == 10


def test_a_disk_error_is_raised_by_flush_and_nothing_is_lost(tmp_path):
    path = tmp_path / "dir" / "j.jsonl"
    path.parent.write_text("a file where the directory should be")
    journal = Journal(path)
    journal.append(record(1), PROMPT)
    with pytest.raises(OSError, match="dir"):
        journal.flush()
    path.parent.unlink()
    journal.append(record(2), PROMPT)
    journal.flush()
    assert [r.attempt for r in read_journal(path)] == [1, 2]


def test_records_reach_the_disk_without_a_flush_at_exit(tmp_path):
    code = (
        "import sys; from pathlib import Path; from swe_plugin.tokens.journal import *\n"
        "j = Journal(Path(sys.argv[1]))\n"
        "for n in range(50): j.append(JournalRecord('r', n), [n])\n"
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


# --- prompts ---------------------------------------------------------------------------------------

IDS = st.lists(st.integers(0, 3), max_size=8)


@given(st.lists(st.tuples(IDS, IDS, st.booleans()), max_size=8))
def test_prompts_are_read_back_from_what_each_adds(calls):
    """Whether a prompt goes on from the call before, repeats it, or has nothing to do with it."""
    journal, prompts = Journal(), []
    for new, answer, goes_on in calls:
        prompts.append([*prompts[-1], *journal.records[-1].completion_ids, *new] if goes_on and prompts else new)
        journal.append(JournalRecord("r", 1, completion_ids=answer, log_probs=[-1.0] * len(answer)), prompts[-1])
    assert [list(ids) for ids in itertools.islice(prompts_of(journal.records), len(prompts))] == prompts
    assert journal_faults(journal.records) == []


@given(IDS, IDS)
def test_the_first_difference_is_where_the_common_prefix_ends(one, other):
    at = first_difference(one, other)
    assert one[:at] == other[:at]
    assert at in (len(one), len(other)) or one[at] != other[at]


def test_a_rollout_costs_its_prompts_once(tmp_path):
    """A hundred turns: without differences the prompts alone would be fifty streams long."""
    journal, stream = Journal(), []
    for _ in range(100):
        stream += [7] * 20
        journal.append(JournalRecord("r", 1, completion_ids=[8] * 5, log_probs=[-1.0] * 5), stream)
        stream += [8] * 5
    assert sum(len(r.prompt_new) for r in journal.records) == 100 * 20


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"prompt_new": [9]}, "rebuilt"),
        ({"prompt_shared": 99}, "rebuilt"),
        ({"prompt_digest": "0"}, "rebuilt"),
        ({"prompt_length": 2}, "rebuilt"),
        ({"log_probs": [-0.1]}, "log-probs"),
        ({"log_probs": [-0.1, 0.5]}, "positive"),
        ({"log_probs": [-0.1, float("nan")]}, "no number"),
        ({"versions": [1]}, "versions"),
        ({"versions": [1, 3]}, "outside"),
        ({"max_tokens": 1}, "asked for"),
    ],
)
def test_a_record_that_no_journal_writes_is_seen(changes, fault):
    journal = Journal()
    journal.append(record(), PROMPT)
    journal.append(record(), [*PROMPT, 5, 6, 4])
    journal.append(record(), [*PROMPT, 5, 6, 4, 5, 6])
    spoilt = [journal.records[0], dataclasses.replace(journal.records[1], **changes), journal.records[2]]
    assert [(index, fault in text) for index, text in journal_faults(spoilt)] == [(1, True)]
