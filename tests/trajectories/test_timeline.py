"""A run's timeline: every recorded stretch once, rows that do not overlap, formats that tools read."""

import asyncio
import json
import time
from xml.etree import ElementTree

import pytest
from rollout.workers import FIX, SUBMIT, TASK, answers, worker
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.cli.timeline import svg
from swe_plugin.trajectories.store import find_trajectories, load_trajectory
from swe_plugin.trajectories.timeline import EVENTS_FILE, read_timeline


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two steps of three rollouts each on real files, and the events of a trainer around them."""
    directory = tmp_path_factory.mktemp("run")

    async def play():
        made = worker(run_dir=directory)
        events = []
        for step in (1, 2):
            events.append(("dispatched", step))
            rollouts = [made.run(TASK, session, answers(FIX, SUBMIT), step=step, phase="train") for session in range(3)]
            await asyncio.gather(*rollouts)
            events.append(("sampled", step))
        return events

    began = time.time()
    events = asyncio.run(play())
    lines = [
        json.dumps({"t": began + number, "event": event, "partition": "train", "step": step})
        for number, (event, step) in enumerate(events)
    ]
    (directory / EVENTS_FILE).write_text("\n".join(lines) + "\n")
    return directory


def test_phases_are_recorded_in_order_and_agree_with_the_timings(run):
    for path in find_trajectories(run):
        result = load_trajectory(path).result
        names = [phase.name for phase in result.phases]
        assert names[:2] == ["wait", "start"]
        assert names[-1] == "grade"
        assert names.count("generate") == 2
        for name in ("generate", "exec", "patch", "grade"):
            whole = sum(phase.seconds for phase in result.phases if phase.name == name)
            assert whole == pytest.approx(result.timings[name], abs=1e-6)
        assert ":" in result.worker


def test_every_rollout_is_on_a_row_of_its_own_while_it_runs(run):
    timeline = read_timeline(run)
    rollouts = [bar for bar in timeline.bars if bar.lane != "trainer"]
    assert len({bar.label for bar in rollouts}) == 6
    spans = {}
    for bar in rollouts:
        spans.setdefault((bar.row, bar.label), []).append(bar.phase)
    for (row, label), phases in spans.items():
        began, ended = min(p.began for p in phases), max(p.began + p.seconds for p in phases)
        for (other_row, other), more in spans.items():
            if row == other_row and label != other:
                assert ended <= min(p.began for p in more) or began >= max(p.began + p.seconds for p in more)
    assert timeline.lanes()["trainer"] == 1
    assert [(bar.phase.name, bar.label) for bar in timeline.bars if bar.lane == "trainer"] == [
        ("rollouts", "step 1"),
        ("training", "step 1"),
        ("rollouts", "step 2"),
    ]


def test_one_step_alone(run):
    labels = {bar.label for bar in read_timeline(run, [2]).bars}
    assert labels == {"step 2", *(f"calc-1@{session} (train, step 2)" for session in range(3))}


def test_the_trace_is_what_perfetto_reads(run):
    trace = read_timeline(run).chrome_trace()
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert min(event["ts"] for event in complete) == 0
    assert all(event["dur"] >= 0 for event in complete)
    names = {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert names[0] == "trainer"
    assert {event["pid"] for event in complete} <= names.keys()


def test_the_picture_is_well_formed_and_has_every_bar(run):
    timeline = read_timeline(run)
    root = ElementTree.fromstring(svg(timeline))
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == len(timeline.bars)


def test_the_command_writes_both_and_says_what_is_missing(run, tmp_path):
    call = CliRunner().invoke
    done = call(build_app(), ["timeline", str(run), "--out", str(tmp_path / "new"), "--step", "1"])
    assert done.exit_code == 0, done.output
    assert done.output.split() == [str(tmp_path / "new/timeline.json"), str(tmp_path / "new/timeline.svg")]
    assert json.loads((tmp_path / "new/timeline.json").read_text())["traceEvents"]
    missing = call(build_app(), ["timeline", str(run), "--step", "9"])
    assert missing.exit_code == 2
    assert "no rollout with times in step 9" in missing.output
