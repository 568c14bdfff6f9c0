"""What validating a dataset came to: counts, what was left out and why, slow and broken images."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from swe_plugin.validation.finding import KEPT, Finding, Verdict

__all__ = ["ImageUse", "Report"]


@dataclass(frozen=True, slots=True)
class ImageUse:
    """One image, whatever files tasks put into it.

    Attributes:
        name: see `Finding.image`.
        tasks: that start from it.
        broken: of these, the ones for which no environment became ready.
        start_s: the slowest start, in seconds.
        reason: of the first failure.
    """

    name: str
    tasks: int
    broken: int
    start_s: float
    reason: str = ""


class Report:
    """Sums over findings.

    Args:
        findings: in the order of the dataset.
        keep_order_dependent: whether such tasks are kept.
        slow_start_s: an image is slow if a start from it takes longer.
        slow_tests_s: a task is slow if a grading takes longer.
    """

    def __init__(
        self,
        findings: Iterable[Finding],
        *,
        keep_order_dependent: bool = True,
        slow_start_s: float = 10.0,
        slow_tests_s: float = 60.0,
    ) -> None:
        self.findings = list(findings)
        self._slow_start_s, self._slow_tests_s = slow_start_s, slow_tests_s
        self._keeps = KEPT if keep_order_dependent else (Verdict.GOOD,)

    @property
    def kept(self) -> list[str]:
        """Instance ids that can be trained on."""
        return [finding.instance_id for finding in self.findings if finding.verdict in self._keeps]

    @property
    def left_out(self) -> list[Finding]:
        """The others."""
        return [finding for finding in self.findings if finding.verdict not in self._keeps]

    @property
    def counts(self) -> Counter[Verdict]:
        """Tasks by verdict."""
        return Counter(finding.verdict for finding in self.findings)

    @property
    def slow(self) -> list[Finding]:
        """Tasks whose tests take long, slowest first."""
        slow = [finding for finding in self.findings if finding.tests_s > self._slow_tests_s]
        return sorted(slow, key=lambda finding: -finding.tests_s)

    def images(self) -> list[ImageUse]:
        """All images, broken ones first, then the slowest first."""
        by_name: dict[str, list[Finding]] = defaultdict(list)
        for finding in self.findings:
            by_name[finding.image].append(finding)
        uses = [_use(name, found) for name, found in by_name.items()]
        return sorted(uses, key=lambda use: (-use.broken, -use.start_s))

    def bad_images(self) -> list[ImageUse]:
        """Those that are broken or slow to start."""
        return [use for use in self.images() if use.broken or use.start_s > self._slow_start_s]

    def keep_list(self) -> str:
        """Text of the file that ``swe-plugin prepare --keep`` reads."""
        lines = [f"# {len(self.kept)} of {len(self.findings)} tasks, by swe-plugin validate"]
        lines += [f"# not {finding.instance_id}: {finding.verdict}" for finding in self.left_out]
        return "\n".join([*lines, *self.kept]) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Plain values, for ``report.json`` and ``--json``."""
        return {
            "tasks": len(self.findings),
            "kept": len(self.kept),
            "verdicts": {str(verdict): count for verdict, count in self.counts.most_common()},
            "left_out": [finding.to_json() for finding in self.left_out],
            "order_dependent": [f.to_json() for f in self.findings if f.verdict is Verdict.ORDER_DEPENDENT],
            "order_checked": sum(finding.order_checked for finding in self.findings),
            "mislabelled": {f.instance_id: list(f.mislabelled) for f in self.findings if f.mislabelled},
            "gold_flags": {f.instance_id: list(f.flags) for f in self.findings if f.flags},
            "slow_tests": {finding.instance_id: finding.tests_s for finding in self.slow},
            "images": [
                {"image": u.name, "tasks": u.tasks, "broken": u.broken, "start_s": u.start_s, "reason": u.reason}
                for u in self.bad_images()
            ],
            "task_seconds": round(sum(finding.total_s for finding in self.findings), 3),
        }


def _use(name: str, found: Sequence[Finding]) -> ImageUse:
    broken = [finding for finding in found if finding.verdict is Verdict.BROKEN_IMAGE]
    reason = broken[0].detail if broken else ""
    return ImageUse(name, len(found), len(broken), max(finding.start_s for finding in found), reason)
