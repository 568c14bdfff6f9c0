"""`Task`: a repository in a state, a problem, and what decides whether it is solved."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["GradingSpec", "Image", "Task"]


@dataclass(frozen=True, slots=True)
class Image:
    """What an environment starts from; the same value means the same content on every backend.

    Attributes:
        base: ``host`` (a minimal root made from this machine's bash, coreutils, git and Python),
            ``rootfs:<dir or tar>``, ``docker:<reference>`` or ``oci:<layout or archive>[#<name>]``.
        files: text files (path relative to `workdir` -> content) that are written into `workdir` and
            committed as the only commit of a fresh git repository; empty: `workdir` is the image's own.
        workdir: absolute path of the repository inside the environment.
        commit: base commit of the repository, of which nothing newer is left; empty: the one checked out.
        repository: git URL or directory of which `workdir` becomes a checkout at `commit` (a full id).
        python: interpreter of the base that requirements are installed for, e.g. ``python3.11``.
        requirements: lines as in a requirements file, installed into that interpreter.
        as_of: requirements are resolved as on this day (``YYYY-MM-DD``); empty: today's versions.
        setup: shell commands run in `workdir` at the end, with network, as who owns everything.
    """

    base: str = "host"
    files: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/testbed"
    commit: str = ""
    repository: str = ""
    python: str = ""
    requirements: Sequence[str] = ()
    as_of: str = ""
    setup: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("requirements", "setup"):  # JSON has lists only
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class GradingSpec:
    """How a patch is judged.

    Attributes:
        command: argv run in `Image.workdir` of the *grading* environment.
        parser: name of a registered log parser that turns its output into test id -> status.
        tests: hidden files (path relative to workdir -> content), injected after the patch was applied.
        test_patch: unified diff of the hidden tests, applied after the patch, where there are no whole files.
        protected: further paths (files or directories) that judge: a patch's changes to them are left out.
        fail_to_pass: exact test ids that fail before the fix and must pass.
        pass_to_pass: exact test ids that must keep passing.
        expected: ids of these two that must have another status than PASSED, and which.
        timeout_s: wall-clock limit of `command`.
    """

    command: Sequence[str] = ()
    parser: str = "status_lines"
    tests: Mapping[str, str] = field(default_factory=dict)
    fail_to_pass: Sequence[str] = ()
    pass_to_pass: Sequence[str] = ()
    test_patch: str = ""
    protected: Sequence[str] = ()
    expected: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Task:
    """One problem. Frozen; parsed from a dataset row.

    Attributes:
        instance_id: unique in its dataset, safe as a file name.
        problem_statement: what the agent is told.
        repo: repository name, used to split train from held-out.
        image: what its environments start from.
        grading: how it is judged; never visible to the agent.
        base_commit: commit the agent starts from; empty when `image.files` makes the repository.
        gold_patch: the reference fix (validation, `--policy gold`, control runs of the grader), may be empty.
        prompt_vars: extra variables for prompt templates, e.g. the action menu of the demo.
        metadata: anything a dataset wants to keep beside the task; must be JSON.
    """

    instance_id: str
    problem_statement: str
    repo: str = ""
    image: Image = field(default_factory=Image)
    grading: GradingSpec = field(default_factory=GradingSpec)
    base_commit: str = ""
    gold_patch: str = ""
    prompt_vars: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """The task as one JSON object (keys sorted), for a dataset column."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Inverse of `to_json`.

        Raises:
            ValueError: not JSON, or keys that are missing or unknown.
        """
        raw = json.loads(text)
        try:
            return cls(**{**raw, "image": Image(**raw["image"]), "grading": GradingSpec(**raw["grading"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a task: {error}") from error
