"""What the report says follows from the files of the run, and from nothing else."""

import io

import pytest
from rich.console import Console

from swe_plugin.cli.metrics import held_out, parse_lines, read_steps
from swe_plugin.cli.report import print_report, summarize


def printed(run_dir) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_report(run_dir, console)
    return console.file.getvalue()


def test_summary_compares_the_first_five_steps_with_the_last_five(run_dir):
    summary = summarize(run_dir)
    assert summary["steps"] == 12
    assert summary["reward_first"] == pytest.approx(3 / 12)
    assert summary["reward_last"] == pytest.approx(10 / 12)


def test_summary_takes_the_held_out_rate_before_and_after(run_dir):
    assert (summarize(run_dir)["held_out_before"], summarize(run_dir)["held_out_after"]) == (0.25, 0.75)


def test_ends_of_rollouts_are_those_that_occurred(run_dir):
    assert summarize(run_dir)["stops"] == {"submitted": 0.75, "turn_limit": 0.25}


def test_correlation_is_that_of_the_worst_step(run_dir):
    assert summarize(run_dir)["correlation_min"] == pytest.approx(1 - 12 / 10_000)


def test_time_outside_the_known_phases_is_shown_as_other_and_sums_to_the_steps(run_dir):
    seconds = summarize(run_dir)["seconds"]
    assert seconds["other"] == pytest.approx(12 * 0.5)
    assert sum(seconds.values()) == pytest.approx(12 * 5.0 + 4.0)


def test_every_step_has_a_row_and_the_evidence_is_named(run_dir):
    text = printed(run_dir)
    assert "0.083" in text
    assert "1.000" in text
    assert "baseline: random policy" in text
    assert "0.125" in text
    assert str(run_dir / "step_*") in text


def test_a_long_run_is_averaged_over_windows_that_cover_it(tmp_path, write_metrics):
    write_metrics(tmp_path, steps=100)
    text = printed(tmp_path)
    assert "means over 2" in text
    assert "1-2" in text
    assert "99-100" in text


def test_what_was_not_measured_is_not_invented(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "data": {"critic/score/mean": 0.5}}\n')
    summary = summarize(tmp_path)
    missing = ("held_out_before", "held_out_after", "correlation_min", "cache_hit_rate", "failed", "trajectories")
    assert all(summary[key] is None for key in missing)
    assert "not recorded" in printed(tmp_path)


def test_a_run_killed_before_its_first_step_still_has_a_report(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    assert summarize(tmp_path)["steps"] == 0
    printed(tmp_path)


def test_a_line_being_written_is_left_out():
    steps = parse_lines(['{"step": 1, "data": {"critic/score/mean": 0.5}}', '{"step": 2, "da'])
    assert [step.number for step in steps] == [1]


def test_held_out_reads_accuracy_and_not_its_variants(run_dir):
    step = read_steps(run_dir)[0]
    step.values["val-core/demo/acc/best@4/mean"] = 1.0
    step.values["val-aux/demo/reward/mean@1"] = 1.0
    assert held_out(step) == 0.25


def test_a_resumed_run_is_one_run(run_dir):
    (run_dir / "metrics-2.jsonl").write_text('{"step": 12, "data": {"critic/score/mean": 0.0}}\n')
    steps = read_steps(run_dir)
    assert [step.number for step in steps] == list(range(13))
    assert steps[-1].values["critic/score/mean"] == 0.0
