"""`Faults`: which fault happens where, decided by a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum

from swe_plugin.errors import ConfigError

__all__ = ["Fault", "Faults"]


class Fault(StrEnum):
    """What can break. The first word says where."""

    START_FAILS = "start_fails"
    """The backend says that the environment cannot start."""
    START_HANGS = "start_hangs"
    """It never becomes ready; ends at ``swe.environment.start_timeout_s``."""
    START_BUG = "start_bug"
    """The backend raises what no backend means to raise."""
    COMMAND_DIES = "command_dies"
    """The environment is gone in the middle of its work."""
    COMMAND_BUG = "command_bug"
    """The backend raises what no backend means to raise, once."""
    STOP_FAILS = "stop_fails"
    """Everything worked, but stopping raises after the environment is gone."""
    POLICY_FAILS = "policy_fails"
    """The inference server gives up on an answer."""
    POLICY_BUG = "policy_bug"
    """The policy raises what no policy means to raise."""
    POLICY_FULL = "policy_full"
    """There is no room for another answer: no failure of infrastructure, the work so far is graded."""


class Faults:
    """Draws faults; equal seeds and labels draw the same ones, whatever runs beside them.

    Args:
        seed: of all draws.
        rates: fault -> probability, per environment or per rollout's policy; what is not named never happens.

    Attributes:
        drawn: how often each fault was drawn.

    Raises:
        ConfigError: no such fault, or the probabilities of one place add up to more than 1.
    """

    def __init__(self, seed: int, rates: Mapping[str, float]) -> None:
        unknown = rates.keys() - set(Fault)
        if unknown:
            known = ", ".join(Fault)
            raise ConfigError("swe.environment.options.rates", sorted(unknown), f"no such fault; there are {known}")
        self._seed = seed
        self._rates = {Fault(name): float(rate) for name, rate in rates.items()}
        self._asked: Counter[tuple[str, bool]] = Counter()
        self.drawn: Counter[Fault] = Counter()
        for policy in (False, True):
            if (whole := sum(self._of(policy).values())) > 1:
                raise ConfigError("swe.environment.options.rates", whole, "probabilities must not exceed 1 in all")

    def environment(self, label: str) -> Fault | None:
        """The fault of the next environment with this label, if it has one."""
        return self._draw(label, policy=False)

    def policy(self, label: str) -> Fault | None:
        """The fault of the next policy with this label, if it has one."""
        return self._draw(label, policy=True)

    def place(self, label: str, choices: Collection[int]) -> int:
        """Where in its work the fault of `label` strikes: one of `choices`, the same for the same seed and label."""
        return random.Random(f"{self._seed} {label} place").choice(list(choices))  # noqa: S311

    def _draw(self, label: str, *, policy: bool) -> Fault | None:
        number = self._asked[label, policy]
        self._asked[label, policy] += 1
        chance = random.Random(f"{self._seed} {label} {policy} {number}").random()  # noqa: S311
        for fault, rate in self._of(policy).items():
            chance -= rate
            if chance < 0:
                self.drawn[fault] += 1
                return fault
        return None

    def _of(self, policy: bool) -> dict[Fault, float]:
        return {fault: rate for fault, rate in self._rates.items() if fault.startswith("policy") == policy}
