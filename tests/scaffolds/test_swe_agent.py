"""A configuration written for SWE-agent runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from gateway.gateways import proved, token_policy
from grading.local import LocalEnvironment, local
from rollout.workers import TASK, worker

from swe_plugin.config import EnvironmentConfig, ScaffoldConfig
from swe_plugin.environments import spec_for
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.errors import ConfigError, ContextOverflow
from swe_plugin.policies import ScriptedPolicy, TokenLimits
from swe_plugin.scaffolds.base import Episode
from swe_plugin.scaffolds.parsers import ActionFormatError
from swe_plugin.scaffolds.swe_agent import SweAgentScaffold
from swe_plugin.scaffolds.swe_agent.editor import Editor
from swe_plugin.scaffolds.swe_agent.history import LastObservations, RemoveRegex
from swe_plugin.scaffolds.swe_agent.parsers import PARSERS, Call
from swe_plugin.types import Message, Reply, StopReason, ToolCall

CONFIG = Path(__file__).parent / "agents" / "swe_agent.yaml"
NAMES = ("bash", "str_replace_editor", "submit")


def call(name, **arguments):
    return Message("assistant", "I do it.", (ToolCall(name, arguments, "c1"),))


def bash(command):
    return call("bash", command=command)


def edit(command, path="/testbed/calc.sh", **arguments):
    return call("str_replace_editor", command=command, path=path, **arguments)


def config(tmp_path, **changes):
    """The configuration with changes, dots as ``__``."""
    data = yaml.safe_load(CONFIG.read_text())
    for key, value in changes.items():
        *sections, name = key.split("__")
        place = data["agent"]
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(data))
    return str(path)


async def play(answers, path=CONFIG, **settings):
    """Stop reason, episode and policy of one run."""
    policy, episode = ScriptedPolicy(answers), Episode()
    scaffold = SweAgentScaffold(ScaffoldConfig(options={"config": str(path)}, **settings))
    async with local(dict(TASK.image.files)) as environment:
        return await scaffold.run(TASK, environment, policy, episode), episode, policy


async def test_it_looks_edits_reviews_and_hands_in():
    fix = edit("str_replace", old_str="$1 - $2", new_str="$1 + $2")
    stop, episode, _ = await play([bash("ls"), edit("view"), fix, call("submit"), call("submit")])
    assert stop is StopReason.SUBMITTED
    told = [message.content for message in episode.messages if message.role in ("user", "tool")]
    assert told[0] == "The repository is in /testbed. Solve this issue:\n<issue>\nadd subtracts\n</issue>"
    assert told[1] == "OBSERVATION:\ncalc.sh"
    assert "     1\tadd() { echo $(($1 - $2)); }" in told[2]
    assert "it now reads:\n     1\tadd() { echo $(($1 + $2)); }" in told[3]
    assert "+add() { echo $(($1 + $2)); }" in told[4]
    assert told[4].startswith("Look once more:")
    assert {message.tool_call_id for message in episode.messages if message.role == "tool"} == {"c1"}


async def test_the_task_is_resolved_and_every_token_proved(tmp_path):
    path = config(tmp_path, tools__parse_function={"type": "thought_action"}, history_processors=[])
    block = "I do it.\n```\n{}\n```".format
    fix = "str_replace_editor str_replace /testbed/calc.sh --old_str '$1 - $2' --new_str '$1 + $2'"
    answers = [block("cat calc.sh"), block(fix), block("submit"), block("submit")]
    policy = token_policy(answers, limits=TokenLimits(max_model_len=50_000))
    made = worker(LocalEnvironment, scaffold__name="swe_agent", scaffold__options={"config": path})
    result = await made.run(TASK, 0, lambda: policy, step=1, phase="train")
    assert (result.stop, result.reward) == (StopReason.SUBMITTED, 1.0), result.failures
    assert len(result.segments) == 1
    proved(policy)


async def test_the_shell_keeps_its_state_and_has_the_variables_of_the_configuration():
    scaffold, episode = SweAgentScaffold(ScaffoldConfig(options={"config": str(CONFIG)})), Episode()
    script = [bash("cd /tmp; x=1"), bash('echo "$WHO $PAGER $x $PWD"'), call("submit"), call("submit")]
    async with SandboxEnvironment(spec_for(TASK.image, EnvironmentConfig(), label="a")) as environment:
        await scaffold.run(TASK, environment, ScriptedPolicy(script), episode)
    assert episode.messages[5].content == "OBSERVATION:\nthe agent's cat 1 /tmp"


async def test_what_prints_nothing_too_much_or_takes_too_long_is_told_by_its_template(tmp_path):
    path = config(tmp_path, tools__execution_timeout=0.3)
    script = [bash("true"), bash("seq 9999"), bash("sleep 9"), bash("sleep 9"), bash("sleep 9"), call("submit")]
    stop, episode, _ = await play(script, path)
    told = [message.content for message in episode.messages if message.role == "tool"]
    assert told[0] == "Your command ran and printed nothing."
    assert "<response clipped>" in told[1]
    assert len(told[1]) < 2300
    assert told[2] == "The command 'sleep 9' was cancelled because it took more than 0.3 seconds."
    assert stop is StopReason.STOPPED  # three in a row
    assert len(episode.turns) == 5


async def test_answers_without_an_action_are_corrected_a_bounded_number_of_times(tmp_path):
    path = config(tmp_path, max_requeries=2)
    both = Message("assistant", "", (ToolCall("bash", {"command": "ls"}, "a"), ToolCall("submit", {}, "b")))
    stop, episode, _ = await play(["no call", both, Reply(bash("ls"), truncated=True), "never"], path)
    assert (stop, episode.n_format_errors) == (StopReason.FORMAT_ERRORS, 3)
    assert [message.role for message in episode.messages[2:]] == [
        "assistant",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
    ]


async def test_an_unknown_tool_is_an_observation():
    _, episode, _ = await play([call("finish"), bash(""), call("bash", script="ls"), call("submit"), call("submit")])
    told = [message.content for message in episode.messages if message.role == "tool"]
    assert told[0] == "There is no such call of 'finish'; the tools are bash, str_replace_editor, submit."
    assert "no such call of 'bash'" in told[2]


async def test_limits_are_the_smaller_of_both():
    assert (await play([bash("ls")] * 30, max_turns=3))[0] is StopReason.MAX_TURNS
    stop, episode, _ = await play([bash("ls")] * 30)
    assert (stop, len(episode.turns)) == (StopReason.MAX_TURNS, 20)
    assert (await play([bash("ls"), ContextOverflow("full")]))[0] is StopReason.CONTEXT_FULL


async def test_old_observations_are_not_shown(tmp_path):
    _, episode, policy = await play([*[bash(f"seq {i}") for i in range(2, 8)], call("submit"), call("submit")])
    shown = [message.content for message in policy.calls[6] if message.role == "tool"]
    assert shown[:2] == ["Old environment output: (3 lines omitted)", "OBSERVATION:\n1\n2\n3"]
    assert "omitted" not in str(episode.messages)


def test_observations_go_by_the_polling():
    messages = [Message("user", "task"), *[Message(r, "x\ny") for _ in range(9) for r in ("assistant", "user")]]
    gone = [sum("omitted" in m.content for m in LastObservations(3, 4).shown(messages[: 2 * n + 1])) for n in range(10)]
    assert gone == [0, 0, 0, 0, 0, 0, 0, 4, 4, 4]


def test_what_matches_is_taken_out_of_all_but_the_last():
    messages = [Message(r, "a<diff>\nx</diff>b") for r in ("user", "assistant", "tool", "tool")]
    shown = RemoveRegex(("<diff>.*</diff>",), 1).shown(messages)
    assert [message.content for message in shown] == ["ab", messages[1].content, "ab", messages[3].content]


@pytest.mark.parametrize(
    ("parser", "text", "expected"),
    [
        ("thought_action", "look\n```\nls -l\n```", Call("bash", {"command": "ls -l"})),
        ("thought_action", "```\nls\n```\nno:\n```bash\npwd\n```\n", Call("bash", {"command": "pwd"})),
        ("thought_action", "```\nsubmit\n```", Call("submit", {})),
        ("xml_thought_action", "look\n<command>\nls\n</command>", Call("bash", {"command": "ls"})),
        ("action_only", "ls", Call("bash", {"command": "ls"})),
        (
            "thought_action",
            "```\nstr_replace_editor view '/a b' --view_range 1 5\n```",
            Call("str_replace_editor", {"command": "view", "path": "/a b", "view_range": ["1", "5"]}),
        ),
        (
            "xml_function_calling",
            "go\n<function=bash>\n<parameter=command>\nls\npwd\n</parameter>\n</function>",
            Call("bash", {"command": "ls\npwd"}),
        ),
        ("xml_function_calling", "<function=submit>\n</function>", Call("submit", {})),
    ],
)
def test_each_form_of_an_action_is_read(parser, text, expected):
    assert PARSERS[parser](text, NAMES) == expected


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("thought_action", "no block"),
        ("thought_action", "```\n\n```"),
        ("thought_action", "```\nstr_replace_editor view '/a\n```"),
        ("thought_action", "```\nstr_replace_editor view /a b\n```"),
        ("xml_thought_action", "ls"),
        ("action_only", "\n"),
        ("xml_function_calling", "<function=bash>"),
    ],
)
def test_what_is_no_action_is_a_format_error(parser, text):
    with pytest.raises(ActionFormatError):
        PARSERS[parser](text, NAMES)


async def test_the_editor_creates_views_replaces_inserts_and_takes_back():
    async with local({"run.sh": "one\ntwo\nthree\n"}) as environment:
        await environment.exec(["chmod", "755", "/testbed/run.sh"])
        editor = Editor(environment)

        async def do(command, path="/testbed/run.sh", **arguments):
            return await editor.run({"command": command, "path": path, **arguments})

        assert await do("view", view_range=[2, -1]) == "     2\ttwo\n     3\tthree\n     4\t"
        assert "run.sh" in await do("view", "/testbed")
        assert "Edited" in await do("str_replace", old_str="two", new_str="2")
        assert "Edited" in await do("insert", insert_line=0, new_str="zero\n")
        assert await environment.read_file("/testbed/run.sh") == b"zero\none\n2\nthree\n"
        assert (await environment.exec(["stat", "-c", "%a", "/testbed/run.sh"])).stdout == "755\n"
        await do("undo_edit")
        await do("undo_edit")
        assert await environment.read_file("/testbed/run.sh") == b"one\ntwo\nthree\n"
        assert await do("create", "/testbed/new/a.py", file_text="x = 1\n") == "Created /testbed/new/a.py."
        assert await environment.read_file("/testbed/new/a.py") == b"x = 1\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"command": "remove", "path": "/testbed/a"}, "unknown command 'remove'"),
        ({"command": "view", "path": "a"}, "path must be absolute"),
        ({"command": "view", "path": "/testbed/none"}, "/testbed/none"),
        ({"command": "view", "path": "/testbed/a", "view_range": [0, 9]}, "view_range must be within 1 and 3"),
        ({"command": "view", "path": "/testbed/a", "view_range": "x"}, "view_range must be two numbers"),
        ({"command": "create", "path": "/testbed/a", "file_text": ""}, "exists already"),
        ({"command": "create", "path": "/testbed/b"}, "file_text is needed"),
        ({"command": "str_replace", "path": "/testbed/a", "old_str": "x"}, "occurs 2 times, first in line 1"),
        ({"command": "str_replace", "path": "/testbed/a", "old_str": "y"}, "occurs 0 times"),
        (
            {"command": "insert", "path": "/testbed/a", "new_str": "y", "insert_line": "z"},
            "insert_line must be a number",
        ),
        ({"command": "insert", "path": "/testbed/a", "new_str": "y", "insert_line": 9}, "insert_line must be within 0"),
        ({"command": "undo_edit", "path": "/testbed/a"}, "no edit of"),
    ],
)
async def test_what_is_wrong_with_an_edit_is_what_the_model_is_told(arguments, says):
    async with local({"a": "x\nx\n"}) as environment:
        text = await Editor(environment).run(arguments)
        assert text.startswith("Error: ")
        assert says in text
        assert await environment.read_file("/testbed/a") == b"x\nx\n"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tools__bundles": [{"path": "tools/windowed"}]}, "'windowed': no such bundle here; there are registry"),
        ({"tools__parse_function": {"type": "json"}}, "'json': there are thought_action"),
        ({"history_processors": [{"type": "closed_window"}]}, "there are last_n_observations"),
        ({"history_processors": [{"type": "last_n_observations", "n": 0}]}, "must be at least 1"),
        ({"templates__demonstrations": ["demo.traj"]}, "cannot be trained on"),
        ({"templates__instance_template": "{{ open_file }}"}, "'open_file': no such variable; there are command_docs"),
        ({"templates__next_step_templat": "x"}, "did you mean next_step_template?"),
        ({"retry_loop": {}}, "agent.retry_loop={}: is not supported"),
    ],
)
def test_what_does_not_carry_over_is_named(tmp_path, changes, says):
    with pytest.raises(ConfigError) as caught:
        SweAgentScaffold(ScaffoldConfig(options={"config": config(tmp_path, **changes)}))
    assert says in str(caught.value)


def test_without_a_configuration_it_says_what_is_needed():
    with pytest.raises(ConfigError, match="give the path of a configuration of SWE-agent"):
        SweAgentScaffold(ScaffoldConfig())
