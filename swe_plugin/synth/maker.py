"""`TaskMaker`: one bug becomes a verified task, or the reason why not."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from swe_plugin.grading.integrity import TEST_DIRECTORIES
from swe_plugin.synth.difficulty import estimate_difficulty
from swe_plugin.synth.patch import unified_diff
from swe_plugin.synth.split import Split, split_files, split_functions
from swe_plugin.synth.trial import Limits, Outcome, Trial, try_bug
from swe_plugin.types import GradingSpec, Task, TestStatus

if TYPE_CHECKING:
    from swe_plugin.synth.baseline import Baseline
    from swe_plugin.synth.bugs import Bug
    from swe_plugin.synth.settings import SynthSettings
    from swe_plugin.synth.statement import Writer
    from swe_plugin.synth.suite import Suite

__all__ = ["Made", "TaskMaker"]

_GRADING_S, _GRADING_FACTOR = 60.0, 10.0


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a bug: a task if `outcome` is kept."""

    outcome: Outcome
    task: Task | None = None


@dataclass(frozen=True, slots=True)
class TaskMaker:
    """For one project.

    Attributes:
        suite: its tests.
        baseline: what they do without a bug.
        writer: of statements.
        settings: how.
    """

    suite: Suite
    baseline: Baseline
    writer: Writer
    settings: SynthSettings

    async def make(self, bug: Bug) -> Made:
        """Try a bug, split the tests, write the statement.

        Raises:
            InfrastructureError: an environment or the model failed; nothing is known of the bug.
        """
        settings = self.settings
        trial = await try_bug(
            self.suite,
            self.baseline,
            bug,
            runs=settings.runs,
            limits=Limits.of(self.baseline),
            most_failing=settings.most_failing,
        )
        if trial.outcome is not Outcome.KEPT:
            return Made(trial.outcome)
        rng = random.Random(f"{settings.seed}/{bug.digest}")  # noqa: S311 - no secret
        split = await self._split(bug, trial, rng)
        if split is None:
            return Made(Outcome.NO_SPLIT)
        gold_patch = unified_diff(bug.path, bug.text, bug.source.text)
        statement = await self.writer.write(self.suite.project, bug, trial, gold_patch, rng)
        if statement is None:
            return Made(Outcome.NO_STATEMENT)
        return Made(Outcome.KEPT, self._task(bug, trial, split, gold_patch, statement))

    async def _split(self, bug: Bug, trial: Trial, rng: random.Random) -> Split | None:
        """Hidden and visible tests, such that the visible ones run as before in the agent's tree."""
        project, visible = self.suite.project, self.settings.visible
        ids = trial.fail_to_pass, trial.pass_to_pass
        for split in (split_functions(project, *ids, rng, visible=visible), split_files(project, *ids)):
            if split.hidden_ids.issuperset(trial.fail_to_pass) and await self._runs(bug, trial, split):
                return split
        return None

    async def _runs(self, bug: Bug, trial: Trial, split: Split) -> bool:
        changed = {**split.visible, bug.path: bug.text}
        label = f"{self.suite.project.name}-{bug.digest}@visible"
        limits = Limits.of(self.baseline)
        run = await self.suite.run(changed, label=label, timeout_s=limits.timeout_s, cpu_s=limits.cpu_s)
        left = [test_id for test_id in trial.pass_to_pass if test_id not in split.hidden_ids]
        return not run.timed_out and all(run.status(test_id) is TestStatus.PASSED for test_id in left)

    def _task(self, bug: Bug, trial: Trial, split: Split, gold_patch: str, statement: str) -> Task:
        project, settings = self.suite.project, self.settings
        changed = {**project.files, **split.visible, bug.path: bug.text}
        files = {path: text for path, text in changed.items() if text is not None}
        named = settings.hint == "function"
        difficulty = estimate_difficulty(project, self.baseline, bug, trial, named=named)
        return Task(
            instance_id=f"{project.name}__{project.version}-{bug.kind}-{bug.digest[:8]}",
            problem_statement=statement,
            repo=project.name,
            image=dataclasses.replace(self.suite.image, files=files),
            grading=GradingSpec(
                command=self.suite.command,
                parser="pytest",
                tests=split.hidden_tests(project),
                fail_to_pass=trial.fail_to_pass,
                pass_to_pass=trial.pass_to_pass,
                protected=_directories(project.test_paths),
                timeout_s=max(_GRADING_S, round(_GRADING_FACTOR * self.baseline.duration_s)),
            ),
            gold_patch=gold_patch,
            metadata={
                "kind": bug.kind,
                "path": bug.path,
                "function": bug.function,
                "line": bug.line,
                "before": bug.before,
                "after": bug.after,
                "version": project.version,
                "difficulty": difficulty.label,
                "difficulty_score": difficulty.score,
                "difficulty_parts": dict(difficulty.parts),
                "hidden_tests": len(split.hidden_ids),
                "visible_tests": len(trial.pass_to_pass) - len(split.hidden_ids) + len(trial.fail_to_pass),
                "unstable_tests": len(trial.dropped) + len(self.baseline.unstable),
            },
        )


def _directories(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Of the tests, where their names do not say it to the grader."""
    return tuple(
        path for path in paths if not path.endswith(".py") and PurePosixPath(path).name not in TEST_DIRECTORIES
    )
