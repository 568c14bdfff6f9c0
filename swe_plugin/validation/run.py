"""`validate`: a whole dataset, several tasks at once, each remembered as soon as it is done."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from swe_plugin.errors import PluginError
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.validation.check import Effort, TaskCheck
from swe_plugin.validation.finding import KEPT, Finding, Verdict

if TYPE_CHECKING:
    from swe_plugin.config import SweConfig
    from swe_plugin.data.ledger import Ledger
    from swe_plugin.environments import EnvironmentFactory
    from swe_plugin.plugins import Plugins
    from swe_plugin.types import Task

__all__ = ["Watcher", "prepare_config", "validate"]


class Watcher(Protocol):
    """Sees the work. All methods return at once."""

    def doing(self, instance_id: str, what: str) -> None:
        """A task has come so far."""

    def done(self, finding: Finding, *, known: bool) -> None:
        """A task is done; `known`: it was before."""


def prepare_config(config: SweConfig, jobs: int) -> SweConfig:
    """The settings of a validation: the reference fix instead of the agent, resolved or not, nothing remembered.

    Args:
        config: changed in place; everything else stays, so environments and limits are those of training.
        jobs: tasks at once: that many environments and gradings have to fit.
    """
    config.scaffold.name = "gold"
    config.grading.cache = False
    config.grading.rewards = {"resolved": 1.0}
    config.output.trajectories = False
    config.slots.running = max(config.slots.running, jobs)
    config.slots.grading = max(config.slots.grading, jobs)
    return config


async def validate(
    tasks: Iterable[Task],
    config: SweConfig,
    plugins: Plugins,
    ledger: Ledger,
    watcher: Watcher,
    *,
    effort: Effort,
    jobs: int,
    again: bool = False,
    factory: EnvironmentFactory | None = None,
) -> list[Finding]:
    """Check tasks that are not done yet.

    Args:
        tasks: read as they are needed.
        config: from `prepare_config`.
        plugins: where backend and grader come from.
        ledger: open; what was found before and has neither changed nor failed for want of a verdict is not run again.
        watcher: told of everything.
        effort: how much is run per task.
        jobs: tasks at once.
        again: check tasks again that were not good.
        factory: makes environments instead of the configured backend (tests, wrappers).

    Returns:
        One finding per task, in their order.

    Raises:
        ConfigError, PluginError: a name in `config` is wrong, or (while reading) a row is no task.
        asyncio.CancelledError: the caller was cancelled; no environment is left.
    """
    plugins.require(list(config.plugins))
    worker = build_rollout_worker(config, plugins, None, factory=factory)
    free, findings = asyncio.Semaphore(jobs), dict[int, Finding]()

    async def check(number: int, task: Task) -> None:
        try:
            say = _saying(watcher, task.instance_id)
            finding = await TaskCheck(worker, task, effort, say).run()
        finally:
            free.release()
        ledger.add(_key(task, effort), finding.to_json())
        findings[number] = finding
        watcher.done(finding, known=False)

    try:
        async with asyncio.TaskGroup() as group:
            for number, task in enumerate(tasks):
                known = _known(ledger, _key(task, effort), again)
                if known is not None:
                    findings[number] = known
                    watcher.done(known, known=True)
                    continue
                await free.acquire()
                group.create_task(check(number, task))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    finally:
        await worker.close()
    return [findings[number] for number in sorted(findings)]


def _saying(watcher: Watcher, instance_id: str) -> Callable[[str], None]:
    return lambda what: watcher.doing(instance_id, what)


def _known(ledger: Ledger, key: str, again: bool) -> Finding | None:
    record = ledger.done.get(key)
    if record is None:
        return None
    try:
        finding = Finding.from_json(record)
    except (KeyError, TypeError, ValueError) as error:
        raise PluginError(f"the remembered findings are of another version ({error}): use another --out") from error
    unsure = finding.verdict in (Verdict.UNGRADABLE, Verdict.BROKEN_IMAGE)
    return None if unsure or (again and finding.verdict not in KEPT) else finding


def _key(task: Task, effort: Effort) -> str:
    text = json.dumps([task.to_json(), asdict(effort)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
