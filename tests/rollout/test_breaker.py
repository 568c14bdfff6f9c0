import pickle

import pytest

from swe_plugin.errors import TooManyFailures
from swe_plugin.rollout.breaker import CircuitBreaker


def test_it_opens_after_the_limit_and_names_the_causes():
    breaker = CircuitBreaker(3)
    for cause in ("dockerd is dead", "no mount", "dockerd is dead"):
        breaker.check()
        breaker.record(cause)
    with pytest.raises(TooManyFailures, match=r"3 rollouts failed in a row.*2 x dockerd is dead; 1 x no mount"):
        breaker.check()


def test_a_survivor_closes_the_series():
    breaker = CircuitBreaker(2)
    for cause in ("a", "", "b"):
        breaker.record(cause)
    breaker.check()
    assert breaker.failures_in_a_row == 1


def test_only_the_last_failures_are_named():
    breaker = CircuitBreaker(2)
    for cause in ("old", "new", "newer"):
        breaker.record(cause)
    assert "old" not in breaker.summary()


def test_its_error_reaches_the_driver_through_pickle():
    error = TooManyFailures("32 rollouts failed in a row: 32 x no mount")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
