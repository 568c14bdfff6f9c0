"""What a demo function may be asked to do: three bug families with eight wanted behaviours."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BEHAVIOURS", "FAMILIES", "Behaviour", "evaluate"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One meaning of a function of two integers.

    Attributes:
        name: identifier, used in reports only; never shown to the agent.
        family: a bug replaces the body by another one of the same family.
        expression: the Python expression in the parameters `a` and `b` that implements it.
        phrase: how a docstring words it.
    """

    name: str
    family: str
    expression: str
    phrase: str


BEHAVIOURS: tuple[Behaviour, ...] = (
    Behaviour("sum", "arithmetic", "a + b", "the sum of a and b"),
    Behaviour("difference", "arithmetic", "a - b", "the difference of a and b"),
    Behaviour("product", "arithmetic", "a * b", "the product of a and b"),
    Behaviour("below", "comparison", "a < b", "whether a is below b"),
    Behaviour("above", "comparison", "a > b", "whether a is above b"),
    Behaviour("equal", "comparison", "a == b", "whether a is equal to b"),
    Behaviour("smaller", "choice", "min(a, b)", "the smaller of a and b"),
    Behaviour("larger", "choice", "max(a, b)", "the larger of a and b"),
)
"""All wanted behaviours. No two agree on every probe of `tasks.PROBES`, so one fix never serves two of them."""

FAMILIES: dict[str, tuple[Behaviour, ...]] = {
    family: tuple(b for b in BEHAVIOURS if b.family == family) for family in ("arithmetic", "comparison", "choice")
}
"""Bug family -> its behaviours."""


def evaluate(behaviour: Behaviour, a: int, b: int) -> int | bool:
    """What a correct implementation of `behaviour` returns for two integers."""
    table: dict[str, int | bool] = {
        "sum": a + b,
        "difference": a - b,
        "product": a * b,
        "below": a < b,
        "above": a > b,
        "equal": a == b,
        "smaller": min(a, b),
        "larger": max(a, b),
    }
    return table[behaviour.name]
