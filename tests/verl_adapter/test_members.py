import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.types import AttemptFailure, StopReason
from swe_plugin.verl_adapter.members import CAUSE_CHARS, Member, crashed_member, member_of

from .builders import rollout

LOST = AttemptFailure("agent", 1, "EnvironmentUnavailable: gone", stop=StopReason.ENVIRONMENT_LOST)
NO_START = AttemptFailure("start", 2, "EnvironmentStartError: no mount", stop=StopReason.ENVIRONMENT_START)
UNGRADED = AttemptFailure("grade", 1, "GraderError: no output")

seconds = st.none() | st.floats(0, 1e6)
members = st.builds(
    Member,
    session=st.integers(0, 63),
    stop=st.sampled_from([str(s) for s in StopReason]),
    cause=st.text(max_size=40),
    resolved=st.none() | st.booleans(),
    wait_s=seconds,
    grade_s=seconds,
    empty_patch=st.none() | st.booleans(),
    format_errors=st.integers(0, 9),
    segments=st.integers(0, 9),
)


@given(members)
def test_a_record_survives_its_tag(member):
    assert Member.from_tag(member.to_tag()) == member


def test_a_tag_is_small_and_plain():
    tag = member_of(rollout(1.0), segments=1, sampled=5, context=5).to_tag()
    assert tag["stop"] == "submitted"
    assert "cause" not in tag
    assert all(isinstance(value, (str, int, float, bool)) for value in tag.values())


@pytest.mark.parametrize(
    ("stop", "failures", "retries", "lost"),
    [
        (StopReason.SUBMITTED, [], 0, 0),
        (StopReason.SUBMITTED, [LOST, UNGRADED], 1, 1),
        (StopReason.ENVIRONMENT_START, [LOST, NO_START], 1, 1),
        (StopReason.ENVIRONMENT_LOST, [LOST], 0, 1),
        (StopReason.GRADER_ERROR, [UNGRADED, UNGRADED], 0, 0),
    ],
)
def test_retries_and_lost_environments_are_counted_as_such(stop, failures, retries, lost):
    """A failure that nothing followed is no retry, nor is a second grading."""
    result = rollout(stop=stop)
    result.failures = failures
    member = member_of(result, segments=1)
    assert (member.retries, member.lost) == (retries, lost)


def test_a_patch_that_does_not_apply_is_told_from_other_failures():
    result = rollout()
    result.failures = [UNGRADED, AttemptFailure("patch", 1, "PatchError: a file vanished")]
    assert not member_of(result).apply_failed
    result.failures.append(AttemptFailure("grade", 2, "PatchError: the patch does not apply: exit 1"))
    assert member_of(result).apply_failed


def test_a_failed_rollout_names_its_last_failure():
    member = member_of(rollout(None, stop=StopReason.ENVIRONMENT_START, cause="EnvironmentStartError: no mount"))
    assert member.failed
    assert member.cause == "environment_start: EnvironmentStartError: no mount"
    assert member.resolved is None


def test_a_graded_rollout_without_a_sampled_token_has_no_row_either():
    member = member_of(rollout(0.0, segments=[], stop=StopReason.CONTEXT_FULL))
    assert member.failed
    assert member.cause == "context_full: no sampled token"
    assert member.resolved is False


def test_causes_are_bounded_and_never_empty():
    assert len(crashed_member(0, "x" * 10_000).cause) == CAUSE_CHARS
    assert crashed_member(0, "").failed
