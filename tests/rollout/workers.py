"""Workers for tests: a task with hidden tests, environments that fail as told, and answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from grading.local import LocalEnvironment

from swe_plugin.config import load_config
from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.rollout.worker import RolloutWorker
from swe_plugin.types import GradingSpec, Image, Task

TASK = Task(
    "calc-1",
    "add subtracts",
    image=Image(files={"calc.sh": "add() { echo $(($1 - $2)); }\n"}),
    grading=GradingSpec(
        command=("bash", "hidden.sh"),
        tests={"hidden.sh": '. ./calc.sh; [ "$(add 1 2)" = 3 ] && echo PASSED two || echo FAILED two\n'},
        fail_to_pass=("two",),
        timeout_s=20,
    ),
)
FIX = "```bash\nsed -i 's/- /+ /' calc.sh\n```"
HARMLESS = "```bash\necho '#' >> calc.sh\n```"
SUBMIT = "```bash\nsubmit\n```"


def with_grading(**changes: object) -> Task:
    return dataclasses.replace(TASK, grading=dataclasses.replace(TASK.grading, **changes))


class Environments:
    """A factory of `LocalEnvironment`s, of which the agent's n-th can fail to start or die.

    Attributes:
        agents, graders: what was made for whom, oldest first.
    """

    def __init__(self, *, bad_starts: int = 0, dies: int = 0, bad_grading_starts: int = 0) -> None:
        self.bad_starts, self.dies, self.bad_grading_starts = bad_starts, dies, bad_grading_starts
        self.agents: list[LocalEnvironment] = []
        self.graders: list[LocalEnvironment] = []

    def __call__(self, spec: EnvironmentSpec) -> LocalEnvironment:
        made = self.graders if spec.label.endswith("-grade") else self.agents
        bad_starts = self.bad_grading_starts if made is self.graders else self.bad_starts
        environment = _Environment(spec, len(made) < bad_starts, made is self.agents and len(made) < self.dies)
        made.append(environment)
        return environment


class _Environment(LocalEnvironment):
    def __init__(self, spec: EnvironmentSpec, bad_start: bool, dies: bool) -> None:
        super().__init__(spec)
        self.bad_start, self.dies = bad_start, dies

    async def start(self) -> None:
        if self.bad_start:
            raise EnvironmentStartError("no such image")
        await super().start()

    async def shell(self, script, *, timeout_s=60.0):
        if self.dies:
            self.dead = True
            raise EnvironmentUnavailable("the supervisor is gone")
        return await super().shell(script, timeout_s=timeout_s)


def worker(factory=LocalEnvironment, run_dir: Path | None = None, **settings: object) -> RolloutWorker:
    """A worker on local environments that does not wait before a retry; `settings` as dotted keys with ``__``."""
    section: dict[str, dict[str, object]] = {}
    for key, value in settings.items():
        room, _, name = key.partition("__")
        section.setdefault(room, {})[name] = value
    made = build_rollout_worker(load_config(section), load_plugins(), run_dir, factory=factory)
    made.backoff_s = made.judge.backoff_s = 0.0
    return made


def answers(*script: object):
    """A factory of policies that each give the same answers."""
    return lambda: ScriptedPolicy(script)


async def play(made: RolloutWorker, *script: object, task: Task = TASK, **arguments: object):
    """The result of one rollout."""
    return await made.run(task, 0, answers(*script), step=1, phase="train", **arguments)
