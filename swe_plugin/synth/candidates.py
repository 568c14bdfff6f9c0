"""In which order bugs are tried."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from swe_plugin.synth.bugs import Bug, find_bugs

if TYPE_CHECKING:
    from swe_plugin.synth.baseline import Baseline
    from swe_plugin.synth.project import Project
    from swe_plugin.synth.settings import SynthSettings

__all__ = ["candidates"]


def candidates(project: Project, baseline: Baseline, settings: SynthSettings) -> Iterator[Bug]:
    """Bugs in functions that tests call, the kinds in turn, each kind in an order of its seed; real ones only."""
    by_kind: defaultdict[str, list[Bug]] = defaultdict(list)
    for path in project.source_files:
        for bug in find_bugs(path, project.files[path], settings.kinds):
            if f"{path}:{bug.first_line}" in baseline.called:
                by_kind[bug.kind].append(bug)
    rng = random.Random(f"{settings.seed}/{project.name}")  # noqa: S311 - no secret
    queues = [by_kind[kind] for kind in sorted(by_kind)]
    for queue in queues:
        rng.shuffle(queue)
    while queues := [queue for queue in queues if queue]:
        for queue in rng.sample(queues, len(queues)):
            bug = queue.pop()
            while queue and not bug.changes_something():
                bug = queue.pop()
            if bug.changes_something():
                yield bug
