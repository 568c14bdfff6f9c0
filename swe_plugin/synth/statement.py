"""What the agent is told: an issue that says what goes wrong, never why."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from swe_plugin.errors import ConfigError
from swe_plugin.synth.patch import unified_diff
from swe_plugin.types import Message

if TYPE_CHECKING:
    from swe_plugin.policies.base import Policy
    from swe_plugin.synth.bugs import Bug
    from swe_plugin.synth.project import Project
    from swe_plugin.synth.trial import Trial

__all__ = ["HINTS", "ModelWriter", "TemplateWriter", "Writer", "check_hint"]

HINTS: Mapping[str, str] = {"function": "names the function", "module": "names the module", "none": "names neither"}
"""How much a statement tells."""
_MESSAGE_CHARS = 600
_TELLING_CHARS = 12

_OPENINGS = {
    "function": (
        "`{function}` in `{path}` gives wrong results.",
        "`{function}` (`{path}`) does not do what it should.",
        "Since the last change `{function}` in `{path}` misbehaves.",
    ),
    "module": (
        "Something in `{path}` is broken.",
        "`{path}`: wrong behaviour since the last change.",
        "A part of `{path}` does not do what it should.",
    ),
    "none": (
        "{name} misbehaves.",
        "{name}: wrong behaviour since the last change.",
        "Something that worked in {name} before does not work any more.",
    ),
}
_SYMPTOMS = (
    "A check of it fails with:\n\n```\n{message}\n```",
    "What I see:\n\n```\n{message}\n```",
    "One of our checks says:\n\n```\n{message}\n```",
)
_MEANT = "It is documented as: {doc}"
_RUN = "The visible tests run with `{command}`; others decide whether it is fixed."

_PROMPT = """\
You write bug reports. Below are a change that broke the Python project {name} {version}, and a test that now fails.
Write the issue a user would file: what they did, what they expected, what happened instead, with a short example of
their own. {hint} Never show, quote or describe the change or the fix, and do not mention tests. Answer with the issue
alone, title first.

Change:
{diff}

Failing test:
{test}

It says:
{message}
"""
_HINT_RULES = {
    "function": "You may name the function {function}.",
    "module": "You may name the module {path} but no private function.",
    "none": "Name neither module nor function, only what a user of the project sees.",
}


class Writer(Protocol):
    """Writes the problem statement of a task."""

    async def write(self, project: Project, bug: Bug, trial: Trial, gold_patch: str, rng: random.Random) -> str | None:
        """The statement, or None if none can be used."""
        ...


def check_hint(hint: str) -> str:
    """Return `hint`.

    Raises:
        ConfigError: it is none of `HINTS`.
    """
    if hint not in HINTS:
        raise ConfigError("--hint", hint, f"must be one of {', '.join(HINTS)}")
    return hint


class TemplateWriter:
    """Fills sentences in: what is broken, what its documentation says, how a check of it fails.

    Args:
        hint: how much it tells, of `HINTS`.
        command: that runs the visible tests.
    """

    def __init__(self, hint: str, command: str) -> None:
        self._hint, self._command = hint, command

    async def write(self, project: Project, bug: Bug, trial: Trial, gold_patch: str, rng: random.Random) -> str | None:
        """See `Writer.write`."""
        opening = rng.choice(_OPENINGS[self._hint])
        parts = [opening.format(function=bug.function, path=bug.path, name=project.name)]
        if self._hint == "function" and (doc := _documented(bug)):
            parts.append(_MEANT.format(doc=doc))
        messages = [_shown(message) for _, message in trial.messages if message.strip()]
        if messages:
            parts.append(rng.choice(_SYMPTOMS).format(message=min(messages, key=len)))
        return "\n\n".join([*parts, _RUN.format(command=self._command)]) + "\n"


class ModelWriter:
    """Asks a model for the issue, and again if the answer gives the fix away.

    Args:
        make_policy: makes what answers, e.g. a `LitellmPolicy`.
        hint: how much it may tell, of `HINTS`.
        attempts: answers asked for.
    """

    def __init__(self, make_policy: Callable[[], Policy], hint: str, *, attempts: int = 3) -> None:
        self._make_policy, self._hint, self._attempts = make_policy, hint, attempts

    async def write(self, project: Project, bug: Bug, trial: Trial, gold_patch: str, rng: random.Random) -> str | None:
        """See `Writer.write`.

        Raises:
            PolicyError: the model does not answer.
        """
        test_id, message = rng.choice([item for item in trial.messages if item[1].strip()] or list(trial.messages))
        hint = _HINT_RULES[self._hint].format(function=bug.function, path=bug.path)
        diff, test = unified_diff(bug.path, bug.source.text, bug.text), _test_source(project, test_id)
        prompt = _PROMPT.format(
            name=project.name, version=project.version, hint=hint, diff=diff, test=test, message=_shown(message)
        )
        policy = self._make_policy()
        for _ in range(self._attempts):
            reply = await policy.respond([Message("user", prompt)])
            text = reply.message.content.strip()
            if text and not reply.truncated and not _gives_away(text, gold_patch, trial):
                return f"{text}\n"
        return None


def _gives_away(text: str, gold_patch: str, trial: Trial) -> bool:
    """Whether a statement holds a line of the fix or of the bug, or the name of a hidden test."""
    lines = [line[1:].strip() for line in gold_patch.splitlines()[2:] if line[:1] in ("+", "-")]
    names = [test_id.partition("[")[0].rpartition("::")[2] for test_id in trial.fail_to_pass]
    return any(word in text for word in (*names, *(line for line in lines if len(line) >= _TELLING_CHARS)))


def _documented(bug: Bug) -> str:
    """First sentence of the docstring of the function with the bug."""
    for node in ast.walk(bug.source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            begins = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if begins == bug.first_line:
                return " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())[:_MESSAGE_CHARS]
    return ""


def _test_source(project: Project, test_id: str) -> str:
    """The text of a test's function where its file has it, else its id."""
    path, _, name = test_id.partition("::")
    wanted = name.partition("[")[0].rpartition("::")[2]
    text = project.files.get(path, "")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == wanted:
            return ast.get_source_segment(text, node) or test_id
    return test_id


def _shown(message: str) -> str:
    text = message.strip().replace("```", "'''")
    return text if len(text) <= _MESSAGE_CHARS else f"{text[:_MESSAGE_CHARS]} ..."
