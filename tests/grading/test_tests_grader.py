"""The verdict: hidden tests in a fresh environment, exact ids, and no zero for what is not the patch's fault."""

from __future__ import annotations

import dataclasses

import pytest

from grading.local import LocalEnvironment, local
from swe_plugin.config import GradingConfig
from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.errors import EnvironmentUnavailable, GraderError, GraderTimeout, PatchError
from swe_plugin.grading.baseline import record_baseline
from swe_plugin.grading.patch import extract_patch
from swe_plugin.grading.tests import TestsGrader
from swe_plugin.types import GradingSpec, Image, Task, TestStatus

HIDDEN = """\
. ./calc.sh
[ "$(add 1 2)" = 3 ] && echo "PASSED add two" || echo "FAILED add two"
[ "$(add 0 0)" = 0 ] && echo "PASSED add zero" || echo "FAILED add zero"
"""
SHELL = {"calc.sh": "add() { echo $(($1 - $2)); }\n", "tests/test_old.py": "old\n", "conftest.py": "honest\n"}
TASK = Task(
    "calc-1",
    "add subtracts",
    image=Image(files=SHELL),
    grading=GradingSpec(
        command=("bash", "tests/hidden.sh"),
        tests={"tests/hidden.sh": HIDDEN},
        fail_to_pass=("add two",),
        pass_to_pass=("add zero",),
        timeout_s=20,
    ),
)
FIX = "sed -i 's/- /+ /' calc.sh"
GRADER = TestsGrader(GradingConfig())


def with_grading(**changes) -> Task:
    return dataclasses.replace(TASK, grading=dataclasses.replace(TASK.grading, **changes))


def fresh() -> LocalEnvironment:
    return LocalEnvironment(EnvironmentSpec(TASK.image))


_patches: dict[str, str] = {}


async def patch_of(script: str) -> str:
    """What an agent hands in that ran `script`."""
    if script not in _patches:
        _patches[script] = await _extract(script)
    return _patches[script]


async def _extract(script: str) -> str:
    async with fresh() as environment:
        baseline = await record_baseline(environment)
        assert (await environment.shell(script)).exit_code == 0
        return (await extract_patch(environment, baseline)).text


async def grade(script: str, task: Task = TASK):
    patch = await patch_of(script)
    async with fresh() as environment:
        return await GRADER.grade(task, patch, environment)


async def test_the_fix_resolves():
    verdict = await grade(FIX)
    assert verdict.resolved
    assert verdict.statuses == {"add two": TestStatus.PASSED, "add zero": TestStatus.PASSED}
    assert verdict.flags == ()
    assert GRADER.reward(TASK, verdict) == 1.0


async def test_another_change_does_not():
    verdict = await grade("echo '# hm' >> calc.sh")
    assert not verdict.resolved
    assert verdict.statuses == {"add two": TestStatus.FAILED, "add zero": TestStatus.PASSED}
    assert GRADER.reward(TASK, verdict) == 0.0


async def test_breaking_what_passed_does_not():
    verdict = await grade("echo 'add() { echo 3; }' > calc.sh")
    assert not verdict.resolved
    assert verdict.statuses["add two"] is TestStatus.PASSED


async def test_code_that_ends_the_run_is_judged_by_what_is_missing():
    verdict = await grade("echo 'exit 0' > calc.sh")
    assert not verdict.resolved
    assert set(verdict.statuses.values()) == {TestStatus.MISSING}


def test_an_empty_patch_is_known_without_an_environment():
    verdict = GRADER.prejudge(TASK, " \n")
    assert verdict is not None
    assert not verdict.resolved
    assert verdict.flags == ("empty_patch",)
    assert GRADER.prejudge(TASK, "diff") is None


@pytest.mark.parametrize(
    "script",
    [
        "echo 'echo PASSED add two; echo PASSED add zero' > tests/hidden.sh",
        "mkdir tests/hidden.sh; echo x > tests/hidden.sh/f",
        "rm -r tests; mkdir elsewhere; ln -s elsewhere tests",
        "echo cheat > conftest.py",
        "rm conftest.py",
        "mkdir sub; echo cheat > sub/conftest.py",
        "echo weaker > tests/test_old.py",
        "rm tests/test_old.py",
        "echo 'import os' > sitecustomize.py",
        "printf '[pytest]\\naddopts = -p evil\\n' > pytest.ini",
    ],
)
async def test_what_judges_the_patch_is_not_up_to_the_patch(script):
    patch = await patch_of(f"{script}; {FIX}")
    async with fresh() as environment:
        verdict = await GRADER.grade(TASK, patch, environment)
        left = {
            str(path.relative_to(environment.root)): path.read_text()
            for path in environment.root.rglob("*")
            if path.is_file() and ".git" not in path.parts
        }
    assert verdict.resolved  # the honest part counts
    assert verdict.flags == ("tests_edited",)
    assert left == {**SHELL, "calc.sh": "add() { echo $(($1 + $2)); }\n", "tests/hidden.sh": HIDDEN}


async def test_a_patch_of_tests_alone_changes_nothing():
    verdict = await grade("echo 'echo PASSED add two; echo PASSED add zero' > tests/hidden.sh")
    assert not verdict.resolved
    assert verdict.flags == ("tests_edited",)


@pytest.mark.parametrize("script", ["echo new > tests/test_mine.py", "echo x > test_helper.txt", "echo x > contest.py"])
async def test_tests_of_the_agents_own_are_honest(script):
    verdict = await grade(f"{script}; {FIX}")
    assert verdict.resolved
    assert verdict.flags == ()


async def test_a_plain_diff_may_not_touch_the_tests_either():
    patch = "--- a/conftest.py\n+++ b/conftest.py\n@@ -1 +1 @@\n-honest\n+cheat\n"
    async with fresh() as environment:
        verdict = await GRADER.grade(TASK, patch, environment)
        assert (environment.root / "conftest.py").read_text() == "honest\n"
    assert verdict.flags == ("tests_edited",)


async def test_ids_are_exact():
    task = with_grading(
        tests={"tests/hidden.sh": "echo 'PASSED test_ab'; echo \"PASSED t[a b-'q']\"; echo ' PASSED indented'"},
        fail_to_pass=("test_a", "t[a b-'q']", "indented"),
        pass_to_pass=(),
    )
    verdict = await grade(FIX, task)
    assert [*verdict.statuses.values()] == [TestStatus.MISSING, TestStatus.PASSED, TestStatus.MISSING]


TEST_PATCH = "diff --git a/tests/{0} b/tests/{0}\n--- a/tests/{0}\n+++ b/tests/{0}\n@@ -1 +1 @@\n-old\n+new\n".format(
    "test_old.py"
)


async def test_hidden_tests_may_come_as_a_patch_of_what_the_agent_cannot_change():
    task = with_grading(
        test_patch=TEST_PATCH, tests={"tests/hidden.sh": f"{HIDDEN}grep -q new tests/test_old.py || exit\n"}
    )
    verdict = await grade(f"echo weaker > tests/test_old.py; {FIX}", task)
    assert (verdict.resolved, verdict.flags) == (True, ("tests_edited",))


async def test_a_test_patch_that_does_not_apply_is_no_verdict():
    with pytest.raises(GraderError, match="the test patch of calc-1 does not apply"):
        await grade(FIX, with_grading(test_patch=TEST_PATCH.replace("-old", "-other")))


async def test_protected_paths_are_left_as_they_are():
    task = with_grading(protected=("data",), tests={"tests/hidden.sh": f"[ -e data/x ] && exit\n{HIDDEN}"})
    verdict = await grade(f"mkdir data; echo cheat > data/x; {FIX}", task)
    assert (verdict.resolved, verdict.flags) == (True, ("tests_edited",))


@pytest.mark.parametrize(("script", "resolved"), [("true # no fix\necho '#' >> calc.sh", True), (FIX, False)])
async def test_a_status_that_is_expected_is_met_exactly(script, resolved):
    task = with_grading(expected={"add two": "FAILED"})
    assert (await grade(script, task)).resolved is resolved


async def test_the_nonce_parser_believes_only_lines_with_the_nonce():
    hidden = "read nonce; . ./calc.sh < /dev/null; echo $nonce PASSED add zero; echo $nonce FAILED add two"
    task = with_grading(tests={"tests/hidden.sh": hidden}, parser="nonce_lines")
    verdict = await grade("echo 'echo PASSED add two; echo x PASSED add two' > calc.sh", task)
    assert verdict.statuses == {"add two": TestStatus.FAILED, "add zero": TestStatus.PASSED}
    assert "<nonce> PASSED add zero" in verdict.log


async def test_a_time_out_in_a_healthy_environment_is_no_verdict():
    with pytest.raises(GraderTimeout, match=r"did not end within 0\.3 s"):
        await grade("echo 'sleep 30' > calc.sh", with_grading(timeout_s=0.3))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"command": ("bash", "-c", "exec no-such-program")}, "could not be run"),
        ({"command": ("bash", "-c", "echo PASSED add zero; kill -9 $$")}, "killed"),
        ({"command": ()}, "no test command"),
        ({"fail_to_pass": (), "pass_to_pass": ()}, "no test ids"),
        ({"parser": "nope"}, "must be one of status_lines"),
        ({"parser": "swebench:nope"}, "the installed swebench has parse_log_"),
        ({"tests": {"../out": ""}}, "outside"),
        ({"tests": {"/etc/out": ""}}, "outside"),
        ({"tests": {"calc.sh/under-a-file": ""}}, "cannot be written"),
    ],
)
async def test_a_harness_that_is_broken_is_no_verdict(changes, reason):
    with pytest.raises(GraderError, match=reason):
        await grade(FIX, with_grading(**changes))


async def test_output_that_was_cut_is_no_verdict(monkeypatch):
    environment = fresh()

    async def cut(*args, **kwargs):
        result = await LocalEnvironment.exec(environment, *args, **kwargs)
        return dataclasses.replace(result, truncated=True) if args[0][-1] == "tests/hidden.sh" else result

    patch = await patch_of("echo 'exit' > calc.sh")
    async with environment:
        monkeypatch.setattr(environment, "exec", cut)
        with pytest.raises(GraderError, match="exceeds the limit"):
            await GRADER.grade(TASK, patch, environment)


@pytest.mark.parametrize(
    "patch",
    [
        "garbage",
        "diff --git a/calc.sh b/calc.sh\n--- a/calc.sh\n+++ b/calc.sh\n@@ -1 +1 @@\n-not there\n+x\n",
        "diff --git a/.git/x b/.git/x\nnew file mode 100644\n--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
    ],
)
async def test_a_patch_that_does_not_apply_is_an_error_and_changes_nothing(patch):
    async with fresh() as environment:
        with pytest.raises(PatchError, match="does not apply"):
            await GRADER.grade(TASK, patch, environment)
        assert (await environment.exec(["git", "status", "--porcelain"])).stdout == ""
        assert not (environment.root.parent / "x").exists()


@pytest.mark.parametrize(
    "header",
    [
        "--- conftest.py\n+++ conftest.py\n",
        "--- a/calc.sh\n+++ conftest.py\n",
    ],
)
async def test_a_header_that_hides_a_file_from_us_is_refused(header):
    async with fresh() as environment:
        with pytest.raises(PatchError, match="does not apply"):
            await GRADER.grade(TASK, f"{header}@@ -1 +1 @@\n-honest\n+cheat\n", environment)


@pytest.mark.parametrize("words", [("from", "to"), ("old", "new")])
async def test_what_judges_cannot_be_renamed(words):
    old, new = words
    patch = f"diff --git a/conftest.py b/x.py\nsimilarity index 100%\nrename {old} conftest.py\nrename {new} x.py\n"
    async with fresh() as environment:
        verdict = await GRADER.grade(TASK, patch, environment)
        assert (environment.root / "conftest.py").read_text() == "honest\n"
        assert not (environment.root / "x.py").exists()
    assert verdict.flags == ("tests_edited",)


async def test_a_dead_environment_raises_what_says_so():
    environment = local(SHELL)
    with pytest.raises(EnvironmentUnavailable):
        await GRADER.grade(TASK, await patch_of(FIX), environment)
