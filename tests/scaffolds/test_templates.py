"""Prompts: bundled or a user's own, checked before the first rollout, blind to what the agent must not know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.config import ScaffoldConfig
from swe_plugin.errors import ConfigError
from swe_plugin.scaffolds.observations import clean, cut_middle, observe
from swe_plugin.scaffolds.templates import Prompts
from swe_plugin.types import ExecResult, GradingSpec, Image, Task

TASK = Task(
    "t-1",
    "the problem",
    image=Image(workdir="/repo"),
    grading=GradingSpec(tests={"hidden.py": "SECRET"}, command=("SECRET",), fail_to_pass=("SECRET",)),
    gold_patch="SECRET",
    metadata={"answer": "SECRET"},
    prompt_vars={"menu": ["one", "two"]},
)


def prompts(tmp_path, **templates) -> Prompts:
    for kind, text in templates.items():
        (tmp_path / f"{kind}.jinja").write_text(text)
    return Prompts(ScaffoldConfig(**{f"{kind}_prompt": str(tmp_path / f"{kind}.jinja") for kind in templates}))


@pytest.mark.parametrize("action", ["fenced", "tools"])
def test_the_bundled_prompts_render(action):
    made = Prompts(ScaffoldConfig(action=action))
    opening = made.opening(TASK)
    assert [message.role for message in opening] == ["system", "user"]
    assert ("```bash" in opening[0].content) == (action == "fenced")
    assert "/repo" in opening[1].content
    assert "the problem" in opening[1].content
    assert "Exit code 3" in made.observation(TASK, ExecResult("out", exit_code=3))
    assert "(none)" in made.observation(TASK, ExecResult(""))
    assert "because" in made.format_error(TASK, "because")


def test_a_users_template_replaces_a_bundled_one(tmp_path):
    made = prompts(
        tmp_path, instance="{{ task.instance_id }}: {{ task.prompt_vars.menu | join('|') }}, {{ limits.max_turns }}"
    )
    assert made.opening(TASK)[1].content == "t-1: one|two, 30"


def test_an_empty_system_template_means_no_system_message(tmp_path):
    assert [message.role for message in prompts(tmp_path, system=" \n").opening(TASK)] == ["user"]


@pytest.mark.parametrize("leak", ["grading", "gold_patch", "metadata", "__class__.of.__globals__"])
def test_what_the_agent_must_not_know_is_not_there_to_be_rendered(tmp_path, leak):
    made = prompts(tmp_path, instance="{{ task." + leak + " }}")
    with pytest.raises(Exception, match=r"undefined|unsafe|no attribute"):
        made.opening(TASK)


def test_a_missing_template_is_an_error_that_names_the_bundled_ones():
    with pytest.raises(ConfigError, match=r"swe\.scaffold\.system_prompt='defautl'.*default"):
        Prompts(ScaffoldConfig(system_prompt="defautl"))


def test_bad_jinja_is_an_error_with_its_line(tmp_path):
    with pytest.raises(ConfigError, match=r"observation_prompt=.*line 2"):
        prompts(tmp_path, observation="fine\n{% if %}")


def test_an_unknown_variable_is_an_error_before_the_first_rollout(tmp_path):
    with pytest.raises(ConfigError, match="no variable tsak here; there are limits, task"):
        prompts(tmp_path, instance="{{ tsak.problem_statement }}")


@given(st.text(st.characters()), st.integers(0, 50))
def test_an_observation_is_short_and_valid_text(text, limit):
    seen = observe(text, limit)
    seen.encode()
    assert len(seen) <= limit + 60
    assert "\x00" not in seen
    assert "\x1b" not in seen


@given(st.text(), st.integers(0, 50))
def test_a_cut_says_exactly_how_much_is_missing(text, limit):
    seen = cut_middle(text, limit)
    if len(text) <= limit:
        assert seen == text
    else:
        assert f"[... {len(text) - limit} characters left out ...]" in seen
        assert seen.startswith(text[: limit // 2])
        assert seen.endswith(text[len(text) - limit // 2 :])


def test_escapes_of_every_kind_are_removed():
    assert clean("\x1b[1;31mA\x1b[m\x1b]8;;http://x\x1b\\B\x1b(BC\x1bMD\x1b") == "ABCD"
