"""The pool: capacities hold, every environment is stopped, failures pass through."""

import asyncio

import pytest

from swe_plugin.environments import EnvironmentLimits, EnvironmentPool, EnvironmentSpec, Slots
from swe_plugin.environments.dummy import DummyBehaviour, DummyEnvironment
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

from .dummies import Factory

SPEC = EnvironmentSpec(Image(), EnvironmentLimits(start_timeout_s=0.1), label="pool")


async def test_a_lease_starts_an_environment_and_stops_it():
    factory = Factory(start_s=0.02)
    pool = EnvironmentPool(factory, Slots())
    async with pool.lease(SPEC) as lease:
        assert pool.in_use == 1
        assert lease.start_s >= 0.02
        assert (await lease.environment.shell("echo hi")).stdout == "hi\n"
    assert pool.in_use == 0
    assert factory.all_stopped


async def test_an_image_has_a_limit_of_its_own():
    class Pulls(DummyEnvironment):
        async def prepare(self):
            await asyncio.sleep(0.2)

    limits = EnvironmentLimits(start_timeout_s=0.1, image_timeout_s=5.0)
    async with EnvironmentPool(Pulls, Slots()).lease(EnvironmentSpec(Image(), limits)) as lease:
        assert await lease.environment.is_alive()
    limits = EnvironmentLimits(start_timeout_s=5.0, image_timeout_s=0.1)
    with pytest.raises(EnvironmentStartError, match=r"image not ready after 0\.1 s"):
        async with EnvironmentPool(Pulls, Slots()).lease(EnvironmentSpec(Image(), limits)):
            raise AssertionError


@pytest.mark.parametrize(
    ("slots", "purpose", "most"),
    [(Slots(running=3), "running", 3), (Slots(grading=2), "grading", 2), (Slots(start=1, running=9), "running", 9)],
)
async def test_never_more_than_the_capacity(slots, purpose, most):
    pool, seen = EnvironmentPool(Factory(), slots), []

    async def use():
        async with pool.lease(SPEC, purpose=purpose):
            seen.append(pool.in_use)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(use() for _ in range(12)))
    assert max(seen) <= most
    assert pool.in_use == 0


async def test_grading_is_not_starved_by_running_environments():
    pool = EnvironmentPool(Factory(), Slots(running=1, grading=1))
    async with pool.lease(SPEC), pool.lease(SPEC, purpose="grading") as grading:
        assert await grading.environment.is_alive()


async def test_waiting_time_is_measured_and_is_not_start_time():
    pool = EnvironmentPool(Factory(), Slots(running=1))

    async def use(hold_s):
        async with pool.lease(SPEC) as lease:
            await asyncio.sleep(hold_s)
            return lease

    first, second = await asyncio.gather(use(0.05), use(0))
    assert first.wait_s < 0.04 < second.wait_s
    assert second.start_s < 0.04


async def test_a_failing_start_is_passed_on_and_gives_its_slots_back():
    factory = Factory(fail_start="no such image")
    pool = EnvironmentPool(factory, Slots(start=1, running=1))
    for _ in range(3):
        with pytest.raises(EnvironmentStartError, match="no such image"):
            async with pool.lease(SPEC):
                pytest.fail("not reached")
    assert factory.all_stopped
    assert pool.in_use == 0


async def test_a_hanging_start_ends_at_its_limit_and_others_go_on():
    factory = Factory(hang_start=True)
    pool = EnvironmentPool(factory, Slots(start=2))
    with pytest.raises(EnvironmentStartError, match=r"pool: not ready after 0.1 s"):
        async with pool.lease(SPEC):
            pytest.fail("not reached")
    factory.behaviour = DummyBehaviour()
    async with pool.lease(SPEC):
        pass
    assert factory.all_stopped


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.05])
async def test_cancelling_at_any_time_stops_the_environment(after_s):
    factory = Factory(start_s=0.02)
    pool = EnvironmentPool(factory, Slots())

    async def use():
        async with pool.lease(SPEC):
            await asyncio.sleep(60)

    task = asyncio.ensure_future(use())
    await asyncio.sleep(after_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert factory.all_stopped
    assert pool.in_use == 0


async def test_a_cancelled_stop_is_finished_before_the_cancellation_goes_on():
    class Slow(DummyEnvironment):
        async def stop(self):
            await asyncio.sleep(0.05)
            await super().stop()

    made = []
    pool = EnvironmentPool(lambda spec: made.append(Slow(spec)) or made[-1], Slots())

    async def use():
        async with pool.lease(SPEC):
            pass

    task = asyncio.ensure_future(use())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert made[0].stopped


async def test_a_hanging_stop_is_given_up(monkeypatch, caplog):
    monkeypatch.setattr("swe_plugin.environments.start.STOP_TIMEOUT_S", 0.05)
    async with EnvironmentPool(Factory(hang_stop=True), Slots()).lease(SPEC):
        pass
    assert "did not stop" in caplog.text


async def test_an_error_of_the_user_is_not_swallowed():
    factory = Factory()
    with pytest.raises(ZeroDivisionError):
        async with EnvironmentPool(factory, Slots()).lease(SPEC):
            raise ZeroDivisionError
    assert factory.all_stopped


async def test_an_unknown_purpose_is_refused():
    with pytest.raises(ValueError, match="running, grading"):
        async with EnvironmentPool(Factory(), Slots()).lease(SPEC, purpose="fun"):
            pytest.fail("not reached")


class Buggy(DummyEnvironment):
    async def start(self):
        raise KeyError("name")


async def test_a_backends_bug_says_whose_it_is():
    pool = EnvironmentPool(Buggy, Slots())
    with pytest.raises(EnvironmentStartError, match=r"pool: backend .*test_pool:Buggy raised KeyError: 'name'"):
        async with pool.lease(SPEC):
            pass

    def factory(spec):
        raise AttributeError("no such option")

    with pytest.raises(EnvironmentStartError, match=r"backend .*factory raised AttributeError: no such option"):
        async with EnvironmentPool(factory, Slots()).lease(SPEC):
            pass


async def test_images_are_had_once_each_and_a_bad_one_is_only_told(caplog):
    class Prepared(DummyEnvironment):
        async def prepare(self):
            made.append(self)
            if self.spec.image.base == "bad":
                raise EnvironmentStartError(f"{self.spec.label}: no such image")

    made, images = [], [Image(files={"a": "1"}), Image(files={"a": "1"}), Image(base="bad"), Image(files={"a": "2"})]
    pool = EnvironmentPool(Prepared, Slots())
    await pool.warm_images(EnvironmentSpec(image, label=f"i{n}") for n, image in enumerate(images))
    assert [environment.spec.label for environment in made] == ["i1", "i2", "i3"]
    assert all(environment.stopped and not environment.started for environment in made)
    assert "i2: no such image" in caplog.text
