"""How an action is read from an answer's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.scaffolds.parsers import Action, ActionFormatError, parse_fenced, parse_tool_calls, write_action


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("```bash\nls\n```", "ls"),
        ("words\n```bash\nls\n```\nwords", "ls"),
        ("```bash  \r\nls\r\n```\r\n", "ls\r"),
        ("  ```bash\nls\n  ```", "ls"),
        ("```bash\n\nls\n\n```", "\nls\n"),
        ("```python\nprint()\n```\n```bash\nls\n```", "ls"),
        ("```\n```bash\n```\n```bash\nls\n```", "ls"),
        ("````bash\ncat > x.md <<EOF\n```bash\nls\n```\nEOF\n````", "cat > x.md <<EOF\n```bash\nls\n```\nEOF"),
        ("<think>\n```bash\nrm -rf /\n```\nno</think>\n```bash\nls\n```", "ls"),
        ("<|channel|>analysis<|message|>```bash\nrm -rf /\n```<|channel|>final<|message|>\n```bash\nls\n```", "ls"),
        ("```bash\necho submit\n```", "echo submit"),
    ],
)
def test_one_block_is_the_script(text, script):
    assert parse_fenced(text) == Action(script)


@pytest.mark.parametrize("text", ["```bash\nsubmit\n```", "done\n```bash\n\n submit \n```"])
def test_a_block_that_is_exactly_submit_hands_in(text):
    assert parse_fenced(text) == Action(submit=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "found 0"),
        ("ls", "found 0"),
        ("submit", "found 0"),
        ("```\nls\n```", "found 0"),
        ("```sh\nls\n```", "found 0"),
        ("``bash\nls\n``", "found 0"),
        ("text ```bash\nls\n```", "found 0"),
        ("```bash\nls\n```\n```bash\nls\n```", "found 2"),
        ("```bash\nls", "not closed"),
        ("```bash\nls\n```\n```bash\nls", "not closed"),
        ("```bash\n```", "empty"),
        ("```bash\n \n\n```", "empty"),
        ("<think>```bash\nls\n```</think>", "found 0"),
    ],
)
def test_anything_else_is_a_format_error_that_says_why(text, reason):
    with pytest.raises(ActionFormatError, match=reason):
        parse_fenced(text)


@given(st.text(), st.text(), st.text(alphabet="ab \n\t'\"$`\\#é"))
def test_whatever_the_text_it_is_an_action_or_a_format_error(before, after, script):
    try:
        action = parse_fenced(f"{before}\n````bash\n{script}\n````\n{after}")
    except ActionFormatError:
        return
    assert action.submit or action.script


SCRIPTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).filter(
    lambda script: script.strip() and "</think>" not in script and script.strip() != "submit"
)


@given(SCRIPTS)
def test_what_is_written_is_read_back(script):
    assert parse_fenced(write_action(script, "fenced").content) == Action(script)
    assert parse_tool_calls(write_action(script, "tools").tool_calls) == [Action(script, call_id="call_0")]


def test_the_word_submit_is_written_as_what_hands_in():
    assert parse_fenced(write_action("submit", "fenced").content).submit
    assert parse_tool_calls(write_action(" submit\n", "tools").tool_calls)[0].submit
