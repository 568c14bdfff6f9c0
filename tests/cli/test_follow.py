"""Following a run through its output."""

from swe_plugin.cli.follow import RunFollower, useful_lines

TRACEBACK = """(TaskRunner pid=7) Traceback (most recent call last):
(TaskRunner pid=7)   File "x.py", line 1, in <module>
(TaskRunner pid=7) \x1b[31mValueError: the reason\x1b[0m
(raylet) [2026-01-01 INFO] noise
Training Progress:  10%|#  | 1/10 [00:01<00:09, 1.0s/it]
"""


def test_the_run_directory_is_where_verl_says_its_metrics_go(tmp_path):
    log, metrics = tmp_path / "log", tmp_path / "run" / "metrics.jsonl"
    follower = RunFollower(log)
    log.write_text("starting\n")
    assert follower.poll() == []
    assert follower.run_dir is None
    metrics.parent.mkdir()
    metrics.write_text('{"step": 1, "data": {"critic/score/mean": 0.5}}\n{"step": 2,')
    with log.open("a") as file:
        file.write(f"\x1b[36m(TaskRunner pid=12)\x1b[0m Creating file logger at {metrics}\n")
        file.write(
            "Training Progress:   0%|  | 0/46 [00:00<?, ?it/s]\rTraining Progress:   2%|  | 1/46 [00:00<?, ?it/s]\n"
        )
    assert [step.number for step in follower.poll()] == [1]
    assert (follower.run_dir, follower.total) == (metrics.parent, 46)
    assert follower.poll() == []
    with metrics.open("a") as file:
        file.write(' "data": {}}\n')
    assert [step.number for step in follower.poll()] == [2]


def test_a_run_that_has_no_metrics_yet_says_itself_where_it_is(tmp_path):
    log = tmp_path / "log"
    log.write_text(f"swe-plugin: the run is in {tmp_path / 'run'}\n")
    follower = RunFollower(log)
    assert follower.poll() == []
    assert follower.run_dir == tmp_path / "run"


def test_our_own_lines_are_the_phase(tmp_path):
    log = tmp_path / "log"
    log.write_text("(TaskRunner pid=3) swe-plugin: making the demo model\n")
    follower = RunFollower(log)
    follower.poll()
    assert follower.phase == "making the demo model"


def test_the_reason_of_a_crash_is_its_last_traceback():
    lines = useful_lines("loading\n" * 50 + TRACEBACK)
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "ValueError: the reason"


def test_without_a_traceback_the_last_lines_are_shown_without_noise():
    text = "one\n2026 INFO two\nswe-plugin cannot start: ImportError: broken\n\n"
    assert useful_lines(text) == ["one", "swe-plugin cannot start: ImportError: broken"]
