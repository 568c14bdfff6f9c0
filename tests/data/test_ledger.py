"""A file of finished work survives its writer."""

import pytest

from swe_plugin.data.ledger import Ledger
from swe_plugin.errors import ConfigError


def test_what_was_added_is_there_next_time_and_the_last_line_of_a_key_counts(tmp_path):
    path = tmp_path / "deep" / "done.jsonl"
    with Ledger(path, "--out") as ledger:
        assert ledger.done == {}
        ledger.add("a", {"n": 1})
        ledger.add("b", {"text": "é\n\u2028"})
        ledger.add("a", {"n": 2})
    with Ledger(path, "--out") as ledger:
        assert ledger.done == {"a": {"n": 2}, "b": {"text": "é\n\u2028"}}


def test_a_line_that_was_cut_is_dropped_and_the_next_one_is_whole(tmp_path):
    path = tmp_path / "done.jsonl"
    path.write_text('{"key": "a", "n": 1}\n{"key": "b", "n"')
    with Ledger(path, "--out") as ledger:
        assert ledger.done == {"a": {"n": 1}}
        ledger.add("c", {"n": 3})
    with Ledger(path, "--out") as ledger:
        assert ledger.done == {"a": {"n": 1}, "c": {"n": 3}}


def test_two_processes_do_not_write_one_file(tmp_path):
    with (
        Ledger(tmp_path / "done.jsonl", "--out"),
        pytest.raises(ConfigError, match="another process"),
        Ledger(tmp_path / "done.jsonl", "--out"),
    ):
        pass


def test_a_damaged_file_is_refused_by_name(tmp_path):
    (tmp_path / "done.jsonl").write_text("no json\n")
    with pytest.raises(ConfigError, match=r"done\.jsonl.*damaged"), Ledger(tmp_path / "done.jsonl", "--out"):
        pass


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"), Ledger(tmp_path / "file" / "done.jsonl", "--out"):
        pass
