"""Splitting tests, patches, statements, difficulty."""

import ast
import random
import subprocess

import pytest
from policies.openai_server import openai_server

from swe_plugin.config import PolicyConfig
from swe_plugin.policies.litellm_policy import LitellmPolicy
from swe_plugin.synth.baseline import Baseline
from swe_plugin.synth.bugs import find_bugs
from swe_plugin.synth.difficulty import estimate_difficulty
from swe_plugin.synth.patch import unified_diff
from swe_plugin.synth.split import split_files, split_functions
from swe_plugin.synth.statement import ModelWriter, TemplateWriter
from swe_plugin.synth.trial import Outcome, Trial
from synth.projects import CORE, FILES, PASSING, TESTS, project

pytestmark = pytest.mark.slow

FILE = "tests/test_core.py"
FAILING = [PASSING[1], PASSING[2]]
OTHERS = [test_id for test_id in PASSING if test_id not in FAILING]


def functions(text):
    return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}


def test_failing_tests_are_hidden_whole_and_a_share_of_the_others():
    none, all_ = (split_functions(project(), FAILING, OTHERS, random.Random(0), visible=share) for share in (1.0, 0.0))
    assert functions(TESTS) - functions(none.visible[FILE]) == {"test_inside"}
    assert none.hidden_ids == set(FAILING)
    assert none.hidden_tests(project()) == {FILE: TESTS}
    assert "parametrize" not in none.visible[FILE]
    kept = functions(TESTS) - {"test_inside"}
    assert functions(none.visible[FILE]) == kept
    assert functions(all_.visible[FILE]) == {
        "test_known_failure"
    }  # it passes neither before nor after: no test of ours
    assert all_.hidden_ids == set(PASSING)
    some = split_functions(project(), FAILING, OTHERS, random.Random(3), visible=0.5)
    assert set(FAILING) < some.hidden_ids < set(PASSING)


def test_a_class_without_tests_left_keeps_its_syntax():
    split = split_functions(project(), [*FAILING, PASSING[0]], [], random.Random(0), visible=1.0)
    tree = ast.parse(split.visible[FILE])
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert ast.unparse(found) == "class TestClamp:\n    pass"


def test_inherited_tests_go_with_their_class_and_used_classes_with_their_file():
    base = "class Base:\n    def test_a(self):\n        pass\n"
    text = "from base import Base\n\n\nclass TestOne(Base):\n    x = 1\n\n\ndef test_b():\n    pass\n"
    made = project({**FILES, "tests/base.py": base, FILE: text})
    split = split_functions(made, [f"{FILE}::TestOne::test_a"], [f"{FILE}::test_b"], random.Random(0), visible=1.0)
    assert split.visible[FILE] == "from base import Base\n\n\n\n\ndef test_b():\n    pass\n"
    used = project({**FILES, FILE: text + "\n\nclass TestTwo(TestOne):\n    pass\n"})
    split = split_functions(used, [f"{FILE}::TestOne::test_a"], [f"{FILE}::test_b"], random.Random(0), visible=1.0)
    assert split.visible == {FILE: None}
    assert split.hidden_ids == {f"{FILE}::TestOne::test_a", f"{FILE}::test_b"}


def test_whole_files_can_be_hidden_instead():
    more = "tests/test_more.py"
    made = project({**FILES, more: "def test_x():\n    pass\n"})
    split = split_files(made, FAILING, [*OTHERS, f"{more}::test_x"])
    assert (split.visible, split.hidden_ids) == ({FILE: None}, set(PASSING))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nB"),
        ("a\nb", "a\nb\n"),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
        ("a\x0cb\u2028c\nd\n", "a\x0cb\u2028c\ne\n"),
        ("", "a\n"),
    ],
)
def test_git_applies_the_patch_exactly(tmp_path, before, after):
    (tmp_path / "x y.txt").write_bytes(before.encode())
    patch = unified_diff("x y.txt", before, after)
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, cwd=tmp_path, input=patch.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x y.txt").read_bytes() == after.encode()


BUG = next(bug for bug in find_bugs("calc/core.py", CORE, ["wrong_function"]))
TRIAL = Trial(Outcome.KEPT, tuple(FAILING), tuple(OTHERS), ((FAILING[0], "assert 3 == 1\n + where"), (FAILING[1], "")))
GOLD = unified_diff("calc/core.py", BUG.text, CORE)


@pytest.mark.parametrize(
    ("hint", "told", "not_told"),
    [
        ("function", ["clamp", "calc/core.py", "Keep a value between two bounds.", "assert 3 == 1"], ["min", "max"]),
        ("module", ["calc/core.py", "assert 3 == 1"], ["clamp", "min", "max"]),
        ("none", ["calc", "assert 3 == 1"], ["clamp", "core", "min", "max"]),
    ],
)
async def test_a_template_tells_as_much_as_it_is_asked_to(hint, told, not_told):
    for seed in range(6):
        writer = TemplateWriter(hint, "python3 -m pytest tests")
        text = await writer.write(project(), BUG, TRIAL, GOLD, random.Random(seed))
        assert "python3 -m pytest tests" in text
        assert not [word for word in told if word not in text]
        assert not [word for word in not_told if word in text]


async def test_a_model_writes_the_issue_and_is_asked_again_if_it_gives_the_fix_away(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    bad = ["The line `return min(value, high)` is wrong.", "See test_inside.", ""]
    good = "clamp is off\n\nclamp(9, 0, 3) gives 9."
    with openai_server(*({"content": text} for text in [*bad, good])) as server:
        settings = PolicyConfig(litellm={"api_base": server.base})

        def make():
            return LitellmPolicy("openai/any", settings, {})

        text = await ModelWriter(make, "none", attempts=4).write(project(), BUG, TRIAL, GOLD, random.Random(0))
        assert text == f"{good}\n"
        prompt = server.requests[0][2]["messages"][0]["content"]
        assert "-    return min(value, high)\n+    return max(value, high)" in prompt
        assert "def test_inside" in prompt
        assert "Name neither module nor function" in prompt
        server.script[:] = [{"content": bad[0]}]
        assert await ModelWriter(make, "none", attempts=2).write(project(), BUG, TRIAL, GOLD, random.Random(0)) is None


def test_difficulty_grows_with_what_is_not_told():
    baseline = Baseline(PASSING, (), {"calc/core.py:1": 4}, 1.0, 1.0)
    named, unnamed = (estimate_difficulty(project(), baseline, BUG, TRIAL, named=named) for named in (True, False))
    assert named.parts == {
        "place": 0.0,
        "size": pytest.approx(0.29, abs=0.05),
        "rare": 0.5,
        "no_traceback": 1.0,
        "indirect": 0.0,
    }
    assert named.label == "easy"
    assert unnamed.score == pytest.approx(named.score + 0.2, abs=0.01)
    crash = Trial(Outcome.KEPT, TRIAL.fail_to_pass, (), ((FAILING[0], "KeyError: 'x'"), (FAILING[1], "KeyError: 'x'")))
    assert estimate_difficulty(project(), baseline, BUG, crash, named=True).score < named.score
