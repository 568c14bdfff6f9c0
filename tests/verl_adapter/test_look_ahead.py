"""The next batch is foreseen as verl's own dataloader brings it, from any point of a run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer.ppo.utils import create_rl_sampler

from swe_plugin.verl_adapter.overlap.look_ahead import LookAhead
from swe_plugin.verl_adapter.overlap.order import PromptOrder
from swe_plugin.verl_adapter.overlap.plan import WarmPlan


class Rows(list):
    """A dataset of its own row numbers."""

    @property
    def dataframe(self):
        return [{"task": f"task {row}", **({"__rollout_n__": 3} if row == 1 else {})} for row in self]


def loader(rows, shuffle, fetch, workers=0):
    data = OmegaConf.create({"shuffle": shuffle, "seed": 7})
    return StatefulDataLoader(
        Rows(range(rows)),
        batch_size=fetch,
        drop_last=True,
        num_workers=workers,
        collate_fn=list,
        sampler=create_rl_sampler(data, Rows(range(rows))),
    )


def batches(loader, fetch, size):
    """Batches as verl's trainer makes them: whole fetches, one epoch after the other."""
    iterator, batch = iter(loader), []
    while True:
        try:
            batch += next(iterator)
        except StopIteration:
            iterator = iter(loader)
            batch += next(iterator)
        if len(batch) == size:
            yield batch
            batch = []


def order(rows, shuffle, fetch, epochs=50, workers=0):
    data = OmegaConf.create({"shuffle": shuffle, "seed": 7})
    return PromptOrder(create_rl_sampler(data, Rows(range(rows))), fetch, epochs, unused=int(workers > 0))


@settings(deadline=None)
@given(rows=st.integers(4, 40), shuffle=st.booleans(), per_batch=st.integers(1, 4), fetch=st.integers(1, 4))
def test_every_batch_of_several_epochs_is_foreseen(rows, shuffle, per_batch, fetch):
    size = fetch * per_batch
    real, foreseen = batches(loader(rows, shuffle, fetch), fetch, size), order(rows, shuffle, fetch)
    batch = next(real)
    for _ in range(3 * rows // size + 3):
        assert foreseen.follow(batch)
        expected = foreseen.next(size)
        batch = next(real)
        assert batch == expected


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("done", "workers"), [(1, 0), (5, 0), (11, 0), (23, 0), (8, 1)])
def test_a_run_resumed_from_the_dataloaders_checkpoint_is_found_again(shuffle, done, workers):
    rows, fetch = 33, 3
    first = loader(rows, shuffle, fetch, workers)
    real = batches(first, fetch, 6)
    for _ in range(done):
        next(real)
    again = loader(rows, shuffle, fetch, workers)
    again.load_state_dict(first.state_dict())
    resumed, foreseen = batches(again, fetch, 6), order(rows, shuffle, fetch, workers=workers)
    batch = next(resumed)
    for _ in range(12):
        assert foreseen.follow(batch)
        expected = foreseen.next(6)
        batch = next(resumed)
        assert batch == expected


def test_processes_of_the_dataloader_change_nothing():
    real, foreseen = batches(loader(20, True, 4, workers=2), 4, 4), order(20, True, 4, workers=2)
    batch = next(real)
    for _ in range(7):
        assert foreseen.follow(batch)
        expected = foreseen.next(4)
        batch = next(real)
        assert batch == expected


def test_replacements_in_between_are_followed():
    real, foreseen = batches(loader(40, True, 1), 1, 1), order(40, True, 1)
    stream = [next(real)[0] for _ in range(100)]
    place = 0
    for size in (8, 1, 2, 8, 1, 8, 30):  # a batch, then refills of dropped groups, then a batch ...
        assert foreseen.follow(stream[place : place + size])
        place += size
        assert foreseen.next(8) == stream[place : place + 8]


def test_an_order_that_is_not_verls_is_not_guessed():
    foreseen = order(20, True, 4, epochs=3)
    assert not foreseen.follow([1, 1, 1, 1])


def config(**trainer):
    return OmegaConf.create(
        {
            "data": {
                "shuffle": True,
                "seed": 7,
                "train_batch_size": 4,
                "gen_batch_size": None,
                "dataloader_num_workers": 0,
            },
            "trainer": {"total_epochs": 2, "total_training_steps": None, **trainer},
            "actor_rollout_ref": {"rollout": {"n": 8}},
        }
    )


@pytest.mark.parametrize(("trainer", "steps"), [({}, 10), ({"total_training_steps": 3}, 3), ({"total_epochs": 1}, 5)])
def test_nothing_is_wanted_after_the_last_step(trainer, steps):
    ahead = LookAhead(config(**trainer), Rows(range(20)))
    real = batches(loader(20, True, 4), 4, 4)
    found = [ahead.after(next(real), step) for step in range(1, steps + 1)]
    assert [len(rows) for rows in found] == [4] * (steps - 1) + [0]


def test_a_row_brings_its_task_and_its_number_of_rollouts():
    ahead = LookAhead(config(), Rows(range(20)))
    assert [ahead.wanted(row) for row in (0, 1)] == [("task 0", 8), ("task 1", 3)]
    assert ahead.after([3, 3, 3, 3], 1) is None


def test_a_batch_is_planned_as_verl_divides_it_and_found_again_in_pieces():
    plan = WarmPlan(3)
    assert plan.extend([5, 6, 7, 8]) == {0: [5, 6], 1: [7, 8]}
    assert plan.extend([5, 6, 7, 8]) == {}
    assert plan.extend([9]) == {2: [9]}
    assert len(plan) == 5
    assert plan.take([6, 7, 8]) == [(0, slice(0, 1)), (1, slice(1, 3))]
    assert plan.take([5, 4]) is None
    assert plan.take([5]) is None
    assert plan.take([9]) == [(2, slice(0, 1))]


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 5))
def test_a_plan_covers_every_row_once_and_its_pieces_are_the_batch(rows, workers):
    plan = WarmPlan(workers)
    given = plan.extend(rows)
    assert sorted(row for some in given.values() for row in some) == sorted(set(rows))
    batch = list(dict.fromkeys(rows))
    pieces = plan.take(batch)
    assert [row for _, piece in pieces for row in batch[piece]] == batch
    assert all(row in given[position] for position, piece in pieces for row in batch[piece])
