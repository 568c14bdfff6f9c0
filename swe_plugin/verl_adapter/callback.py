"""Hydra callback of our recipes: everything that happens in the driver before and after verl's own main.

``on_run_start`` is the one hook whose changes reach verl: Hydra copies the configuration for the job right
after it. Hydra turns every ``Exception`` of a callback into a warning and goes on, so a refusal has to be a
``SystemExit``.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, flag_override

from swe_plugin.config import SweConfig, load_config
from swe_plugin.environments.leases import reap
from swe_plugin.errors import SwePluginError
from swe_plugin.trajectories.live import LIVE
from swe_plugin.trajectories.store import remove_partial
from swe_plugin.verl_adapter.bootstrap import DEVICE_VARIABLE
from swe_plugin.verl_adapter.checks import require
from swe_plugin.verl_adapter.command_line import EXIT_BAD_CONFIGURATION, MULTIRUN_REFUSED
from swe_plugin.verl_adapter.ray_session import RaySession
from swe_plugin.verl_adapter.run_directory import claim, metrics_file

__all__ = ["EXIT_BAD_CONFIGURATION", "SweCallback", "prepare"]

_RESOLVED = "config.yaml"


class SweCallback(Callback):  # type: ignore[misc]
    """Checks the configuration, makes the run directory and the demo, and prints the result at the end."""

    def __init__(self) -> None:
        self._run: Path | None = None
        self._failed = True

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Prepare the run, or end the process with one line that says what to change."""
        try:
            self._run, session = prepare(config)
            atexit.register(self._end, session)
        except SwePluginError as error:
            sys.stderr.write(f"swe-plugin: {error}\n")
            raise SystemExit(EXIT_BAD_CONFIGURATION) from error
        except Exception as error:
            traceback.print_exc()
            raise SystemExit(1) from error

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Refuse: Hydra would run all jobs in this process, on one Ray session, and call no `on_run_start`."""
        sys.stderr.write(MULTIRUN_REFUSED)
        raise SystemExit(EXIT_BAD_CONFIGURATION)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Print the table of results; a failed run has none, Hydra prints its error."""
        if self._run is not None and not isinstance(job_return._return_value, Exception):
            self._failed = False
            from swe_plugin.cli.report import print_report

            print_report(self._run)

    def _end(self, session: RaySession) -> None:
        if self._run is not None:
            session.end(logs_to=self._run / "ray_logs" if self._failed else None)
            remove_partial(self._run.parent)


def prepare(config: DictConfig) -> tuple[Path, RaySession]:
    """Check `config` and complete it in place.

    Args:
        config: Hydra's composed configuration of a run.

    Returns:
        The run directory, and the Ray session to end when the process ends.

    Raises:
        ConfigError: a setting is wrong.
        PluginError: a plugin that the run names is missing or broken.
    """
    _activate_device(config)
    require(config)
    section = load_config(config.get("swe"))
    with flag_override(config, ["struct", "readonly"], False):
        run = claim(Path(section.output.dir), section.output.run, datetime.now())
        sys.stderr.write(f"swe-plugin: the run is in {run}\n")
        config.swe.output.dir, config.swe.output.run = str(run.parent), run.name
        OmegaConf.update(config, "swe.policy.template_date", section.policy.template_date or _day(run / _RESOLVED))
        variables = config.ray_kwargs.ray_init.runtime_env.env_vars
        variables.setdefault("VERL_FILE_LOGGER_PATH", str(metrics_file(run)))
        reap()  # what a killed run left on this node
        shutil.rmtree(run / LIVE, ignore_errors=True)  # rollouts of a killed run that is taken up again
        if section.failure.zero_advantage == "refill":
            config.algorithm.filter_groups.enable = True  # by verl's own `metric`, the reward
        session = RaySession(config)
        # The trainer's processes do not know our resolvers.
        config.trainer.v1.trainer_mode = config.trainer.v1.trainer_mode
        transfer = config.actor_rollout_ref.rollout.checkpoint_engine
        transfer.backend = transfer.backend
        # verl merges this subtree into a configuration of its own, where interpolations lead nowhere.
        OmegaConf.resolve(config.ray_kwargs)
        if section.demo.enabled:
            _prepare_demo(config, section, run)
    _write_resolved(config, run / _RESOLVED)
    return run, session


def _activate_device(config: DictConfig) -> None:
    """Make the driver itself ready; the bootstrap could not know, if a user's own file selected the recipe."""
    device = "cpu" if config.trainer.device == "cpu" else "gpu"
    os.environ[DEVICE_VARIABLE] = device
    if device == "cpu":
        from swe_plugin.verl_adapter import cpu

        cpu.activate()


def _prepare_demo(config: DictConfig, section: SweConfig, run: Path) -> None:
    """Make the demo's model and data, and point verl at them where the user has not."""
    from swe_plugin.verl_adapter.demo_model import prepare_demo

    sys.stderr.write("swe-plugin: making the demo's tasks and model (a minute or two the first time)\n")
    demo = prepare_demo(section.demo)
    (run / "baselines.json").write_text(json.dumps(demo.baselines, indent=1), encoding="utf-8")
    for key, path in {
        "actor_rollout_ref.model.path": demo.model,
        "data.train_files": demo.train,
        "data.val_files": demo.heldout,
    }.items():
        if OmegaConf.select(config, key) is None:
            OmegaConf.update(config, key, str(path))


def _day(earlier: Path) -> str:
    """The day of a run for its chat template: that of its first start, where it is taken up again."""
    started = OmegaConf.select(OmegaConf.load(earlier), "swe.policy.template_date") if earlier.is_file() else None
    return str(started or datetime.now().date().isoformat())


def _write_resolved(config: DictConfig, path: Path) -> None:
    """Write what the run was started with, all interpolations resolved, without Hydra's own section."""
    keys = [str(key) for key in config if key != "hydra"]
    path.write_text(OmegaConf.to_yaml(OmegaConf.masked_copy(config, keys), resolve=True), encoding="utf-8")
