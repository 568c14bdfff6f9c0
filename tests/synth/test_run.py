"""Whole projects become tasks; interrupted and repeated; graded as training grades."""

import json

import pytest
from grading.local import LocalEnvironment

from swe_plugin.config import SweConfig
from swe_plugin.data.ledger import Ledger
from swe_plugin.errors import ConfigError, EnvironmentStartError
from swe_plugin.plugins import load_plugins
from swe_plugin.synth.run import synthesize
from swe_plugin.synth.settings import SynthSettings
from swe_plugin.synth.statement import TemplateWriter
from swe_plugin.validation.check import Effort
from swe_plugin.validation.finding import Verdict
from swe_plugin.validation.run import prepare_config, validate
from synth.projects import FILES, PASSING, suite

pytestmark = pytest.mark.slow

KINDS = ("wrong_function", "negated_condition", "return_none", "wrong_name", "comparison")
SETTINGS = SynthSettings(count=3, attempts=12, kinds=KINDS, runs=2, per_function=2, most_failing=0.7)


class Watching:
    def __init__(self):
        self.said, self.outcomes = [], []

    def doing(self, what):
        self.said.append(what)

    def tried(self, bug, outcome, kept):
        self.outcomes.append((bug.digest, outcome, kept))


class Counting(LocalEnvironment):
    started = 0

    async def start(self):
        Counting.started += 1
        await super().start()


async def make(tmp_path, settings=SETTINGS, jobs=2, files=FILES, factory=Counting, watcher=None):
    Counting.started = 0
    with Ledger(tmp_path / "tried.jsonl", "--out") as ledger:
        writer = TemplateWriter(settings.hint, "pytest")
        made = suite(files, factory)
        return await synthesize(made, settings, writer, ledger, watcher or Watching(), jobs=jobs)


@pytest.mark.slow
async def test_the_tasks_of_a_project_are_good_and_do_not_depend_on_how_they_were_made(tmp_path):
    watching = Watching()
    report = await make(tmp_path / "a", watcher=watching)
    assert (len(report.tasks), report.tests, report.failed) == (3, len(PASSING), {})
    assert {task.metadata["function"] for task in report.tasks} <= {"clamp", "spin"}
    first = Counting.started
    assert first > 6
    assert LocalEnvironment.live == 0
    known = await make(tmp_path / "a")
    assert Counting.started == 0  # all of it was remembered
    assert [task.to_json() for task in known.tasks] == [task.to_json() for task in report.tasks]
    one_by_one = await make(tmp_path / "b", jobs=1)
    assert [task.instance_id for task in one_by_one.tasks] == [task.instance_id for task in report.tasks]
    other = await make(tmp_path / "b", SynthSettings(**{**vars_of(SETTINGS), "seed": 1}))
    assert [task.instance_id for task in other.tasks] != [task.instance_id for task in report.tasks]
    for task in report.tasks:
        hidden = {test_id.rpartition("::")[2].partition("[")[0] for test_id in task.grading.fail_to_pass}
        visible = task.image.files.get("tests/test_core.py", "")
        assert not [name for name in hidden if f"def {name}(" in visible]
        assert task.grading.tests["tests/test_core.py"] == FILES["tests/test_core.py"]
        assert task.image.files["calc/core.py"] != FILES["calc/core.py"]
    await check(report.tasks, tmp_path / "done.jsonl")


def vars_of(settings):
    return {name: getattr(settings, name) for name in settings.__slots__}


async def check(tasks, path):
    """Gold is resolved, the untouched tree is not, in any order: as training would see it."""

    class Quiet:
        def doing(self, instance_id, what):
            pass

        def done(self, finding, *, known):
            pass

    config = prepare_config(SweConfig(), 2)
    config.environment.env["PATH"] = suite().spec(tasks[0].image, "").env["PATH"]
    with Ledger(path, "--out") as ledger:
        arguments = {"effort": Effort(1, 1), "jobs": 2, "factory": LocalEnvironment}
        findings = await validate(tasks, config, load_plugins(), ledger, Quiet(), **arguments)
    assert [(finding.verdict, finding.mislabelled) for finding in findings] == [(Verdict.GOOD, ())] * len(tasks)


class NeverStarts(LocalEnvironment):
    async def start(self):
        raise EnvironmentStartError("no room")


class StartsOnce(LocalEnvironment):
    """Enough for the baseline; every later start fails."""

    left = 3

    async def start(self):
        StartsOnce.left -= 1
        if StartsOnce.left < 0:
            raise EnvironmentStartError("no room")
        await super().start()


async def test_an_infrastructure_that_is_gone_ends_the_run_and_is_not_held_against_the_bugs(tmp_path):
    with pytest.raises(EnvironmentStartError, match="no room"):
        await make(tmp_path, factory=NeverStarts)
    StartsOnce.left = 3
    with pytest.raises(EnvironmentStartError, match="no room"):
        await make(tmp_path, factory=StartsOnce)
    lines = [json.loads(line)["key"] for line in (tmp_path / "tried.jsonl").read_text().splitlines()]
    assert [key.rpartition("/")[2] for key in lines] == ["baseline"]


def test_settings_that_cannot_work_are_refused():
    for changes, option in (({"runs": 1}, "--runs"), ({"kinds": ("x",)}, "--kind"), ({"hint": "all"}, "--hint")):
        with pytest.raises(ConfigError, match=option):
            SynthSettings(**changes).check()
    with pytest.raises(ConfigError, match="--statements"):
        SynthSettings(statements="gpt").check()
