"""Rollouts through verl under random faults: `python tests/benchmarks/bench_faults.py` (`make bench-faults`).

For each trainer mode a run of the demo, 512 rollouts in four steps, in which environments, policy, agent and scaffold
break at random (backend `faulty`, scaffold of `faults_plugin/`). Then the records, verl's own dump of the rows of each
batch (`trainer.rollout_data_dir`), its metrics and its log are compared: see `CHECKS`. Writes a table to
docs/benchmarks.md; exit code 1 if something is not so.
"""

import json
import math
import os
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from page import machine, write_section
from verl_run import Run, left_over

from swe_plugin.cli.metrics import read_steps
from swe_plugin.rollout.outcome import Row, outcome
from swe_plugin.trajectories.journals import request_of
from swe_plugin.trajectories.store import find_trajectories, load_trajectory
from swe_plugin.types import RolloutResult
from swe_plugin.verl_adapter.demo_model import default_cache

PROMPTS, SIZE, STEPS = 16, 8, 4
RATES = {
    "start_fails": 0.03,
    "start_hangs": 0.02,
    "start_bug": 0.02,
    "command_dies": 0.05,
    "command_bug": 0.02,
    "stop_fails": 0.03,
}
WORDS = (
    f"data.train_batch_size={PROMPTS}",
    f"actor_rollout_ref.rollout.n={SIZE}",
    f"trainer.total_training_steps={STEPS}",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "swe.environment.backend=faulty",
    f"+swe.environment.options.rates={{{', '.join(f'{fault}: {rate}' for fault, rate in RATES.items())}}}",
    "swe.environment.start_timeout_s=15",
    "swe.scaffold.name=faulty",
    "swe.plugins=[swe-bench-faults]",
    "swe.policy.call_timeout_s=90",
    "swe.scaffold.command_timeout_s=20",
    "swe.scaffold.wall_clock_s=90",
    "swe.failure.rollout_timeout_s=240",
    "swe.grading.cache=false",
    "swe.grading.honesty.history_read=drop",
)
MODES = {"sync": ("swe.overlap=prewarm",), "colocate_async": ("swe.overlap=async",)}
Key = tuple[str, int]
"""A rollout: verl's uid of its prompt, and its session."""


@dataclass
class Evidence:
    """What a run has left.

    Attributes:
        records: of every rollout that ended, by step and instance.
        batches: step -> the rollouts whose rows verl trained on, by its own dump.
        scores: of these rows, as verl has them.
        metrics: step -> what verl logged.
        log: everything it printed.
        left: what it left behind, for the table.
    """

    records: dict[tuple[int, str], list[RolloutResult]]
    batches: dict[int, list[Key]]
    scores: dict[Key, float]
    metrics: dict[int, dict[str, float]]
    log: str
    left: str

    def results(self) -> list[RolloutResult]:
        """Of all rollouts that ended."""
        return [result for results in self.records.values() for result in results]

    def of(self, key: Key) -> list[RolloutResult]:
        """Records of one rollout that has tokens."""
        return [result for result in self.results() if _key(result) == key]


def _key(result: RolloutResult) -> Key | None:
    """None for one that never had a policy."""
    if not result.request_id:
        return None
    return request_of(result.request_id).rpartition("_")[0], result.session


def _has_row(result: RolloutResult) -> bool:
    """Neither the matrix nor the honesty policy took it away."""
    return _survived(result) and outcome(result.stop).row is not Row.NONE


def _survived(result: RolloutResult) -> bool:
    """It has a reward and something to train on; one whose context was full at once has no token."""
    return result.reward is not None and any(1 in segment.mask for segment in result.segments)


def collect(run: Run, dump: Path, home: Path) -> Evidence:
    """Read what a finished run has left."""
    records = defaultdict(list)
    for path in find_trajectories(run.directory):
        found = load_trajectory(path)
        records[found.step, found.result.task.instance_id].append(found.result)
    batches: dict[int, list[Key]] = {}
    scores: dict[Key, float] = {}
    for path in sorted(dump.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        batches[int(path.stem)] = keys = [_row_key(row["uid"]) for row in rows if not row["uid"].startswith("pad")]
        scores |= dict(zip(keys, [row["score"] for row in rows if not row["uid"].startswith("pad")], strict=True))
    metrics = {step.number: step.values for step in read_steps(run.directory)}
    return Evidence(dict(records), batches, scores, metrics, run.log.read_text(errors="replace"), left_over(run, home))


def _row_key(name: str) -> Key:
    uid, session, _ = name.rsplit("_", 2)
    return uid, int(session)


def not_lost(e: Evidence) -> Iterator[str]:
    """Each group that verl sampled has one record of each of its sessions; in sync mode that is every group."""
    trained = {uid for keys in e.batches.values() for uid, _ in keys}
    for (step, instance), results in e.records.items():
        uids = {key[0] for result in results if (key := _key(result))}
        sessions = Counter(result.session for result in results)
        if uids & trained and (len(sessions) != SIZE or len(set(sessions.values())) != 1):
            yield f"step {step}, {instance}: sessions {dict(sessions)}"


def not_twice(e: Evidence) -> Iterator[str]:
    """No rollout is in two batches, or has two rows of one segment, or two records."""
    rows = Counter(key for keys in e.batches.values() for key in keys)
    yield from (f"{key} trained {count} times" for key, count in rows.items() if count > 1)
    records = Counter(key for result in e.results() if (key := _key(result)))
    yield from (f"{key} recorded {count} times" for key, count in records.items() if count > 1)


def survivors_alone(e: Evidence) -> Iterator[str]:
    """verl's mean, largest and smallest advantage per step are those of the rewards of the survivors."""
    for step, keys in e.batches.items():
        weighed: list[tuple[float, int]] = []
        for uid in {uid for uid, _ in keys}:
            group = [r for r in e.results() if _survived(r) and (_key(r) or ("",))[0] == uid]
            if {result.session for result in group} != {session for other, session in keys if other == uid}:
                yield f"step {step}: rows of {uid} are not its survivors"
            rewards = [float(result.reward or 0.0) for result in group]
            for result, reward in zip(group, rewards, strict=True):
                advantage = (reward - fmean(rewards)) / (stdev(rewards) + 1e-6) if len(rewards) > 1 else math.nan
                weighed.append((advantage, sum(sum(segment.mask) for segment in result.segments)))
        tokens = sum(count for _, count in weighed)
        expected = {
            "mean": sum(value * count for value, count in weighed) / tokens,
            "max": max(value for value, _ in weighed),
            "min": min(value for value, _ in weighed),
        }
        for name, value in expected.items():
            logged = e.metrics[step][f"critic/advantages/{name}"]
            if not math.isclose(logged, value, abs_tol=1e-4):
                yield f"step {step}: {name} advantage {logged}, the survivors give {value}"


def no_failure_trained(e: Evidence) -> Iterator[str]:
    """What the matrix gives no row has none, and what has one has the reward of its record."""
    for keys in e.batches.values():
        for key in keys:
            for result in e.of(key) or [None]:
                if result is None or result.reward is None or outcome(result.stop).row is Row.NONE:
                    yield f"{key} is trained on, its record: {result and result.stop}"
                elif not math.isclose(result.reward, e.scores[key], abs_tol=1e-6):
                    yield f"{key}: reward {result.reward}, verl has {e.scores[key]}"


def counted(e: Evidence) -> Iterator[str]:
    """`swe/failed_total` adds up to the records without a row, and stop reasons to 1."""
    for step, values in e.metrics.items():
        whole = sum(value for name, value in values.items() if name.startswith("swe/stop/"))
        if not math.isclose(whole, 1.0, abs_tol=1e-6):
            yield f"step {step}: stop reasons add up to {whole}"
    failed = sum(values.get("swe/failed_total", 0.0) for values in e.metrics.values())
    recorded = sum(not _has_row(result) for result in e.results())
    if failed > recorded:
        yield f"{failed:.0f} failed by the metrics, {recorded} by the records"


def cause_in_log(e: Evidence) -> Iterator[str]:
    """Each failed attempt that is recorded has its line in the run's log."""
    for result in e.results():
        for failure in result.failures:
            if failure.phase != "control" and str(failure).splitlines()[0][:300] not in e.log:
                yield f"not in the log: {failure}"


def no_leak(e: Evidence) -> Iterator[str]:
    """No process, no lease."""
    if e.left != "0 processes, 0 leases":
        yield e.left


CHECKS: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "no rollout is lost": not_lost,
    "none is trained or recorded twice": not_twice,
    "advantages are those of the survivors alone": survivors_alone,
    "no failure of infrastructure has a trained token": no_failure_trained,
    "metrics and records agree": counted,
    "each cause is in the log": cause_in_log,
    "nothing is left": no_leak,
}


def play(home: Path, mode: str) -> tuple[Evidence, int]:
    """One run to its end, and its exit code."""
    dump = home / f"rows-{mode}"
    plugin = Path(__file__).parent / "faults_plugin"
    path = os.pathsep.join(filter(None, [str(plugin), os.environ.get("PYTHONPATH", "")]))
    words = (*WORDS, *MODES[mode], f"trainer.rollout_data_dir={dump}")
    run = Run(home, mode, *words, PYTHONPATH=path, RAY_DEDUP_LOGS="0")
    try:
        code = run.process.wait(1800)
    finally:
        run.end()
    if code:
        print(run.log.read_text(errors="replace")[-4000:], file=sys.stderr)
    return collect(run, dump, home), code


def main(chosen: list[str]) -> int:
    """Exit code: 1 if something is not as promised."""
    home = Path(tempfile.mkdtemp(prefix="swe-faults-"))
    (home / "demo").symlink_to(default_cache() / "demo")
    columns: dict[str, dict[str, str]] = {}
    try:
        for mode in chosen or MODES:
            evidence, code = play(home, mode)
            columns[mode] = column(evidence, code)
            print(mode, json.dumps(columns[mode], indent=1), flush=True)
            for check in CHECKS.values():
                print(*list(check(evidence))[:5], sep="\n", file=sys.stderr)
    finally:
        if all(_fine(column) for column in columns.values()):
            shutil.rmtree(home, ignore_errors=True)
        else:
            print(f"what it left is in {home}", file=sys.stderr)
    if not chosen:
        write_section("bench-faults", table(columns))
    return int(not all(_fine(column) for column in columns.values()))


def column(evidence: Evidence, code: int) -> dict[str, str]:
    """One mode's part of the table."""
    results = evidence.results()
    stops = Counter(str(result.stop) for result in results)
    cured = sum(bool(result.failures) and result.reward is not None for result in results)
    facts = {
        "exit code": str(code),
        "rollouts that ended": str(len(results)),
        "of them in a batch": str(sum(len(set(keys)) for keys in evidence.batches.values())),
        "failed attempts": str(sum(len(result.failures) for result in results)),
        "rollouts cured by another attempt": str(cured),
        "without a row": str(sum(not _has_row(result) for result in results)),
        "ends": ", ".join(f"{count} {stop}" for stop, count in stops.most_common()),
    }
    for name, check in CHECKS.items():
        wrong = list(check(evidence))
        facts[name] = f"no: {len(wrong)}" if wrong else "yes"
    return facts


def _fine(facts: dict[str, str]) -> bool:
    return facts["exit code"] == "0" and all(facts[name] == "yes" for name in CHECKS)


def table(columns: dict[str, dict[str, str]]) -> str:
    """For the page."""
    head = f"`make bench-faults` ({machine()}), {STEPS} steps of {PROMPTS} x {SIZE} rollouts in each mode:"
    lines = [head, "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in next(iter(columns.values())):
        lines.append(f"| {name} | {' | '.join(facts[name] for facts in columns.values())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
