"""pass@k, its interval, and what they are over."""

from __future__ import annotations

import itertools
import random
from statistics import mean

import pytest

from swe_plugin.evaluation.estimate import estimate
from swe_plugin.evaluation.pass_at_k import pass_at_k
from swe_plugin.evaluation.samples import Sample, plan, sample_seed
from swe_plugin.evaluation.summary import summarize
from swe_plugin.types import StopReason

from .made import result, task


@pytest.mark.parametrize("n", range(1, 7))
def test_it_is_the_share_of_draws_that_hold_a_pass(n):
    for passed, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([True] * passed + [False] * (n - passed), k))
        assert pass_at_k(n, passed, k) == pytest.approx(mean(any(draw) for draw in draws))


@pytest.mark.parametrize(("p", "n", "k"), [(0.3, 8, 4), (0.1, 5, 5), (0.8, 3, 2)])
def test_its_expectation_is_pass_at_k_and_that_of_the_plain_formula_is_not(p, n, k):
    rng = random.Random(0)
    counts = [sum(rng.random() < p for _ in range(n)) for _ in range(40_000)]
    truth = 1 - (1 - p) ** k
    assert mean(pass_at_k(n, count, k) for count in counts) == pytest.approx(truth, abs=0.01)
    assert abs(mean(1 - (1 - count / n) ** k for count in counts) - truth) > 0.02


@pytest.mark.parametrize(("n", "passed", "k"), [(2, 3, 1), (2, 1, 3), (2, 1, 0), (2, -1, 1)])
def test_what_means_nothing_is_refused(n, passed, k):
    with pytest.raises(ValueError, match=f"n={n}, c={passed}, k={k}"):
        pass_at_k(n, passed, k)


@pytest.mark.parametrize(
    ("passed", "of", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)]
)
def test_with_one_sample_a_task_it_is_wilsons_interval(passed, of, low, high):
    """Published: Newcombe 1998, Statistics in Medicine 17, for 81 of 263; the others by hand."""
    found = estimate([1.0] * passed + [0.0] * (of - passed), of)
    # the variance between tasks has m - 1 below the line, the binomial one m
    assert (found.low, found.high) == (pytest.approx(low, abs=0.012), pytest.approx(high, abs=0.012))


def test_where_every_task_passes_the_interval_is_no_point():
    found = estimate([1.0] * 8, 8)
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.6 < found.low < 0.7
    assert estimate([1.0] * 8, 800).low == found.low, "more samples of the same tasks say nothing about other tasks"
    assert estimate([], 0) is None


@pytest.mark.parametrize(("tasks", "n", "k", "a", "b"), [(50, 1, 1, 2, 2), (50, 4, 1, 0.3, 0.7), (20, 8, 4, 2, 2)])
def test_nineteen_of_twenty_intervals_hold_the_truth(tasks, n, k, a, b):
    """Tasks of all difficulties (a beta distribution), n attempts at each."""
    rng = random.Random(1)
    truth = mean(1 - (1 - rng.betavariate(a, b)) ** k for _ in range(40_000))
    held = 0
    for _ in range(400):
        rates = [rng.betavariate(a, b) for _ in range(tasks)]
        values = [pass_at_k(n, sum(rng.random() < rate for _ in range(n)), k) for rate in rates]
        found = estimate(values, tasks * n, k)
        held += found.low <= truth <= found.high
    assert 0.92 <= held / 400 <= 0.985


def test_attempts_at_one_task_do_not_narrow_the_interval_as_other_tasks_do():
    same_tasks = estimate([0.0, 1.0] * 5, 1000)
    more_tasks = estimate([0.0, 1.0] * 500, 1000)
    assert same_tasks.high - same_tasks.low > 5 * (more_tasks.high - more_tasks.low)


def test_a_failure_is_in_no_rate_and_stands_beside_each():
    samples = plan([task("a"), task("b"), task("c", "text")], 2)
    verdicts = {("a", 0): True, ("a", 1): False, ("b", 0): True, ("b", 1): None, ("c", 0): None}
    found = [result(sample, verdicts[sample.key]) if sample.key in verdicts else None for sample in samples]
    summary = summarize(samples, found, [1, 2])
    total = summary.total
    assert (total.tasks, total.samples, total.graded, total.passed) == (3, 6, 3, 2)
    assert (total.failed, total.pending, total.failure_rate) == (2, 1, 0.4)
    assert total.pass_at[1].value == 0.75, "the mean of 1/2 and 1, not 2/3 and never 2/5"
    assert (total.pass_at[1].tasks, total.pass_at[2].tasks, total.pass_at[2].value) == (2, 1, 1.0)
    assert total.short == {1: 1, 2: 2}
    assert summary.repositories["text"].pass_at == {1: None, 2: None}
    assert summary.repositories["text"].failure_rate == 1.0
    assert summary.failures == {"environment_lost": 2}
    assert summary.usage == {"seconds": 10.0}
    assert "Chen" in summary.to_json()["pass_at_k"]
    assert "Wilson" in summary.to_json()["interval"]


def test_what_a_policy_of_the_recipe_drops_is_no_failure():
    samples = plan([task("a"), task("b")], 1)
    dropped = result(samples[0], None, stop=StopReason.DISHONEST, flags=("history_read",))
    summary = summarize(samples, [dropped, result(samples[1], True)], [1])
    assert (summary.total.failed, summary.total.left_out, summary.total.pass_at[1].value) == (0, 1, 1.0)
    assert summary.flags == {"history_read": 1}


def test_seeds_depend_on_the_sample_and_nothing_else():
    seeds = {sample_seed(0, *sample.key) for sample in plan([task(str(n)) for n in range(50)], 4)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert sample_seed(0, "a", 1) == sample_seed(0, "a", 1) != sample_seed(1, "a", 1)


def test_a_digest_tells_tasks_and_patches_apart():
    one = Sample(task("a"), 0)
    others = [Sample(task("a", "text"), 0), Sample(task("b"), 0), Sample(task("a"), 0, "patch")]
    assert one.digest == Sample(task("a"), 3).digest
    assert len({one.digest, *(other.digest for other in others)}) == 4
