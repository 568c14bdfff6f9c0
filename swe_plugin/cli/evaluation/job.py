"""From words to a summary: what `swe-plugin eval` does."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any

from swe_plugin.cli.episode.before import check_episode, check_writable
from swe_plugin.cli.episode.choice import Choice, choose
from swe_plugin.cli.evaluation.progress import Progress
from swe_plugin.cli.evaluation.selection import select
from swe_plugin.cli.evaluation.stopping import Stopping
from swe_plugin.cli.overrides import config_from_words
from swe_plugin.data.source import open_tasks
from swe_plugin.errors import ConfigError
from swe_plugin.evaluation.predictions import read_predictions, write_predictions
from swe_plugin.evaluation.results import Results
from swe_plugin.evaluation.run import Evaluation
from swe_plugin.evaluation.samples import Sample, plan, predicted, sample_seed
from swe_plugin.evaluation.settings import deciding, keep_settings
from swe_plugin.evaluation.summary import Summary, summarize
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.breaker import CircuitBreaker
from swe_plugin.rollout.build import build_rollout_worker

if TYPE_CHECKING:
    from rich.console import Console

    from swe_plugin.cli.evaluation.words import Words
    from swe_plugin.config import SweConfig
    from swe_plugin.plugins import Plugins
    from swe_plugin.rollout.worker import PolicyFactory

__all__ = ["Done", "Job", "prepare"]

_DRAINING = "stopping when {running} running samples have ended; Ctrl-C again stops them as well"


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a job.

    Attributes:
        summary: the numbers, of earlier runs into the same directory as well.
        ran: samples that this run ended.
        stopped_by: the signal that kept it from running the rest, or None.
    """

    summary: Summary
    ran: int
    stopped_by: Signals | None


@dataclass(frozen=True, slots=True)
class Job:
    """Everything is checked and nothing has started.

    Attributes:
        words, config, plugins: what was asked for.
        choice: who answers.
        samples: all that has to have a result in the end.
        unpredicted: tasks without a prediction.
        out: directory of the evaluation.
    """

    words: Words
    config: SweConfig
    plugins: Plugins
    choice: Choice
    samples: list[Sample]
    unpredicted: int
    out: Path

    async def run(self, console: Console) -> Done:
        """Run what is missing, and write ``preds.json`` and ``report.json``, however it ends.

        Raises:
            ConfigError: the directory holds another evaluation, or is in use.
            TooManyFailures: the circuit breaker opened.
            OSError: the directory cannot be written.
        """
        worker = build_rollout_worker(self.config, self.plugins, self.out)
        with Results.opened(self.out) as results:
            keep_settings(self.out, self._deciding())
            missing = results.missing(self.samples)
            progress = Progress(console, len(missing))
            evaluation = Evaluation(
                worker,
                results,
                self._policy,
                self.choice.model,
                self.words.concurrency,
                CircuitBreaker(self.config.failure.breaker_failures),
                progress.seen,
            )
            stopping = Stopping(partial(self._drain, evaluation, progress))
            try:
                with progress.shown(), stopping.listening():
                    await evaluation.run(missing)
            except asyncio.CancelledError:
                if stopping.signal is None:
                    raise
            finally:
                summary = self._written(results)
                await worker.close()
            return Done(summary, evaluation.ended, stopping.signal if evaluation.ended < len(missing) else None)

    def _policy(self, sample: Sample) -> PolicyFactory:
        return self.choice.policy(sample_seed(self.words.seed, *sample.key))

    @staticmethod
    def _drain(evaluation: Evaluation, progress: Progress) -> None:
        evaluation.drain()
        progress.say(_DRAINING.format(running=evaluation.running))

    def _written(self, results: Results) -> Summary:
        found = [results.of(sample) for sample in self.samples]
        summary = summarize(self.samples, found, self.words.wanted_ks, unpredicted=self.unpredicted)
        write_predictions(self.out, [result for result in found if result is not None])
        text = json.dumps(summary.to_json(), indent=2) + "\n"
        partial_file = self.out / "report.partial"
        partial_file.write_text(text, encoding="utf-8")
        partial_file.replace(self.out / "report.json")
        return summary

    def _deciding(self) -> dict[str, Any]:
        words = self.words
        script = hashlib.sha256(words.script.read_bytes()).hexdigest() if words.script else ""
        policy = words.policy or "predictions"
        seed = words.seed if self.choice.seeded else None
        return deciding(self.config, dataset=words.dataset, policy=policy, script=script, seed=seed)


def prepare(words: Words) -> Job:
    """Look at everything that could be wrong before anything starts.

    Raises:
        ConfigError: a word, a setting, a task or a prediction is.
        EnvironmentStartError: the image of the first task is.
        PluginError: a plugin or an extra is missing.
    """
    config, plugins = config_from_words(words.settings), load_plugins()
    plugins.require(list(config.plugins))
    if "seed" in config.policy.litellm:
        raise ConfigError(
            "swe.policy.litellm.seed", config.policy.litellm["seed"], "write --seed: each sample has its own"
        )
    choice = _graded_alone() if words.predictions else choose(words.policy, words.script, config, None)
    config.scaffold.name = choice.scaffold or config.scaffold.name
    config.slots.running = max(config.slots.running, words.concurrency)
    if words.predictions:
        config.slots.grading = max(config.slots.grading, words.concurrency)  # nothing but gradings runs
    tasks = select(
        open_tasks(words.dataset, config, plugins, "--dataset"),
        words.dataset,
        split=words.split,
        only=words.only,
        keep=words.keep,
        limit=words.limit,
    )
    files = [read_predictions(path, "--predictions") for path in words.predictions]
    samples = predicted(tasks, files) if files else plan(tasks, words.samples)
    if not samples:
        raise ConfigError("--predictions", ", ".join(map(str, words.predictions)), "is about none of these tasks")
    named = config.output.run or time.strftime("eval_%Y-%m-%d_%H-%M-%S")
    out = words.out or Path(config.output.dir) / named
    check_writable(out, "--out" if words.out else "swe.output.dir")
    check_episode(samples[0].task, config, plugins)
    for task in tasks if choice.scaffold == "gold" else ():
        if not task.gold_patch:
            raise ConfigError("task", task.instance_id, "has no gold_patch to apply: add one, or take another --policy")
    return Job(words, config, plugins, choice, samples, len(tasks) - len({sample.key[0] for sample in samples}), out)


def _graded_alone() -> Choice:
    """Nobody is asked; the scaffold of the configuration is never run."""
    return Choice("", lambda seed: partial(ScriptedPolicy, ()), "")
