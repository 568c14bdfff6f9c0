"""`Rewards`: the components that a recipe names, and their sum."""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.errors import ConfigError, GraderError
from swe_plugin.grading.base import Grader
from swe_plugin.grading.rewards import components
from swe_plugin.grading.rewards.llm_judge import llm_judge
from swe_plugin.types import RolloutResult

__all__ = ["Component", "Rewards"]

_KEY = "swe.grading.rewards"
_NAME = re.compile(r"(?!.*(?:max|min|sum|total))[a-z][a-z0-9_]*")
_NAME_RULE = (
    "must be lower case and must not hold max, min, sum or total: verl does not take the mean of metrics of such names"
)
Function = Callable[..., float | Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Component:
    """One term: `weight` times what `function` says of a result, called with `options`."""

    name: str
    weight: float
    function: Function
    options: Mapping[str, Any] = field(default_factory=dict)


class Rewards:
    """The reward of a graded rollout: the weighted sum of its components. A weight of 0 only records.

    Args:
        settings: ``swe.grading.rewards``: name -> weight, or ``{weight, use, ...}`` where ``use`` is
            ``module:function`` (default: the built-in one of that name) and the rest are its options.
        grader: whose `Grader.reward` is the component ``resolved``.

    Raises:
        ConfigError: a name, weight or function is wrong; names it.
    """

    def __init__(self, settings: Mapping[str, Any], grader: Grader) -> None:
        self._built_in: dict[str, Function] = {
            "resolved": lambda result: grader.reward(result.task, result.grade),
            "f2p": components.f2p,
            "format": components.format_,
            "length": components.length,
            "turns": components.turns,
            "judge": llm_judge,
        }
        if not settings:
            raise ConfigError(_KEY, {}, "must name at least one component, e.g. {resolved: 1.0}")
        self.components = [self._component(str(name), value) for name, value in settings.items()]

    async def values(self, result: RolloutResult) -> dict[str, float]:
        """What each component says, not weighted.

        Raises:
            GraderError: one failed, or said something that is no finite number: there is no reward then.
        """
        values: dict[str, float] = {}
        for item in self.components:
            try:
                said = item.function(result, **item.options)
                value = float(await said if inspect.isawaitable(said) else said)
            except Exception as error:
                raise GraderError(f"{_KEY}.{item.name} failed: {type(error).__name__}: {error}") from error
            if not math.isfinite(value):  # one NaN would make the advantages of its whole group NaN
                raise GraderError(f"{_KEY}.{item.name} is {value}")
            values[item.name] = value
        return values

    def total(self, values: Mapping[str, float]) -> float:
        """The reward."""
        return math.fsum(item.weight * values[item.name] for item in self.components)

    def _component(self, name: str, value: Any) -> Component:
        key = f"{_KEY}.{name}"
        if not _NAME.fullmatch(name):
            raise ConfigError(key, value, _NAME_RULE)
        options = dict(value) if isinstance(value, Mapping) else {"weight": value}
        weight, use = options.pop("weight", None), options.pop("use", "")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise ConfigError(key, value, "must be a weight, or {weight: number, use: module:function, ...options}")
        function = _import(use, f"{key}.use") if use else self._built_in.get(name)
        if function is None:
            known = ", ".join(self._built_in)
            raise ConfigError(key, value, f"is not built in; give it use: module:function, or use one of {known}")
        try:
            inspect.signature(function).bind(None, **options)
        except TypeError as error:
            raise ConfigError(key, value, f"does not take these options: {error}") from error
        return Component(name, float(weight), function, options)


def _import(target: str, key: str) -> Function:
    module, _, name = str(target).partition(":")
    try:
        found: Function = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise ConfigError(key, target, f"cannot be imported as module:function: {error}") from error
    if not callable(found):
        raise ConfigError(key, target, "is not callable")
    return found
