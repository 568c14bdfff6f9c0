"""The vocabulary: what a task, an image, a segment, a grade and a rollout result are.

Plain data without behaviour that needs a heavy import. Everything here can be pickled to a Ray
worker; `Task` also round-trips through JSON because it travels in a dataset column.
"""

from __future__ import annotations

import dataclasses
import json
import socket
import traceback
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = [
    "AttemptFailure",
    "ExecResult",
    "Grade",
    "GradingSpec",
    "Image",
    "Message",
    "Phase",
    "Reply",
    "RolloutResult",
    "Segment",
    "Span",
    "StopReason",
    "Task",
    "TestStatus",
    "ToolCall",
    "Turn",
    "Usage",
]


class StopReason(StrEnum):
    """Why a rollout ended. What follows from each is decided in one place, `rollout.outcome`."""

    SUBMITTED = "submitted"
    """The agent handed its work in."""
    STOPPED = "stopped"
    """The agent ended without handing in (its last turn had nothing left to do)."""
    MAX_TURNS = "max_turns"
    CONTEXT_FULL = "context_full"
    WALL_CLOCK = "wall_clock"
    FORMAT_ERRORS = "format_errors"
    ENVIRONMENT_START = "environment_start"
    ENVIRONMENT_LOST = "environment_lost"
    MODEL_ERROR = "model_error"
    GRADER_ERROR = "grader_error"
    SCAFFOLD_ERROR = "scaffold_error"
    """A bug in a scaffold or plugin raised, or the first prompt does not fit: no row, the record has the traceback."""
    DISHONEST = "dishonest"
    """Graded, and left out because ``swe.grading.honesty`` says ``drop`` for one of its signals."""
    ROLLOUT_TIMEOUT = "rollout_timeout"
    CANCELLED = "cancelled"


class TestStatus(StrEnum):
    """Status of one test id, in SWE-bench's words."""

    __test__ = False  # not a pytest class

    PASSED = "PASSED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    ERROR = "ERROR"
    XFAIL = "XFAIL"
    MISSING = "MISSING"
    """The run printed no status for the id."""


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


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What one command did.

    Attributes:
        stdout, stderr: decoded as UTF-8 with replacement, each cut in the middle at the output limit.
        exit_code: as the shell reports it (128 + n for signal n); -1 when `timed_out`.
        duration_s: wall-clock seconds.
        timed_out: the limit ended it; output up to then is kept.
        truncated: some output was dropped.
    """

    stdout: str
    stderr: str = ""
    exit_code: int = 0
    duration_s: float = 0.0
    timed_out: bool = False
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One action the model asked for: tool `name` with `arguments`, and the provider's call id."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `role` is system, user, assistant or tool."""

    role: str
    content: str
    tool_calls: Sequence[ToolCall] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a policy answered.

    Attributes:
        message: the assistant message, to be appended to the history as it is.
        truncated: cut by a length limit, whatever the server called it; its action must not be run.
        n_tokens: sampled tokens (0 for policies without tokens).
        n_prompt: tokens of the context that they were sampled in.
        problems: why tool calls in it could not be read, one sentence each; the message then has none of its calls.
    """

    message: Message
    truncated: bool = False
    n_tokens: int = 0
    problems: Sequence[str] = ()
    n_prompt: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """A run of tokens ``[start, stop)`` of one segment that belongs to one message or header.

    Attributes:
        kind: ``prompt``, ``sampled``, ``observation`` or ``glue`` (headers, separators).
        turn: index of the assistant turn that it is, precedes or follows.
    """

    start: int
    stop: int
    kind: str
    turn: int


@dataclass(slots=True)
class Segment:
    """One append-only token stream. All arrays have length T; given as any sequence, they are copied.

    Arrays, not lists: 512 rollouts of 100k ids are 0.9 GB instead of 4, and no garbage collection walks them.

    Attributes:
        ids: token ids, ``array("I")``.
        mask: 1 on ids that the policy sampled, 0 elsewhere, ``array("b")``.
        log_probs: natural log-prob under the sampling policy at the sampling temperature; 0.0 where mask is 0,
            ``array("d")``.
        weight_versions: trainer step of the weights that sampled the id; -1 where mask is 0, ``array("i")``.
        spans: consecutive, disjoint, covering [0, T).
        prompt_length: P, the number of ids of the opening prompt; the trained response starts there. (Sampling
            starts there too, unless the first answer was empty.)
        routed_experts: engine's routing record for MoE models, or None.
    """

    ids: array[int] = field(default_factory=lambda: array("I"))
    mask: array[int] = field(default_factory=lambda: array("b"))
    log_probs: array[float] = field(default_factory=lambda: array("d"))
    weight_versions: array[int] = field(default_factory=lambda: array("i"))
    spans: list[Span] = field(default_factory=list)
    prompt_length: int = 0
    routed_experts: Any = None

    def __post_init__(self) -> None:
        self.ids, self.mask = array("I", self.ids), array("b", self.mask)
        self.log_probs, self.weight_versions = array("d", self.log_probs), array("i", self.weight_versions)


@dataclass(slots=True)
class Grade:
    """The verdict on one patch.

    Attributes:
        resolved: every F2P and P2P id has PASSED (or its expected status).
        statuses: status of each F2P and P2P id.
        flags: integrity signals, e.g. ``empty_patch``, ``tests_edited``.
        duration_s: wall-clock seconds of grading (0.0 when cached).
        cached: taken from the grade cache.
        log: the tail of the test output.
    """

    resolved: bool
    statuses: dict[str, TestStatus] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    duration_s: float = 0.0
    cached: bool = False
    log: str = ""


@dataclass(slots=True)
class Turn:
    """One agent turn: the actions it took and what came back (for the record, not for training).

    Attributes:
        actions: shell scripts that ran, in order.
        results: one per action.
        format_error: why no action could be read, or empty.
    """

    actions: list[str] = field(default_factory=list)
    results: list[ExecResult] = field(default_factory=list)
    format_error: str = ""


@dataclass(slots=True)
class AttemptFailure:
    """One failed attempt at a rollout or grading.

    Attributes:
        phase: ``start``, ``setup``, ``agent``, ``patch``, ``grade`` or ``control``.
        attempt: counted from 1.
        error: ``TypeName: message``.
        traceback: formatted with all its causes, for the record.
        stop: the stop reason that it gave a rollout's attempt; None for a grading.
        rollout: ``<instance>@<session>``.
        node: host name of where it happened.
    """

    phase: str
    attempt: int
    error: str
    traceback: str = ""
    stop: StopReason | None = None
    rollout: str = ""
    node: str = ""

    def __str__(self) -> str:
        return f"{self.rollout} on {self.node}: attempt {self.attempt}, {self.phase}: {self.error}"

    @classmethod
    def of(
        cls, error: BaseException, phase: str, attempt: int, rollout: str, stop: StopReason | None = None
    ) -> AttemptFailure:
        """The record of `error`, which was raised here."""
        text, trace = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
        return cls(phase, attempt, text, trace, stop, rollout, socket.gethostname())


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time in a rollout.

    Attributes:
        name: ``wait``, ``start``, ``generate``, ``exec``, ``patch`` or ``grade``.
        began: Unix time in seconds; that of a start ahead of time lies before the rollout.
        seconds: how long it took.
    """

    name: str
    began: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of an environment used.

    Attributes:
        cpu_s: CPU seconds so far, of processes that have ended too.
        memory_mib: most memory at once, as far as it was seen.
    """

    cpu_s: float
    memory_mib: float


@dataclass(slots=True)
class RolloutResult:
    """Everything one rollout produced.

    Attributes:
        task: what was attempted.
        session: index of this sample in its group.
        stop: why it ended.
        reward: None when the rollout has no row (see `rollout.outcome`).
        rewards: value of each component of the reward, not weighted (``swe.grading.rewards``).
        grade: None when it was not or could not be graded.
        patch: unified diff against the recorded baseline.
        messages: the conversation.
        turns: commands and results.
        segments: token streams, in order; empty for policies without tokens.
        timings: phase -> seconds (``wait``, ``start``, ``hidden``, ``generate``, ``exec``, ``patch``, ``grade``,
            ``total``); ``hidden``, of environments started ahead, was over before the rollout began.
        phases: the same in order of time, one entry for each stretch, all attempts included.
        worker: ``<host>:<process id>`` of where it ran.
        failures: one per failed attempt.
        n_format_errors: answers in which no action could be read.
        flags: integrity signals of patch and grade, also where there is no grade, e.g. ``grader_timeout``.
        usage: what the policy reports to have used, failed attempts included, e.g. ``prompt_tokens``, ``cost_usd``.
        request_id: by which the journal knows the calls behind `segments`; empty for policies without a journal.
        notes: what an agent that calls the gateway did wrong there, one line each (docs/gateway.md).
        environment: what the last attempt's environment used; None if its backend cannot say.
    """

    task: Task
    session: int
    stop: StopReason
    reward: float | None = None
    grade: Grade | None = None
    patch: str = ""
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    worker: str = ""
    failures: list[AttemptFailure] = field(default_factory=list)
    n_format_errors: int = 0
    flags: tuple[str, ...] = ()
    usage: dict[str, float] = field(default_factory=dict)
    request_id: str = ""
    rewards: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    environment: Usage | None = None
