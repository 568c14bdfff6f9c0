"""What was read, kept and left out, and what the kept tasks need."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.data.sources.dropped import Dropped, Reason

__all__ = ["Summary"]

_EXAMPLES = 3


@dataclass(slots=True)
class Summary:
    """Counts of one `prepare`.

    Attributes:
        read: rows.
        kept: tasks written, by split.
        dropped: rows left out, by reason; the sum of both is `read`.
        examples: by reason, the first rows and what was wrong with each.
        tokens: of each kept problem statement; empty without a tokenizer.
        bases: kept tasks by the base of their image.
        recipes: digests of the images that are made on them.
        sizes: of the bases, see `run.Measure`; empty: not looked up.
        repos: kept tasks by repository.
    """

    read: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    dropped: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[str]] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    bases: Counter[str] = field(default_factory=Counter)
    recipes: set[str] = field(default_factory=set)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    repos: Counter[str] = field(default_factory=Counter)

    def drop(self, where: str, dropped: Dropped) -> None:
        """Count a row that is left out; `where` says which."""
        self.dropped[dropped.reason] += 1
        examples = self.examples.setdefault(dropped.reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(f"{where}: {dropped.detail}" if dropped.detail else where)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for ``summary.json``."""
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": {
                str(reason): {"rows": rows, "examples": self.examples.get(reason, [])}
                for reason, rows in self.dropped.most_common()
            },
            "statement_tokens": _spread(self.tokens),
            "images": {"bases": len(self.bases), "recipes": len(self.recipes), **self.sizes},
            "repositories": dict(self.repos.most_common()),
        }


def _spread(values: Sequence[int]) -> dict[str, float]:
    if not values:
        return {}
    ordered = sorted(values)
    ranks = {"p50": 0.5, "p90": 0.9}
    return {
        "mean": statistics.fmean(ordered),
        **{name: ordered[min(int(share * len(ordered)), len(ordered) - 1)] for name, share in ranks.items()},
        "max": ordered[-1],
    }
