"""Runs one rollout as training does, without a trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from swe_plugin.cli.episode.watch import Observer, WatchedScaffold
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.trajectories.remembering import RememberingStore

if TYPE_CHECKING:
    from swe_plugin.config import SweConfig
    from swe_plugin.plugins import Plugins
    from swe_plugin.rollout.worker import PolicyFactory
    from swe_plugin.types import RolloutResult, Task

__all__ = ["Tried", "run_episode"]


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of it, and the directory of its record (None: none was wanted, or it could not be written)."""

    result: RolloutResult
    record: Path | None


async def run_episode(
    task: Task,
    make_policy: PolicyFactory,
    config: SweConfig,
    plugins: Plugins,
    run_dir: Path,
    observer: Observer,
) -> Tried:
    """Run one rollout of `task`, retries and grading included.

    Args:
        task: what to attempt.
        make_policy: called once per attempt.
        config: the whole ``swe:`` section.
        plugins: where backend, scaffold and grader come from.
        run_dir: where the record goes; made when there is one.
        observer: sees the agent work.

    Raises:
        ConfigError, PluginError: a name in `config` is wrong; nothing was started.
        asyncio.CancelledError: of the caller's; the environment is gone and nothing is recorded.
    """
    plugins.require(list(config.plugins))
    worker = build_rollout_worker(config, plugins, run_dir)
    worker.scaffold = WatchedScaffold(worker.scaffold, observer)
    store = RememberingStore(run_dir)
    if worker.store is not None:
        worker.store = store
    try:
        result = await worker.run(task, 0, make_policy, step=0, phase="val")
    finally:
        await worker.close()
    return Tried(result, store.saved.get((task.instance_id, 0)))
