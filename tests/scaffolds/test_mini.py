"""mini-swe-agent, unmodified: its own loop, prompts and parsing on our environments, asking through litellm."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest
from gateway.gateways import proved, token_policy
from grading.local import LocalEnvironment
from rollout.workers import TASK, worker

from swe_plugin.config import ScaffoldConfig
from swe_plugin.errors import ConfigError, PluginError, PolicyError
from swe_plugin.policies import Answer, TokenLimits
from swe_plugin.scaffolds.mini import MiniSweAgentScaffold
from swe_plugin.tokens import training_rows
from swe_plugin.types import StopReason

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
FIX = "sed -i 's/- /+ /' calc.sh"


def tool(command):
    return f'I do it.\n<tool_call>{{"name": "bash", "arguments": {{"command": "{command}"}}}}</tool_call>'


def fenced(command):
    return f"THOUGHT: I do it.\n\n```mswea_bash_command\n{command}\n```"


async def rollout(policy, factory=LocalEnvironment, *, options=(), **settings):
    scaffold = {f"scaffold__{key}": value for key, value in settings.items()}
    made = worker(factory, scaffold__name="mini_swe_agent", scaffold__options=dict(options), **scaffold)
    try:
        return await made.run(TASK, 0, lambda: policy, step=1, phase="train")
    finally:
        await made.close()


def roomy(script, **options):
    return token_policy(script, limits=TokenLimits(max_model_len=100_000), **options)


TEXT = {"config": "mini_textbased", "model_class": "litellm_textbased"}


@pytest.mark.parametrize(("options", "say"), [({}, tool), (TEXT, fenced)], ids=["tool calls", "fenced"])
async def test_it_solves_the_task_in_one_segment_that_is_proved(options, say):
    policy = roomy([say("cat calc.sh"), say(FIX), say(SUBMIT)])
    result = await rollout(policy, options=options)
    assert (result.stop, result.reward) == (StopReason.SUBMITTED, 1.0), result.failures
    assert len(result.segments) == 1
    (row,) = training_rows(result.segments, 100_000, 100_000)
    assert sum(row.response_mask) == sum(len(say(command)) + 1 for command in ("cat calc.sh", FIX, SUBMIT))
    assert [turn.actions for turn in result.turns] == [["cat calc.sh"], [FIX], [SUBMIT]]
    assert "$1 - $2" in result.turns[0].results[0].stdout
    assert TASK.problem_statement in result.messages[1].content
    proved(policy)


async def test_nothing_of_this_process_is_told_to_the_agent(monkeypatch):
    monkeypatch.setenv("A_SECRET_OF_THE_WORKER", "tell nobody")
    result = await rollout(roomy([tool("env"), tool(SUBMIT)]))
    assert "tell nobody" not in str(result.messages)


async def test_limits_are_those_of_the_run():
    result = await rollout(roomy([tool("ls")] * 9), max_turns=2)
    assert (result.stop, len(result.turns)) == (StopReason.MAX_TURNS, 2)
    result = await rollout(roomy(["no call"] * 9), max_format_errors=2)
    assert (result.stop, len(result.turns)) == (StopReason.FORMAT_ERRORS, 2)
    result = await rollout(roomy([tool("sleep 30"), tool(SUBMIT)]), command_timeout_s=0.5)
    assert result.stop is StopReason.SUBMITTED
    assert "took more than 0.5 seconds" in result.messages[-2].content


async def test_a_full_context_is_partial_work():
    prompt = (await rollout(roomy([tool(SUBMIT)]))).segments[0].prompt_length
    result = await rollout(token_policy([tool(FIX), tool(SUBMIT)], limits=TokenLimits(max_model_len=prompt + 120)))
    assert result.stop is StopReason.CONTEXT_FULL
    assert result.reward == 1.0


async def test_a_policy_that_fails_gives_no_row():
    result = await rollout(roomy([Answer(error=PolicyError("gone"))] * 9))
    assert (result.stop, result.reward) == (StopReason.MODEL_ERROR, None)
    result = await rollout(token_policy([tool(SUBMIT)], limits=TokenLimits(max_model_len=9)))
    assert (result.stop, result.reward) == (StopReason.SCAFFOLD_ERROR, None)
    assert "PromptTooLong" in result.failures[0].error


async def test_a_dead_environment_is_lost_and_not_the_agents_fault():
    class Dying(LocalEnvironment):
        async def exec(self, argv, **options):
            if "kill me" in argv[-1]:
                self.dead = True
            return await super().exec(argv, **options)

    result = await rollout(roomy([tool("kill me")] * 9), Dying)
    assert (result.stop, result.reward) == (StopReason.ENVIRONMENT_LOST, None)


async def test_the_clock_ends_the_agent_its_command_and_its_thread():
    result = await rollout(roomy([tool("sleep 60")] * 9), wall_clock_s=2.0, command_timeout_s=1.9)
    assert result.stop is StopReason.WALL_CLOCK
    async with asyncio.timeout(10):
        while any(thread.name == "swe-mini" for thread in threading.enumerate()):
            await asyncio.sleep(0.05)


def test_what_is_wrong_is_said_when_it_is_built(monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="bundled name or a path"):
        MiniSweAgentScaffold(ScaffoldConfig(options={"config": "no-such"}))
    (tmp_path / "mine.yaml").write_text("model: {}")
    with pytest.raises(ConfigError, match="KeyError: 'agent'"):
        MiniSweAgentScaffold(ScaffoldConfig(options={"config": str(tmp_path / "mine.yaml")}))
    monkeypatch.setitem(sys.modules, "minisweagent.config", None)
    with pytest.raises(PluginError, match=r"swe-plugin\[mini-swe-agent\]"):
        MiniSweAgentScaffold(ScaffoldConfig())
