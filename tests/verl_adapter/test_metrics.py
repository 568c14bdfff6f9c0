from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verl.trainer.ppo.v1.utils import MetricsAggregator

from swe_plugin.types import StopReason
from swe_plugin.verl_adapter.ledger import Group
from swe_plugin.verl_adapter.members import Member
from swe_plugin.verl_adapter.metrics import row_metrics, step_metrics, stop_metric

GOOD = Member(0, "submitted", resolved=True, start_s=1.0, grade_s=0.5, empty_patch=False, segments=1)
GOOD = replace(GOOD, cpu_s=2.0, memory_mib=64.0)
WRONG = Member(1, "max_turns", resolved=False, start_s=3.0, grade_cached=True, grade_s=0.0, segments=2)
FAILED = Member(2, "environment_lost", cause="gone", apply_failed=True, retries=1, lost=2, in_use=7)


def metrics(*groups):
    return step_metrics([Group(str(i), status, i, list(ms)) for i, (status, ms) in enumerate(groups)], group_size=3)


def test_members_without_a_row_count_too():
    found = metrics(("finished", [GOOD, WRONG, FAILED]), ("failure", [FAILED, FAILED, GOOD]))
    assert found["swe/failed"] == 0.5
    assert found["swe/failed_total"] == 3
    assert found["swe/stop/environment_lost"] == 0.5
    assert found["swe/resolved"] == pytest.approx(2 / 3)
    assert found["swe/groups/dropped"] == 0.5
    assert found["swe/groups/short"] == 0.5
    assert found["swe/env/start_s/mean"] == pytest.approx(5 / 3)
    assert found["swe/env/start_s/p90"] == 3.0
    assert found["swe/grade/cache_hit_rate"] == pytest.approx(1 / 3)
    assert (found["swe/env/retries"], found["swe/env/lost"], found["swe/env/in_use/max"]) == (0.5, 1.0, 7.0)
    assert (found["swe/env/cpu_s/mean"], found["swe/env/memory_mib/max"]) == (2.0, 64.0)
    assert found["swe/patch/apply_failed"] == 0.5
    assert found["swe/tokens/drift"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("starts", "ratio"), [([(1.0, None)], 0.0), ([(0.1, 1.9), (1.0, 1.0)], 2.9 / 4)])
def test_the_hidden_part_of_set_up_is_weighed_by_its_seconds(starts, ratio):
    members = [Member(i, "submitted", start_s=start, hidden_s=hidden) for i, (start, hidden) in enumerate(starts)]
    assert metrics(("finished", members))["swe/overlap/hidden_ratio"] == pytest.approx(ratio)


def test_without_a_start_there_is_no_ratio():
    assert "swe/overlap/hidden_ratio" not in metrics(("finished", [Member(0, "cancelled")]))


@given(st.lists(st.sampled_from(list(StopReason)), min_size=1))
def test_stop_fractions_sum_to_one(stops):
    found = metrics(("finished", [Member(i, str(stop)) for i, stop in enumerate(stops)]))
    assert sum(found[stop_metric(reason)] for reason in StopReason) == pytest.approx(1)


def test_verl_combines_every_metric_as_its_name_promises():
    """verl decides by name how the updates of one step are combined; a fraction must not become a maximum."""
    aggregator = MetricsAggregator()
    names = metrics(("finished", [GOOD, WRONG, FAILED])) | row_metrics(100, rows_per_update=64)
    for name in names:
        expected = {"total": "sum", "max": "max"}.get(name.rpartition("/")[2].rpartition("_")[2], "weighted_avg")
        assert aggregator._get_aggregation_type(name) == expected, name


def test_signals_and_components_of_rewards_are_counted():
    cheat = replace(GOOD, flags="history_read note", rewards={"resolved": 1.0, "f2p": 0.5})
    dropped = replace(FAILED, stop="dishonest", resolved=True, flags="history_read")
    found = metrics(("finished", [cheat, replace(WRONG, rewards={"resolved": 0.0, "f2p": 0.1}), dropped]))
    assert found["swe/flags/history_read"] == pytest.approx(2 / 3)
    assert found["swe/flags/tests_edited"] == 0.0
    assert found["swe/reward/f2p"] == pytest.approx(0.3)
    assert found["swe/stop/dishonest"] == pytest.approx(1 / 3)
    assert Member.from_tag(cheat.to_tag()) == cheat


def test_nothing_seen_nothing_claimed():
    assert metrics() == {}
    assert "swe/resolved" not in metrics(("failure", [FAILED]))


def test_real_rows_per_update():
    """129 rows in updates of 128 are two updates, each about half full: never one of a single real row."""
    found = row_metrics(129, rows_per_update=128)
    assert found["swe/rows/per_update"] == 64.5
    assert found["swe/rows/padding"] == pytest.approx(127 / 256)
    assert row_metrics(128, rows_per_update=128)["swe/rows/padding"] == 0
