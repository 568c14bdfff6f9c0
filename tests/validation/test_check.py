"""What each kind of task comes to, with real git, processes and pytest."""

import dataclasses
import json

import pytest
from grading.local import LocalEnvironment

from swe_plugin.config import SweConfig
from swe_plugin.data.ledger import Ledger
from swe_plugin.errors import ConfigError
from swe_plugin.plugins import load_plugins
from swe_plugin.validation.check import Effort
from swe_plugin.validation.finding import Finding, Verdict
from swe_plugin.validation.report import Report
from swe_plugin.validation.run import prepare_config, validate
from validation.cases import BAD, GOOD, ORDERED, script, variant

pytestmark = pytest.mark.slow


class Watching:
    def __init__(self):
        self.steps, self.fresh, self.known = [], [], []

    def doing(self, instance_id, what):
        self.steps.append((instance_id, what))

    def done(self, finding, *, known):
        (self.known if known else self.fresh).append(finding.instance_id)


@pytest.fixture
def run(tmp_path):
    async def run(*tasks, rows=(), repeat=2, orders=1, again=False, watcher=None, jobs=2, **changes):
        config = prepare_config(SweConfig(), jobs)
        for key, value in changes.items():
            section, _, name = key.partition("__")
            setattr(getattr(config, section), name, value)
        with Ledger(tmp_path / "done.jsonl", "--out") as ledger:
            return await validate(
                rows or tasks,
                config,
                load_plugins(),
                ledger,
                watcher or Watching(),
                effort=Effort(repeat, orders),
                jobs=jobs,
                again=again,
                factory=LocalEnvironment,
            )

    return run


async def test_a_good_task_is_run_as_often_as_said(run):
    watching = Watching()
    (finding,) = await run(GOOD, repeat=3, watcher=watching)
    assert (finding.verdict, finding.detail, finding.tests, finding.mislabelled) == (Verdict.GOOD, "", (), ())
    assert [what for _, what in watching.steps] == [
        f"{name} {number} of 3" for name in ("gold", "empty") for number in (1, 2, 3)
    ]
    assert finding.start_s > 0
    assert finding.tests_s > 0
    assert LocalEnvironment.live == 0


@pytest.mark.parametrize(
    ("name", "verdict", "detail"),
    [
        ("wrong-fix", Verdict.GOLD_FAILS, "1 of 2 tests fail with the gold patch: two"),
        ("no-fit", Verdict.GOLD_FAILS, "does not apply"),
        ("no-gold", Verdict.NO_GOLD, "no gold patch"),
        ("proves-nothing", Verdict.EMPTY_PASSES, "prove nothing"),
        ("hangs", Verdict.UNGRADABLE, "did not end within 0.5 s"),
    ],
)
async def test_each_bad_task_is_told_apart(run, name, verdict, detail):
    (finding,) = await run(BAD[name])
    assert finding.verdict is verdict
    assert detail in finding.detail
    assert LocalEnvironment.live == 0


async def test_a_test_that_changes_its_mind_is_named(run, tmp_path):
    text = f'echo >> "{tmp_path}/count"; n=$(wc -l < "{tmp_path}/count"); echo PASSED two\n'
    text += "[ $((n % 2)) = 1 ] && echo PASSED still || echo FAILED still\n"
    (finding,) = await run(variant("moody", grading__tests=script(text)))
    assert (finding.verdict, finding.tests) == (Verdict.FLAKY, ("still",))


async def test_one_grading_cannot_find_a_flaky_test_and_is_enough_for_the_rest(run):
    watching = Watching()
    (finding,) = await run(GOOD, repeat=1, watcher=watching)
    assert finding.verdict is Verdict.GOOD
    assert len(watching.steps) == 2


@pytest.mark.slow
async def test_a_test_that_needs_another_one_is_found_by_changing_the_order(run):
    fixed, moved = await run(
        dataclasses.replace(ORDERED, instance_id="fixed", grading=_without_second()), ORDERED, orders=6
    )
    assert (fixed.verdict, fixed.order_checked) == (Verdict.GOOD, True)
    assert (moved.verdict, moved.order_checked) == (Verdict.ORDER_DEPENDENT, True)
    assert moved.tests == ("test_calc.py::test_second",)
    assert Report([fixed, moved]).kept == ["fixed", "ordered"]
    assert Report([fixed, moved], keep_order_dependent=False).kept == ["fixed"]


def _without_second():
    return dataclasses.replace(ORDERED.grading, pass_to_pass=("test_calc.py::test_third",))


async def test_a_command_that_only_mentions_pytest_is_not_said_to_be_checked(run):
    (finding,) = await run(variant("no-pytest", grading__command=("bash", "hidden.sh", "pytest")))
    assert (finding.verdict, finding.order_checked) == (Verdict.GOOD, False)


async def test_ids_on_the_wrong_list_are_named(run):
    (finding,) = await run(variant("lists", grading__fail_to_pass=("still",), grading__pass_to_pass=("two",)))
    assert (finding.verdict, finding.mislabelled) == (Verdict.GOOD, ("still", "two"))


async def test_a_gold_patch_that_a_recipe_punishes_is_not_good(run):
    tests = {**GOOD.grading.tests, "calc.sh": GOOD.image.files["calc.sh"].replace("-", "+")}
    task = variant("punished", grading__tests=tests)
    honesty = dataclasses.replace(SweConfig().grading.honesty, tests_edited="zero")
    (finding,) = await run(task, grading__honesty=honesty)
    assert finding.verdict is Verdict.GOLD_FAILS
    assert "tests_edited" in finding.detail


@pytest.mark.slow
async def test_what_is_done_is_not_run_again_unless_it_changed_or_gave_no_verdict(run):
    tasks = [GOOD, BAD["wrong-fix"], BAD["hangs"]]
    await run(*tasks)
    watching = Watching()
    findings = await run(*tasks, watcher=watching)
    assert (watching.known, watching.fresh) == (["good", "wrong-fix"], ["hangs"])
    assert [finding.instance_id for finding in findings] == ["good", "wrong-fix", "hangs"]
    again = Watching()
    changed = dataclasses.replace(GOOD, problem_statement="other words")
    await run(changed, *tasks[1:], watcher=again, again=True)
    assert (again.known, sorted(again.fresh)) == ([], ["good", "hangs", "wrong-fix"])


async def test_a_row_that_is_no_task_ends_the_run_and_leaves_no_environment(run):
    def rows():
        yield GOOD
        raise ConfigError("dataset", "x", "row 2 is no task")

    with pytest.raises(ConfigError, match="row 2"):
        await run(rows=rows())
    assert LocalEnvironment.live == 0


def test_a_finding_survives_json():
    finding = Finding("a", "host", Verdict.FLAKY, "x", ("t",), ("u",), ("f",), True, 1.0, 2.0, 3.0)
    assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding


def test_the_report_names_slow_and_broken_images_and_slow_tests():
    findings = [
        Finding("a", "docker:x", Verdict.GOOD, start_s=30.0, tests_s=90.0),
        Finding("b", "docker:y", Verdict.BROKEN_IMAGE, "no such image"),
        Finding("c", "docker:z", Verdict.GOOD, start_s=0.1),
    ]
    report = Report(findings)
    assert [(use.name, use.broken, use.reason) for use in report.bad_images()] == [
        ("docker:y", 1, "no such image"),
        ("docker:x", 0, ""),
    ]
    assert [finding.instance_id for finding in report.slow] == ["a"]
    assert report.keep_list() == "# 2 of 3 tasks, by swe-plugin validate\n# not b: broken image\na\nc\n"


async def test_an_image_is_named_by_what_it_is_made_of(run):
    image = dataclasses.replace(GOOD.image, python="python3", requirements=("six", "pytest<9"), setup=("true",))
    plain, made = await run(GOOD, variant("made", image=image), repeat=1)
    assert (plain.image, made.image) == ("host", "host + six + pytest<9 + setup")
