from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.types import StopReason
from swe_plugin.verl_adapter.members import CAUSE_CHARS, Member, crashed_member, member_of

from .builders import rollout

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
