"""Generated tasks: a function whose body contradicts its docstring, in a small repository of its own.

The issue names the function and says that it is wrong, never how. Every prompt belongs to eight tasks that
want eight different things, so even a policy that knows all prompts by heart has to read the file. The buggy
body is any other behaviour of the family, so it does not tell the fix either: the docstring does.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from swe_plugin.config import DemoConfig
from swe_plugin.data.demo.behaviours import BEHAVIOURS, FAMILIES, Behaviour
from swe_plugin.data.demo.hidden_tests import PROBES, TEST_FILE, fail_to_pass, hidden_test, pass_to_pass
from swe_plugin.data.demo.repositories import HELDOUT, TRAIN, Repository
from swe_plugin.types import GradingSpec, Image, Task

__all__ = ["PROBES", "demo_tasks", "module_source", "split_tasks"]

_ISSUES = (
    "{function} in {module}.py is wrong.",
    "{function} ({module}.py) gives wrong results.",
    "Bug: {function} in {module}.py does not do what it should.",
    "{module}.py: {function} is broken.",
)
_DOCSTRINGS = ("Return {phrase}.", "Tell {phrase}.", "Compute {phrase}.")


def module_source(function: str, docstring: str, expression: str, helper: str) -> str:
    """Text of a repository's module: the function under repair on lines 1-3, a correct helper below it."""
    return (
        f'def {function}(a, b):\n    """{docstring}"""\n    return {expression}\n\n\n'
        f"def {helper}(n):\n    return n // 2\n"
    )


def _task(repository: Repository, function: str, issue: str, behaviour: Behaviour, rng: random.Random) -> Task:
    docstring = rng.choice(_DOCSTRINGS).format(phrase=behaviour.phrase)
    buggy = rng.choice([b for b in FAMILIES[behaviour.family] if b is not behaviour])
    path = f"{repository.module}.py"
    before, after = (
        module_source(function, docstring, expression, repository.helper)
        for expression in (buggy.expression, behaviour.expression)
    )
    return Task(
        instance_id=f"demo__{repository.name}-{function}-{BEHAVIOURS.index(behaviour) + 1}",
        problem_statement=issue,
        repo=repository.name,
        image=Image(base="host", files={path: before, "README.md": f"# {repository.name}\n"}, workdir="/testbed"),
        grading=GradingSpec(
            command=("python3", "-I", "-S", TEST_FILE),
            parser="nonce_lines",
            tests={TEST_FILE: hidden_test(repository.module, function, behaviour, repository.helper)},
            fail_to_pass=fail_to_pass(),
            pass_to_pass=pass_to_pass(),
            timeout_s=30.0,
        ),
        gold_patch=_diff(path, before, after),
        metadata={"behaviour": behaviour.name, "family": behaviour.family, "bug": buggy.name},
    )


def _diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
    return "".join(lines)


def _generate(repositories: Iterable[Repository], split: str, seed: int) -> Iterator[Task]:
    for repository in repositories:
        rng = random.Random(f"{seed}/{repository.name}")  # noqa: S311 - not a secret
        for function in repository.functions:
            issue = rng.choice(_ISSUES).format(function=function, module=repository.module)
            for behaviour in BEHAVIOURS:
                task = _task(repository, function, issue, behaviour, rng)
                yield replace(task, metadata={**task.metadata, "split": split})


def split_tasks(seed: int = 0) -> tuple[list[Task], list[Task]]:
    """Train and held-out tasks: for every repository and function of it, each wanted behaviour once."""
    return list(_generate(TRAIN, "train", seed)), list(_generate(HELDOUT, "heldout", seed))


def demo_tasks(settings: DemoConfig | Mapping[str, Any] | None = None) -> list[Task]:
    """Every demo task, train first (``metadata["split"]`` tells them apart). Registered as dataset ``demo``.

    Args:
        settings: ``swe.demo`` or any mapping; only ``seed`` matters here.
    """
    seed = settings.seed if isinstance(settings, DemoConfig) else int((settings or {}).get("seed", 0))
    train, heldout = split_tasks(seed)
    return train + heldout
