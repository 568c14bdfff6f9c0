"""Tests before and with a bug, run for real."""

import dataclasses

import pytest
from grading.local import LocalEnvironment

from swe_plugin.errors import ConfigError
from swe_plugin.synth.baseline import Baseline, measure_baseline
from swe_plugin.synth.bugs import find_bugs
from swe_plugin.synth.trial import Limits, Outcome, try_bug
from synth.projects import CORE, FILES, PASSING, suite

pytestmark = pytest.mark.slow


async def measured(made):
    return await measure_baseline(made, runs=2, timeout_s=60)


BASELINE = Baseline(PASSING, (), {"calc/core.py:1": 4, "calc/core.py:8": 1}, 0.5, 0.4)


def bug(kind, after):
    (found,) = [item for item in find_bugs("calc/core.py", CORE, [kind]) if item.after == after]
    return found


async def trial(found, made=None, **changes):
    settings = {"runs": 2, "limits": Limits(60, 20), "most_failing": 0.5} | changes
    return await try_bug(made or suite(), BASELINE, found, **settings)


async def test_the_baseline_knows_what_passes_and_which_functions_are_called():
    found = await measured(suite())
    assert found.passing == PASSING
    called = {place: count for place, count in found.called.items() if place.startswith("calc/")}
    assert (found.unstable, called) == ((), dict(BASELINE.called))
    assert found.cpu_s > 0
    assert found.duration_s > 0
    assert LocalEnvironment.live == 0


async def test_a_test_that_changes_its_mind_is_not_in_the_baseline(tmp_path):
    text = (
        f"from pathlib import Path\n\n\ndef test_moody():\n    count = Path({str(tmp_path)!r}, 'count')\n"
        "    count.write_text((count.read_text() if count.exists() else '') + 'x')\n"
        "    assert len(count.read_text()) % 2\n\n\ndef test_sure():\n    pass\n"
    )
    found = await measured(suite({**FILES, "tests/test_core.py": text}))
    assert (found.passing, found.unstable) == (("tests/test_core.py::test_sure",), ("tests/test_core.py::test_moody",))


async def test_a_missing_module_is_named_with_the_fix():
    with pytest.raises(ConfigError, match="--with no_such_module"):
        await measured(suite({**FILES, "tests/test_core.py": "import no_such_module\n\n\ndef test(): pass\n"}))


async def test_a_suite_that_takes_too_long_is_refused():
    slow = suite({**FILES, "tests/test_core.py": "import time\n\n\ndef test(): time.sleep(60)\n"})
    with pytest.raises(ConfigError, match="--timeout"):
        await measure_baseline(slow, runs=2, timeout_s=1)
    assert LocalEnvironment.live == 0


async def test_a_project_that_is_installed_is_refused():
    made = suite()
    made = dataclasses.replace(made, project=dataclasses.replace(made.project, name="pytest"))
    with pytest.raises(ConfigError, match="every agent can read the fix"):
        await made.check_image(60.0)
    await suite().check_image(60.0)


async def test_a_bug_has_the_tests_that_fail_each_time_and_what_they_say():
    found = await trial(bug("wrong_function", "max"))
    assert found.outcome is Outcome.KEPT
    failing = {test_id for test_id, _ in found.messages}
    assert failing == set(found.fail_to_pass) == {PASSING[1], PASSING[2], PASSING[3]}
    assert set(found.pass_to_pass) == set(PASSING) - failing
    assert dict(found.messages)[PASSING[3]].startswith("assert 9 == 3")


@pytest.mark.parametrize(
    ("kind", "after", "outcome", "changes"),
    [
        ("dropped_statement", "pass", Outcome.HANGS, {"limits": Limits(100, 2)}),
        ("comparison", "<=", Outcome.UNNOTICED, {}),
        ("wrong_function", "max", Outcome.BREAKS, {"most_failing": 0.1}),
    ],
)
async def test_other_bugs_are_told_apart(kind, after, outcome, changes):
    assert (await trial(bug(kind, after), **changes)).outcome is outcome
    assert LocalEnvironment.live == 0


async def test_a_bug_that_keeps_tests_from_being_collected_breaks_too_much():
    files = {**FILES, "calc/core.py": CORE + "\n\nX = clamp(1, 0, 3) / 1\n"}
    text = files["calc/core.py"]
    (found,) = [item for item in find_bugs("calc/core.py", text, ["return_none"]) if "min" in item.before]
    assert (await trial(found, suite(files))).outcome is Outcome.BREAKS


async def test_a_bug_that_not_the_same_tests_notice_is_flaky(tmp_path):
    check = f"__import__('pathlib').Path({str(tmp_path)!r}, 'seen')"
    text = CORE.replace("return min(value, high)", f"return min(value, high) if not {check}.exists() else high")
    tests = FILES["tests/test_core.py"] + f"\n\ndef test_zz():\n    {check}.touch()\n"
    files = {**FILES, "calc/core.py": text, "tests/test_core.py": tests}
    (found,) = [item for item in find_bugs("calc/core.py", text, ["dropped_not"]) if item.function == "clamp"]
    seen = await trial(found, suite(files))
    assert seen.outcome is Outcome.FLAKY


async def test_tests_that_wait_for_ever_are_found_by_the_clock():
    files = {**FILES, "calc/core.py": f"import time\n\n\n{CORE}\n\nWAIT = spin(3)\ntime.sleep(60 if WAIT else 0)\n"}
    found = [item for item in find_bugs("calc/core.py", files["calc/core.py"], ["off_by_one"]) if item.after == "1"]
    seen = await trial(found[0], suite(files), limits=Limits(4, 60))
    assert seen.outcome is Outcome.HANGS
    assert LocalEnvironment.live == 0


def test_limits_grow_with_the_suite():
    assert Limits.of(BASELINE) == Limits(60.0, 10)
    assert Limits.of(Baseline((), (), {}, 30.0, 7.3)) == Limits(300.0, 37)
