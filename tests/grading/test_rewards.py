"""A reward is the weighted sum of what its components say; a component that fails leaves none."""

import asyncio
import sys

import pytest
from policies.openai_server import openai_server

from swe_plugin.config import GradingConfig
from swe_plugin.errors import ConfigError, GraderError
from swe_plugin.grading.rewards import Rewards
from swe_plugin.grading.rewards.llm_judge import read_score
from swe_plugin.grading.tests import TestsGrader
from swe_plugin.types import Grade, GradingSpec, Message, RolloutResult, Segment, StopReason, Task, TestStatus

PASSED, FAILED = TestStatus.PASSED, TestStatus.FAILED
GRADER = TestsGrader(GradingConfig())


def result(statuses=None, *, resolved=False, answers=4, format_errors=0, sampled=0, expected=None):
    spec = GradingSpec(fail_to_pass=("f1", "f2"), pass_to_pass=("p1", "p2"), expected=expected or {})
    made = RolloutResult(Task("a", "b", grading=spec), 0, StopReason.SUBMITTED, n_format_errors=format_errors)
    made.grade = Grade(resolved, dict.fromkeys(("f1", "f2", "p1", "p2"), PASSED) | (statuses or {}))
    made.messages = [Message("user", "u"), *[Message("assistant", "a")] * answers]
    made.segments = [Segment(mask=[0, 1] * sampled)]
    return made


def values(settings, of):
    rewards = Rewards(settings, GRADER)
    found = asyncio.run(rewards.values(of))
    return found, rewards.total(found)


@pytest.mark.parametrize(
    ("settings", "of", "expected"),
    [
        ({"resolved": 1.0}, result(resolved=True), 1.0),
        ({"resolved": 1.0}, result(), 0.0),
        ({"f2p": 1}, result(), 1.0),
        ({"f2p": 1}, result({"f2": FAILED}), 0.5),
        ({"f2p": 1}, result({"f1": TestStatus.MISSING, "f2": TestStatus.SKIPPED}), 0.0),
        ({"f2p": 1}, result({"f2": FAILED, "p1": FAILED}), 0.0),
        ({"f2p": 1}, result({"p1": FAILED}, expected={"p1": "FAILED"}), 1.0),
        ({"format": 1}, result(format_errors=1), 0.75),
        ({"format": 1}, result(answers=0), 1.0),
        ({"turns": -0.1}, result(answers=3), pytest.approx(-0.3)),
        ({"turns": {"weight": -1, "over": 3, "per": 2}}, result(answers=4), -0.5),
        ({"turns": {"weight": -1, "over": 3}}, result(answers=2), 0.0),
        ({"length": {"weight": -1, "over": 500, "per": 1000}}, result(sampled=1500), -1.0),
        ({"resolved": 1, "format": {"weight": 0.2}, "turns": 0}, result(resolved=True, format_errors=2), 1.1),
    ],
)
def test_a_reward_is_a_weighted_sum(settings, of, expected):
    found, total = values(settings, of)
    assert total == expected
    assert set(found) == set(settings)


def test_a_weight_of_zero_only_records():
    assert values({"resolved": 1, "turns": 0}, result(resolved=True)) == ({"resolved": 1.0, "turns": 4.0}, 1.0)


def mine(of, *, bonus=1.0):
    return bonus * len(of.messages)


async def later(of):
    await asyncio.sleep(0)
    return 0.25


def broken(of):
    raise ZeroDivisionError("no messages")


def test_any_function_is_a_component_and_may_be_a_coroutine():
    settings = {
        "own": {"weight": 2, "use": f"{__name__}:mine", "bonus": 0.5},
        "later": {"weight": 4, "use": f"{__name__}:later"},
    }
    assert values(settings, result(answers=1)) == ({"own": 1.0, "later": 0.25}, 3.0)


@pytest.mark.parametrize("use", ["broken", "nan", "word"])
def test_a_component_that_fails_leaves_no_reward(use):
    settings = {"own": {"weight": 1, "use": f"{__name__}:{use}"}}
    with pytest.raises(GraderError, match=r"swe\.grading\.rewards\.own"):
        values(settings, result())


def nan(of):
    return float("nan")


def word(of):
    return "good"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "at least one component"),
        ({"resolve": 1.0}, "is not built in; give it use: module:function"),
        ({"resolved": "much"}, "must be a weight"),
        ({"resolved": True}, "must be a weight"),
        ({"resolved": float("inf")}, "must be a weight"),
        ({"own": {"use": f"{__name__}:mine"}}, "must be a weight"),
        ({"turns": {"weight": 1, "above": 3}}, "does not take these options"),
        ({"judge": {"weight": 1, "use": "no_such_module:f"}}, "cannot be imported"),
        ({"judge": {"weight": 1, "use": f"{__name__}:PASSED"}}, "not callable|does not take"),
        ({"mine": 1}, "must not hold max, min, sum or total"),
        ({"Turns": 1}, "lower case"),
    ],
)
def test_a_wrong_component_is_refused_before_anything_runs(settings, says):
    with pytest.raises(ConfigError, match=says):
        Rewards(settings, GRADER)


@pytest.mark.parametrize(
    ("answer", "score"), [("SCORE: 7", 0.7), ("fine\n\n**SCORE: 10**\n", 1.0), ("SCORE: 3\nno:\nSCORE: 2.5", 0.25)]
)
def test_the_judges_last_score_counts(answer, score):
    assert read_score(answer) == pytest.approx(score)


@pytest.mark.parametrize("answer", ["", "7", "SCORE: eleven", "SCORE: 11", "the SCORE: 7 would be right"])
def test_an_answer_without_a_score_is_no_reward(answer):
    with pytest.raises(GraderError, match="no line SCORE"):
        read_score(answer)


def test_a_judge_without_litellm_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(GraderError, match=r"pip install 'swe-plugin\[litellm\]'"):
        values({"judge": {"weight": 1, "model": "openai/any"}}, result())


def test_the_judge_sees_issue_patch_and_rubric():
    of = result()
    of.patch = "+x = 2"
    with openai_server({"content": "Well.\nSCORE: 8"}) as server:
        options = {"model": "hosted_vllm/any", "rubric": "Be strict.", "api_base": server.base}
        assert values({"judge": {"weight": 0.5, **options}}, of) == ({"judge": 0.8}, 0.4)
    ((_, _, body),) = server.requests
    assert body["temperature"] == 0
    for shown in ("+x = 2", "Be strict.", of.task.problem_statement):
        assert shown in body["messages"][0]["content"]


def test_a_judge_that_does_not_answer_is_no_reward():
    with openai_server((400, {"message": "no such model"})) as server:
        options = {"model": "hosted_vllm/any", "api_base": server.base}
        with pytest.raises(GraderError, match=r"rewards\.judge failed: PolicyError: .*no such model"):
            values({"judge": {"weight": 0.5, **options}}, result())
