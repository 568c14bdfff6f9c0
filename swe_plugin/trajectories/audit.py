"""`audit_run`: proves the tokens of all recorded rollouts of a run, from the files of its directory alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from swe_plugin.tokens.audit import AuditReport, Violation, audit_segments
from swe_plugin.tokens.journal import read_journal
from swe_plugin.tokens.segments import last_sampled
from swe_plugin.trajectories.journals import JOURNALS, journal_path, request_of
from swe_plugin.trajectories.store import Trajectory, find_trajectories, load_trajectory
from swe_plugin.types import Segment

__all__ = ["Finding", "RunAudit", "audit_run"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation and the rollout that it is in, as a path relative to the run.

    Kinds beside those of `tokens.audit.Violation`: ``unreadable`` (the record), ``no_journal``, and
    ``trained_twice`` of a whole rollout.
    """

    rollout: str
    violation: Violation


@dataclass(slots=True)
class RunAudit:
    """What the audit of a run found. Token counts are ids.

    Attributes:
        findings: every violation.
        n_rollouts: complete records.
        n_audited: of these, those looked at.
        n_without_tokens: of these, those whose policy sampled no tokens itself: nothing to prove.
        tokens: kind of span -> ids; `trailing` are those after the last answer, which no row has.
        n_trainable: ids with mask 1 in rows of training rollouts that have a reward.
        versions: weight version -> such ids.
        lags: trainer step minus weight version -> such ids.
        row_tokens: length of each such row, prompt included.
        row_trainable: ids with mask 1 of each.
        n_rows_ending_on_mask_0: such rows whose last id has mask 0.
        n_segments: over the audited rollouts.
        n_reopened: rollouts of more than one segment: their history was edited.
        calls: of the inference server, by what became of them: ``consumed``, ``superseded``, ``aborted``,
            ``other_attempt``, ``unconsumed``, ``without_ids``.
        n_journals_without_rollout: of rollouts that did not end; None if not all rollouts were audited.
    """

    findings: list[Finding] = field(default_factory=list)
    n_rollouts: int = 0
    n_audited: int = 0
    n_without_tokens: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    n_trainable: int = 0
    versions: Counter[int] = field(default_factory=Counter)
    lags: Counter[int] = field(default_factory=Counter)
    row_tokens: list[int] = field(default_factory=list)
    row_trainable: list[int] = field(default_factory=list)
    n_rows_ending_on_mask_0: int = 0
    n_segments: int = 0
    n_reopened: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    n_journals_without_rollout: int | None = None

    @property
    def ok(self) -> bool:
        """No rule is broken."""
        return not self.findings


def audit_run(run_dir: Path, *, sample: float = 1.0) -> RunAudit:
    """Compare every rollout of a run with its journal.

    Args:
        run_dir: the run's directory.
        sample: fraction of the rollouts to look at, always the same ones of a run.

    Raises:
        FileNotFoundError: no rollout is recorded there.
    """
    audit = RunAudit()
    journals: set[Path] = set()
    requests: dict[str, str] = {}
    for path in find_trajectories(run_dir):
        audit.n_rollouts += 1
        name = path.relative_to(run_dir).as_posix()
        if not _chosen(name, sample):
            continue
        audit.n_audited += 1
        for violation in _audit_rollout(run_dir, path, name, audit, journals, requests):
            audit.findings.append(Finding(name, violation))
    if not audit.n_rollouts:
        raise FileNotFoundError(f"{run_dir} holds no recorded rollout (step_*/train/*/trajectory.json)")
    if audit.n_audited == audit.n_rollouts:
        audit.n_journals_without_rollout = len(set(run_dir.glob(f"step_*/*/{JOURNALS}/*.jsonl")) - journals)
    return audit


def _chosen(name: str, sample: float) -> bool:
    digest = hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest) < sample * 2**64


def _audit_rollout(
    run_dir: Path, path: Path, name: str, audit: RunAudit, journals: set[Path], requests: dict[str, str]
) -> Iterator[Violation]:
    try:
        rollout = load_trajectory(path)
    except (OSError, ValueError, TypeError) as error:
        yield Violation("unreadable", -1, -1, f"{type(error).__name__}: {error}")
        return
    result = rollout.result
    if not result.request_id and not result.segments:
        audit.n_without_tokens += 1
        return
    request = request_of(result.request_id)
    journal = journal_path(run_dir, rollout.step, rollout.phase, result.task.instance_id, result.session, request)
    journals.add(journal)
    if not result.request_id or not journal.exists():
        yield Violation("no_journal", -1, -1, f"{journal.relative_to(run_dir)} is missing")
        return
    if (twin := requests.setdefault(result.request_id, name)) != name:
        yield Violation("trained_twice", -1, -1, f"{twin} is of the same request")
    report = audit_segments(result.segments, read_journal(journal), request_id=result.request_id)
    _count_calls(report, audit)
    audit.n_segments += len(result.segments)
    audit.n_reopened += len(result.segments) > 1
    for segment in result.segments:
        _count_segment(segment, audit)
        if rollout.phase == "train" and result.reward is not None:
            _count_row(segment, rollout, audit)
    yield from report.violations


def _count_calls(report: AuditReport, audit: RunAudit) -> None:
    kinds = {
        "superseded": report.n_superseded,
        "aborted": report.n_aborted,
        "other_attempt": report.n_other_requests,
    }
    unconsumed = len(report.unconsumed) - sum(kinds.values())
    consumed = report.n_consumed
    rest = report.n_calls - consumed - len(report.unconsumed)
    audit.calls += Counter(kinds | {"unconsumed": unconsumed, "consumed": consumed, "without_ids": rest})


def _count_segment(segment: Segment, audit: RunAudit) -> None:
    for span in segment.spans:
        audit.tokens[span.kind] += span.stop - span.start
    audit.tokens["trailing"] += len(segment.ids) - 1 - last_sampled(segment)


def _count_row(segment: Segment, rollout: Trajectory, audit: RunAudit) -> None:
    last = last_sampled(segment)
    if last < 0:
        return
    versions = [v for v, m in zip(segment.weight_versions, segment.mask, strict=False) if m]
    audit.row_tokens.append(last + 1)
    audit.row_trainable.append(len(versions))
    audit.n_trainable += len(versions)
    audit.n_rows_ending_on_mask_0 += segment.mask[last : last + 1].tolist() != [1]
    audit.versions.update(versions)
    audit.lags.update(rollout.step - v for v in versions)
