"""Everything a run is refused for before Ray starts; see the README of this folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from omegaconf import DictConfig

from swe_plugin.errors import SwePluginError
from swe_plugin.preflight.finding import Finding
from swe_plugin.verl_adapter.checks.agent import check_agent
from swe_plugin.verl_adapter.checks.capacity import check_capacity
from swe_plugin.verl_adapter.checks.environments import check_environments
from swe_plugin.verl_adapter.checks.limits import check_limits
from swe_plugin.verl_adapter.checks.model import check_model
from swe_plugin.verl_adapter.checks.own import check_own
from swe_plugin.verl_adapter.checks.places import check_places
from swe_plugin.verl_adapter.checks.rules import ESTIMATORS, MANAGER, SAMPLER, check_rules
from swe_plugin.verl_adapter.checks.settings import Settings
from swe_plugin.verl_adapter.checks.tasks import check_tasks

__all__ = ["ESTIMATORS", "FAMILIES", "MANAGER", "RULES", "SAMPLER", "Family", "findings", "require"]

Family = Callable[[Settings], Iterator[Finding]]

RULES: Mapping[str, Family] = {"rules of the update": check_rules}

FAMILIES: Mapping[str, Family] = {
    "agent and grader": check_agent,
    **RULES,
    "limits": check_limits,
    "directories and ports": check_places,
    "capacity": check_capacity,
    "environments": check_environments,
    "tasks": check_tasks,
    "model": check_model,
    "verl's own checks": check_own,
}
"""Name -> family, in the order in which a run asks them: what is quick, and what others depend on, first."""


def findings(config: DictConfig, families: Mapping[str, Family] = FAMILIES) -> Iterator[Finding]:
    """Run the checks: one finding for each family that holds, one for each thing that does not.

    Args:
        config: the whole composed configuration.
        families: which checks.
    """
    try:
        settings = Settings.of(config)
    except SwePluginError as error:
        yield Finding.of("the section swe", error)
        return
    for name, family in families.items():
        yield from _collected(name, family(settings))


def require(config: DictConfig, families: Mapping[str, Family] = FAMILIES) -> None:
    """Refuse a configuration with the first finding that fails.

    Raises:
        ConfigError: a setting is wrong.
        PluginError: a plugin that the run names is missing or broken.
    """
    for finding in findings(config, families):
        if not finding.ok:
            raise finding.error()


def _collected(name: str, found: Iterator[Finding]) -> Iterator[Finding]:
    details: list[str] = []
    failed = False
    try:
        for finding in found:
            if finding.ok:
                details.append(finding.detail)
            else:
                failed = True
                yield dataclasses.replace(finding, name=name)
    except SwePluginError as error:
        failed = True
        yield Finding.of(name, error)
    if not failed:
        yield Finding(name, True, "; ".join(filter(None, details)))
