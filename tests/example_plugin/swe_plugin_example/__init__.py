"""What this distribution adds to swe-plugin. Every process of a run imports it: what it registers comes later."""

import os
from pathlib import Path

from swe_plugin.environments.base import Environment
from swe_plugin.hookspecs import Register, hookimpl
from swe_plugin.types import Task


@hookimpl
def swe_register_environments(register: Register) -> None:
    """`swe.environment.backend=example_bwrap`."""
    register("example_bwrap", f"{__name__}.environment:BubblewrapEnvironment", summary="bubblewrap")


@hookimpl
def swe_register_graders(register: Register) -> None:
    """`swe.grading.grader=example_fraction`."""
    register("example_fraction", f"{__name__}.grader:FractionGrader", summary="partial credit")


@hookimpl
def swe_rollout_started(task: Task, environment: Environment) -> None:
    """One line per rollout into the file that `SWE_PLUGIN_EXAMPLE_LOG` names, if it does."""
    if path := os.environ.get("SWE_PLUGIN_EXAMPLE_LOG"):
        with Path(path).open("a", encoding="utf-8") as log:
            log.write(f"{task.instance_id} {type(environment).__name__}\n")
