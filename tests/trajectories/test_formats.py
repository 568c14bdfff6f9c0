"""Trajectories of others come in whole, and go out so that they come back."""

from __future__ import annotations

import json

import pytest

from swe_plugin.tokens import segment_faults
from swe_plugin.trajectories import TrajectoryStore
from swe_plugin.trajectories.formats import Conversation, read_conversations
from swe_plugin.trajectories.formats.atif import read_atif, write_atif
from swe_plugin.trajectories.formats.swe_agent import read_swe_agent, write_swe_agent
from swe_plugin.types import Message, RolloutResult, Segment, Span, StopReason, Task, ToolCall, Turn

CALL = ToolCall("bash", {"command": 'ls "é"'}, "call00000")
MESSAGES = [
    Message("system", "be brief"),
    Message("user", "fix it"),
    Message("assistant", "looking", (CALL,)),
    Message("tool", "a.py", tool_call_id="call00000"),
    Message("assistant", "done"),
]
OPENAI = [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "fix "}, {"type": "text", "text": "it"}]},
    {
        "role": "assistant",
        "content": "looking",
        "tool_calls": [
            {
                "id": "call00000",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "ls \\"é\\""}'},
            }
        ],
    },
    {"role": "tool", "content": "a.py", "tool_call_id": "call00000"},
    {"role": "assistant", "content": "done"},
]
SWE_AGENT_HISTORY = [
    *OPENAI[:3],
    {"role": "tool", "content": "a.py", "tool_call_ids": ["call00000"], "message_type": "observation"},
    OPENAI[4],
]
ATIF = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s",
    "agent": {"name": "other", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "be brief"},
        {"step_id": 2, "source": "user", "message": "fix it"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "looking",
            "tool_calls": [{"tool_call_id": "call00000", "function_name": "bash", "arguments": {"command": 'ls "é"'}}],
            "observation": {"results": [{"source_call_id": "call00000", "content": "a.py"}]},
        },
        {"step_id": 4, "source": "agent", "message": "done"},
    ],
}


def write(path, data):
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("list.json", OPENAI),
        ("object.json", {"messages": OPENAI, "reward": 1}),
        ("run.traj", {"trajectory": [], "history": SWE_AGENT_HISTORY, "info": {"submission": "diff"}}),
        (
            "mini.traj.json",
            {
                "trajectory_format": "mini-swe-agent-1.1",
                "messages": [*OPENAI, {"role": "exit", "content": "", "extra": {}}],
                "info": {"submission": "diff", "exit_status": "Submitted"},
            },
        ),
        ("harbor.json", ATIF),
    ],
)
def test_every_format_is_recognised_and_read(tmp_path, name, data):
    (conversation,) = read_conversations(write(tmp_path / name, data))
    assert conversation.messages == MESSAGES


def test_a_folder_holds_any_of_them(tmp_path):
    write(tmp_path / "a.json", OPENAI)
    (tmp_path / "b").mkdir()
    write(tmp_path / "b" / "b.json", ATIF)
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps({"messages": OPENAI}) for _ in range(3)) + "\n\n")
    assert [c.name for c in read_conversations(tmp_path)] == ["a", "b", "c-1", "c-2", "c-3"]


def test_demonstrations_are_context():
    history = [OPENAI[0], OPENAI[1], {**OPENAI[4], "is_demo": True}, OPENAI[1], OPENAI[4]]
    conversation = read_swe_agent({"trajectory": [], "history": history, "info": {}}, "x")
    assert conversation.untrained == {2}


def test_thoughts_of_an_api_become_text():
    raw = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!", "reasoning_content": "hm"}]
    (conversation,) = [read_atif_or_messages(raw)]
    assert conversation.messages[1].content == "<think>\nhm\n</think>\n\n!"


def read_atif_or_messages(data):
    from swe_plugin.trajectories.formats.messages import read_messages

    return read_messages(data, "x")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"what": 1}, "none of the formats swe-agent, mini-swe-agent, atif, messages"),
        ([{"role": "wizard", "content": ""}], "unknown role 'wizard'"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "not text"),
        ([{**OPENAI[2], "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}], "not JSON"),
        ([{**OPENAI[2], "tool_calls": [{"function": {"arguments": "{}"}}]}], "needs a name"),
        ({**ATIF, "steps": [{"step_id": 7, "source": "ghost"}]}, "step 7: unknown source 'ghost'"),
    ],
)
def test_what_cannot_be_read_says_where(tmp_path, data, reason):
    path = write(tmp_path / "x.json", data)
    with pytest.raises(ValueError, match=reason) as error:
        list(read_conversations(path))
    assert str(path) in str(error.value)


def test_an_empty_folder_says_what_it_lacks(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file that ends with \.traj"):
        list(read_conversations(tmp_path))


def recorded() -> Conversation:
    """Two segments, the second after an edited history."""
    first = Segment(
        [1, 2, 10, 11, 3, 12],
        [0, 0, 1, 1, 0, 1],
        [0.0, 0.0, -0.5, -0.25, 0.0, -1.0],
        [-1, -1, 0, 0, -1, 0],
        [Span(0, 2, "prompt", 0), Span(2, 4, "sampled", 0), Span(4, 5, "observation", 1), Span(5, 6, "sampled", 1)],
        2,
    )
    second = Segment(
        [1, 9, 13], [0, 0, 1], [0.0, 0.0, -0.1], [-1, -1, 0], [Span(0, 2, "prompt", 2), Span(2, 3, "sampled", 2)], 2
    )
    messages = [*MESSAGES, Message("user", "go on"), Message("assistant", "end")]
    return Conversation("t@0", messages, segments=[first, second], reward=1.0, patch="diff", stop="submitted")


def test_atif_keeps_messages_tokens_and_log_probs():
    given = recorded()
    data = json.loads(json.dumps(write_atif(given)))
    assert [step["step_id"] for step in data["steps"]] == [1, 2, 3, 4, 5]
    back = read_atif(data, "other")
    assert (back.name, back.messages, back.reward, back.patch, back.stop) == (
        given.name, given.messages, 1.0, "diff", "submitted",
    )  # fmt: skip
    assert [(s.ids, s.mask, s.log_probs, s.prompt_length) for s in back.segments] == [
        (s.ids, s.mask, s.log_probs, s.prompt_length) for s in given.segments
    ]
    assert not any(segment_faults(segment) for segment in back.segments)


def test_atif_without_all_ids_has_no_tokens():
    data = write_atif(recorded())
    del data["steps"][3]["metrics"]["logprobs"]
    assert read_atif(data, "x").segments == []


def test_traj_keeps_history_actions_and_patch():
    given = recorded()
    given.actions = [["ls"], [], ["echo 1", "echo 2"]]
    data = json.loads(json.dumps(write_swe_agent(given)))
    assert [step["action"] for step in data["trajectory"]] == ["ls", "", "echo 1\necho 2"]
    assert [step["observation"] for step in data["trajectory"]] == ["a.py", "go on", ""]
    back = read_swe_agent(data, "t@0")
    assert (back.messages, back.patch, back.stop) == (given.messages, "diff", "submitted")


async def test_our_own_records_are_read_by_run_or_by_rollout(tmp_path):
    result = RolloutResult(Task("t-1", "fix it"), 2, StopReason.SUBMITTED, reward=0.5, patch="diff", messages=MESSAGES)
    result.turns, result.segments = [Turn(actions=["ls"])], list(recorded().segments)
    path = await TrajectoryStore(tmp_path / "run").save(result, step=1, phase="train")
    for place in (tmp_path / "run", path):
        (conversation,) = read_conversations(place)
        assert (conversation.name, conversation.messages, conversation.reward) == ("t-1@2", MESSAGES, 0.5)
        assert conversation.segments == recorded().segments
        assert [list(actions) for actions in conversation.actions] == [["ls"]]
