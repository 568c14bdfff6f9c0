"""`swe-plugin top`: what runs and what ran, from real rollouts."""

import asyncio
import json

import pytest
from rollout.workers import FIX, SUBMIT, TASK, answers, worker
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.cli.top import RunView
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.worker import HERE
from swe_plugin.trajectories.live import read_live


class Waits(ScriptedPolicy):
    """Answers once, then waits to be told."""

    def __init__(self, go: asyncio.Event) -> None:
        super().__init__([FIX, SUBMIT])
        self.go = go

    async def respond(self, messages, *, tools=()):
        if len(messages) > 2:
            await self.go.wait()
        return await super().respond(messages, tools=tools)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.05)


async def test_a_rollout_is_seen_while_it_runs_and_after_it_has_ended(tmp_path):
    made, go, view = worker(run_dir=tmp_path), asyncio.Event(), RunView(tmp_path)
    rollout = asyncio.ensure_future(made.run(TASK, 3, lambda: Waits(go), step=7, phase="train"))
    await until(lambda: [line.state for line in view.running()] == ["generate"] and view.running()[0].command)
    (line,) = view.running()
    assert (line.name, line.step, line.phase, line.attempt, line.turn) == ("calc-1@3", 7, "train", 1, 1)
    assert line.command.startswith("sed -i")
    assert line.worker == HERE
    assert view.ended() == []
    go.set()
    await rollout
    await until(lambda: not read_live(tmp_path))  # the board is gone with its last rollout
    (line,) = view.ended()
    assert (line.name, line.state, line.turn) == ("calc-1@3", "submitted", 2)
    await made.close()


async def test_a_closed_worker_leaves_no_board(tmp_path):
    made, go = worker(run_dir=tmp_path), asyncio.Event()
    rollout = asyncio.ensure_future(made.run(TASK, 0, lambda: Waits(go), step=1, phase="val"))
    await until(lambda: read_live(tmp_path))
    await made.close()
    assert rollout.cancelled()
    assert read_live(tmp_path) == []


@pytest.fixture
def top(tmp_path):
    def call(*words):
        return CliRunner().invoke(build_app(), ["top", str(tmp_path), "--once", *words])

    return call


def test_a_finished_run_is_shown_by_its_last_step(tmp_path, top):
    async def play():
        made = worker(run_dir=tmp_path, scaffold__max_turns=1)
        await made.run(TASK, 0, answers(FIX, SUBMIT), step=1, phase="train")
        await asyncio.gather(*(made.run(TASK, n, answers(FIX), step=2, phase="train") for n in range(3)))
        await made.close()

    asyncio.run(play())
    done = top()
    assert done.exit_code == 0
    assert "0 running; ended in step 2: 3 (3 max_turns)" in done.stdout
    assert done.stdout.count("calc-1@") == 3
    assert "and 1 more" in top("--rows", "2").stdout


def test_a_worker_that_is_silent_is_said_to_be(tmp_path, top):
    (tmp_path / "live").mkdir()
    row = {"instance_id": "a[red]b", "session": 0, "step": 1, "phase": "train", "began": 0.0, "state": "exec"}
    row |= {"attempt": 2, "turn": 4, "command": "make\n  [bold]all"}
    (tmp_path / "live" / "h_1.json").write_text(json.dumps({"worker": "h:1", "t": 1.0, "rollouts": [row]}))
    done = top()
    assert "1 running (1 silent)" in done.stdout
    assert "a[red]b@0" in done.stdout
    assert "make [bold]all" in done.stdout


def test_what_is_no_run_is_refused(tmp_path, top):
    done = top()
    assert done.exit_code == 2
    assert "no rollout was begun there" in done.stderr
