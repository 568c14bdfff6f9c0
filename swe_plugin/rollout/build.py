"""From configuration to a `RolloutWorker`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from swe_plugin.environments import EnvironmentPool, EnvironmentSpec, Slots, build_environment_factory, spec_for
from swe_plugin.environments.disk import set_disk_slots
from swe_plugin.grading.base import Grader
from swe_plugin.grading.baseline import BaselineStore
from swe_plugin.grading.cache import GradeCache
from swe_plugin.grading.honesty import Honesty
from swe_plugin.grading.judge import Judge
from swe_plugin.grading.rewards import Rewards
from swe_plugin.rollout.assessor import Assessor
from swe_plugin.rollout.worker import HERE, RolloutWorker
from swe_plugin.scaffolds.base import Scaffold
from swe_plugin.trajectories.live import LiveBoard
from swe_plugin.trajectories.store import TrajectoryStore

if TYPE_CHECKING:
    from swe_plugin.config import EnvironmentConfig, GradingConfig, ScaffoldConfig, SweConfig
    from swe_plugin.environments import EnvironmentFactory
    from swe_plugin.plugins import Plugins
    from swe_plugin.types import Task

__all__ = ["build_rollout_worker"]


def build_rollout_worker(
    config: SweConfig,
    plugins: Plugins,
    run_dir: Path | None,
    *,
    factory: EnvironmentFactory | None = None,
) -> RolloutWorker:
    """Put a worker together from the registered backend, scaffold and grader. Touches no disk, starts nothing.

    Args:
        config: the whole ``swe:`` section.
        plugins: where names are looked up and whose event hooks are called.
        run_dir: where trajectories go; None, or ``swe.output.trajectories=false``, writes none.
        factory: makes environments instead of ``swe.environment.backend`` (tests, wrappers).

    Raises:
        ConfigError: a name is not registered, or a prompt template or a reward component is wrong.
        PluginError: a registered class cannot be imported.
    """
    make_scaffold: Callable[[ScaffoldConfig], Scaffold] = plugins.load(
        "scaffolds", config.scaffold.name, "swe.scaffold.name"
    )
    make_grader: Callable[[GradingConfig], Grader] = plugins.load(
        "graders", config.grading.grader, "swe.grading.grader"
    )
    slots = Slots(config.slots.start, config.slots.running, config.slots.grading, config.slots.reserved)
    set_disk_slots(config.slots.io, config.slots.reserved)
    scope = "" if run_dir is None else f"run-{hashlib.sha256(str(run_dir.absolute()).encode()).hexdigest()[:16]}"
    pool = EnvironmentPool(factory or build_environment_factory(config.environment, plugins), slots, scope)
    spec = partial(_spec, config.environment)
    grader = make_grader(config.grading)
    judge = Judge(
        grader,
        pool,
        spec,
        max_attempts=config.grading.max_attempts,
        cache=GradeCache() if config.grading.cache else None,
        overhead_s=config.grading.overhead_s,
    )
    assessor = Assessor(judge, Rewards(config.grading.rewards, grader), Honesty(config.grading.honesty))
    store = TrajectoryStore(run_dir) if run_dir is not None and config.output.trajectories else None
    board = LiveBoard(store.run_dir, HERE) if store else None
    scaffold = make_scaffold(config.scaffold)
    return RolloutWorker(config, plugins, pool, spec, scaffold, BaselineStore(), assessor, store, board)


def _spec(config: EnvironmentConfig, task: Task, label: str) -> EnvironmentSpec:
    image = replace(task.image, commit=task.image.commit or task.base_commit)
    return spec_for(image, config, label=label)
