"""What a rollout needs besides verl: a client that answers from a script, an environment, a grader, a batch."""

from __future__ import annotations

import asyncio
import os

from verl.utils import tensordict_utils as tu
from verl.workers.rollout.replica import TokenOutput

from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.grading.base import Grader
from swe_plugin.types import ExecResult, Grade, GradingSpec, Image, Task

FIX = "```bash\nfix\n```"
SUBMIT = "```bash\nsubmit\n```"
SOLVES, GIVES_UP = (FIX, SUBMIT), (SUBMIT,)


class ScriptedClient:
    """`generate` of verl's LLM client. Each session has its answers; an exception in their place is raised."""

    def __init__(self, tokenizer, answers, *, version=0, gate=None):
        self.tokenizer, self.answers, self.version, self.gate = tokenizer, answers, version, gate
        self.calls = []
        self._turn = {}

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        if self.gate is not None:
            await self.gate.wait()
        session = int(request_id.split("_")[1])
        turn = self._turn[request_id] = self._turn.get(request_id, -1) + 1
        self.calls.append((request_id, prompt_ids, sampling_params))
        answer = self.answers[session][turn]
        if isinstance(answer, BaseException):
            raise answer
        ids = [*self.tokenizer.encode(answer, add_special_tokens=False), self.tokenizer.eos_token_id]
        await asyncio.sleep(0)
        return TokenOutput(
            token_ids=ids,
            log_probs=[-0.25] * len(ids),
            stop_reason="completed",
            extra_fields={
                "global_steps": self.version,
                "min_global_steps": self.version,
                "max_global_steps": self.version,
            },
        )


class WordEnvironment(DummyEnvironment):
    """One file, and the command ``fix`` that changes it. Option ``broken_sessions``: those that cannot start."""

    def __init__(self, spec):
        super().__init__(spec, handler=_handle)

    async def start(self):
        session = self.spec.label.rpartition("@")[2]
        if session in map(str, self.spec.options.get("broken_sessions", [])):  # gradings have labels of their own
            raise EnvironmentStartError(f"{self.spec.label}: no mount")
        await super().start()


def _handle(environment, script):
    match script.strip():
        case "fix":
            environment.files["/testbed/word.txt"] = b"good\n"
            return ExecResult("done\n")
        case "env":
            return "".join(f"{key}={value}\n" for key, value in environment.spec.env.items())
        case "leak":
            return repr(dict(os.environ))
    return None


class WordGrader(Grader):
    """Resolved if the patch says good."""

    def __init__(self, settings):
        del settings

    async def grade(self, task, patch, environment):
        return Grade(resolved="+good" in patch)

    def reward(self, task, grade):
        return float(grade.resolved)


def word_task(index=0):
    return Task(f"word-{index}", "The word is wrong.", image=Image(files={"word.txt": "bad\n"}), grading=GradingSpec())


def prompts(uids, *, step=1, validate=False, **columns):
    """A batch as verl's trainer gives it to the manager."""
    n = len(uids)
    batch = tu.get_tensordict(
        {
            "uid": list(uids),
            "index": list(range(n)),
            "data_source": ["words"] * n,
            "raw_prompt": [[{"role": "user", "content": "x"}]] * n,
            "reward_model": [{"ground_truth": ""}] * n,
            "task": [word_task(i).to_json() for i in range(n)],
            **columns,
        }
    )
    tu.assign_non_tensor_data(batch, "global_steps", step)
    if validate:
        tu.assign_non_tensor_data(batch, "validate", True)
    return batch
