"""The demo's tasks: what is generated, what the prompt gives away, and what really happens to a repository."""

import itertools
import subprocess
import sys
from collections import defaultdict

import pytest

from swe_plugin.config import DemoConfig
from swe_plugin.data.demo import (
    BEHAVIOURS,
    FAMILIES,
    FIXES,
    LOOK,
    MENU,
    SUBMIT,
    SimulatedEpisode,
    balanced_order,
    demo_tasks,
    split_tasks,
)
from swe_plugin.data.demo.repositories import HELDOUT, TRAIN
from swe_plugin.grading.parsers import parser
from swe_plugin.types import Task

TRAIN_TASKS, HELDOUT_TASKS = split_tasks()
ALL = TRAIN_TASKS + HELDOUT_TASKS
SAMPLE = [next(t for t in ALL[i * 8 :] if t.metadata["behaviour"] == b.name) for i, b in enumerate(BEHAVIOURS)]


def write(task, directory):
    for path, text in task.image.files.items():
        (directory / path).write_text(text)


def grade(task, directory):
    """Test id -> status, by the task's own command in `directory`."""
    for path, text in task.grading.tests.items():
        (directory / path).write_text(text)
    command = [sys.executable, *task.grading.command[1:]]
    run = subprocess.run(command, cwd=directory, input="w0rd\n", capture_output=True, text=True, timeout=30)
    return {name: str(status) for name, status in parser(task.grading.parser, task)(run.stdout, "w0rd").items()}


def resolved(task, directory):
    statuses = grade(task, directory)
    assert set(statuses) == {*task.grading.fail_to_pass, *task.grading.pass_to_pass}
    return all(status == "PASSED" for status in statuses.values())


def shell(command, directory):
    return subprocess.run(["bash", "-c", command], cwd=directory, capture_output=True, text=True, timeout=30)


def test_there_are_enough_tasks_in_several_families():
    assert len(ALL) >= 40
    assert len(FAMILIES) == 3
    assert {t.metadata["family"] for t in TRAIN_TASKS} == {t.metadata["family"] for t in HELDOUT_TASKS} == set(FAMILIES)
    assert len({t.instance_id for t in ALL}) == len(ALL)


def test_generation_depends_on_the_seed_only():
    assert demo_tasks(DemoConfig(seed=3)) == demo_tasks({"seed": 3})
    assert demo_tasks({"seed": 3}) != demo_tasks(None)


def test_a_task_survives_the_dataset_column():
    assert all(Task.from_json(t.to_json()).to_json() == t.to_json() for t in SAMPLE)


def test_train_and_heldout_share_no_name():
    names = [{n for r in part for n in (r.name, r.module, r.helper, *r.functions)} for part in (TRAIN, HELDOUT)]
    assert not names[0] & names[1]
    for part, known in zip((TRAIN, HELDOUT), names, strict=True):
        assert len(known) == sum(3 + len(r.functions) for r in part), "two repositories share a name"


def test_the_prompt_gives_no_solution_away():
    words = {
        word for b in BEHAVIOURS for word in (b.name, b.expression, *b.phrase.split()) if word not in ("the", "if")
    }
    for task in ALL:
        assert not any(command in task.problem_statement for command in MENU)
        assert not words & set(task.problem_statement.replace(".", " ").split())


def test_every_prompt_wants_every_behaviour():
    wanted = defaultdict(list)
    for task in ALL:
        wanted[task.problem_statement].append(task.metadata["behaviour"])
    assert all(sorted(names) == sorted(b.name for b in BEHAVIOURS) for names in wanted.values())


def test_without_looking_nothing_beats_chance():
    group = [t for t in HELDOUT_TASKS if t.problem_statement == HELDOUT_TASKS[0].problem_statement]
    for commands in itertools.product([*FIXES, SUBMIT], repeat=3):
        solved = 0
        for task in group:
            episode = SimulatedEpisode(task, 3)
            for command in commands:
                if not episode.done:
                    episode.step(command)
            solved += episode.resolved
        assert solved <= len(group) / len(BEHAVIOURS)


@pytest.mark.parametrize("task", SAMPLE, ids=lambda t: t.metadata["behaviour"])
def test_tests_fail_before_the_fix_and_pass_after_the_gold_patch(task, tmp_path):
    write(task, tmp_path)
    statuses = grade(task, tmp_path)
    assert {statuses[i] for i in task.grading.fail_to_pass} == {"FAILED"}
    assert {statuses[i] for i in task.grading.pass_to_pass} == {"PASSED"}
    applied = subprocess.run(["git", "apply", "-p1", "-"], cwd=tmp_path, input=task.gold_patch, text=True)
    assert applied.returncode == 0
    assert resolved(task, tmp_path)


@pytest.mark.parametrize("task", SAMPLE[::3], ids=lambda t: t.metadata["behaviour"])
def test_simulator_equals_real_execution(task, tmp_path):
    """Every fix of the menu, really run one after the other in one repository: exactly one resolves."""
    write(task, tmp_path)
    episode, verdicts = SimulatedEpisode(task, 100), []
    for command in FIXES:
        real = [shell(command, tmp_path), shell(LOOK, tmp_path)]
        simulated = [episode.step(command), episode.step(LOOK)]
        assert [r.stdout for r in real] == [s.stdout for s in simulated]
        assert [r.returncode for r in real] == [s.exit_code for s in simulated] == [0, 0]
        verdicts.append(resolved(task, tmp_path))
        assert verdicts[-1] == episode.resolved
    assert verdicts == [b.name == task.metadata["behaviour"] for b in BEHAVIOURS]


def test_a_module_that_does_not_load_fails_every_id(tmp_path):
    task = SAMPLE[0]
    write(task, tmp_path)
    (module,) = tmp_path.glob("*.py")
    module.write_text("def broken(:\n")
    assert set(grade(task, tmp_path).values()) == {"FAILED"}


@pytest.mark.parametrize("seed", range(3))
def test_batches_of_the_order_are_balanced(seed):
    order = balanced_order(TRAIN_TASKS, seed)
    assert sorted(t.instance_id for t in order) == sorted(t.instance_id for t in TRAIN_TASKS)
    for start in range(0, len(order), len(BEHAVIOURS)):
        assert len({t.metadata["behaviour"] for t in order[start : start + len(BEHAVIOURS)]}) == len(BEHAVIOURS)
