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
    Behaviour("sum", "arithmetic", "a + b", "the sum"),
    Behaviour("difference", "arithmetic", "a - b", "the difference"),
    Behaviour("product", "arithmetic", "a * b", "the product"),
    Behaviour("less", "comparison", "a < b", "if less"),
    Behaviour("more", "comparison", "a > b", "if more"),
    Behaviour("equal", "comparison", "a == b", "if equal"),
    Behaviour("smaller", "choice", "min(a, b)", "the smaller"),
    Behaviour("larger", "choice", "max(a, b)", "the larger"),
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
        "less": a < b,
        "more": a > b,
        "equal": a == b,
        "smaller": min(a, b),
        "larger": max(a, b),
    }
    return table[behaviour.name]
