"""The keys of the ``swe:`` section: types, defaults, one docstring per field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "DemoConfig",
    "EnvironmentConfig",
    "FailureConfig",
    "GradingConfig",
    "HonestyConfig",
    "OutputConfig",
    "PolicyConfig",
    "ScaffoldConfig",
    "SlotsConfig",
    "SweConfig",
]


@dataclass
class EnvironmentConfig:
    """Where agent commands run."""

    backend: str = "sandbox"
    """Registered environment backend."""
    memory_mib: int = 512
    """Memory limit of one environment, its file changes on tmpfs included."""
    pids: int = 128
    """Process and thread limit of one environment."""
    cpus: float = 1.0
    """CPU limit of one environment, in cores."""
    disk_mib: int = 256
    """Limit of what one environment may write."""
    output_bytes: int = 1048576
    """Bytes kept of each output stream of one command."""
    start_timeout_s: float = 60.0
    """Wall-clock limit of one start, its image at hand."""
    image_timeout_s: float = 1800.0
    """Wall-clock limit of pulling, building and unpacking an image."""
    setup_timeout_s: float = 300.0
    """Wall-clock limit of what follows a start before the agent begins: recording the baseline of its patch."""
    network: str = "none"
    """`none` (own loopback only) or `full`."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables of the agent, added to the allow-listed ones."""
    options: dict[str, Any] = field(default_factory=dict)
    """Settings of the chosen backend."""
    image_cache_gib: float = 100.0
    """Disk that unpacked images may take on a node; the least recently used that nobody uses go first. 0: no limit."""


@dataclass
class SlotsConfig:
    """Capacities of one node, shared by all processes of a run there (docs/pool.md)."""

    start: int = 4
    """Environments starting at once."""
    running: int = 256
    """Agent environments alive at once."""
    grading: int = 4
    """Gradings at once; they have their own slots, so that they cannot be starved."""
    io: int = 2
    """Images unpacked, built or imported at once, over all runs."""
    reserved: float = 0.0625
    """Part of each capacity from 4 on, at least one slot, that only training may use, and again for evaluation (of
    `start`: both); what is started ahead of time uses neither. 0: whoever comes first has all."""


@dataclass
class ScaffoldConfig:
    """The agent."""

    name: str = "bash"
    """Registered scaffold."""
    action: str = "fenced"
    """How an action is written: `fenced` (one bash block) or `tools` (the model's own tool calls)."""
    max_turns: int = 30
    """Assistant turns per rollout."""
    max_format_errors: int = 3
    """Answers in a row in which no action could be read before the rollout ends."""
    wall_clock_s: float = 1800.0
    """Time of the agent in one rollout, waiting for the model included."""
    command_timeout_s: float = 60.0
    """Time of one command."""
    observation_chars: int = 10000
    """Characters of a command's output that the model sees; the middle is cut and the cut is announced."""
    keep_observations: int = 0
    """Observations that the model surely sees; when twice as many have come, older ones are replaced by a note. Each
    time opens a new token segment, whose prompt has to fit data.max_prompt_length. 0: all are kept."""
    summarize_after: int = 0
    """Observations after which the model is asked for a summary, which costs a turn and then stands for the whole
    conversation but the task, in a new token segment. 0: never."""
    system_prompt: str = "default"
    """Name of a bundled template, or path of a jinja file."""
    instance_prompt: str = "default"
    """Name of a bundled template, or path of a jinja file."""
    observation_prompt: str = "default"
    """Name of a bundled template, or path of a jinja file."""
    format_error_prompt: str = "default"
    """Name of a bundled template, or path of a jinja file."""
    summary_prompt: str = "default"
    """Name of a bundled template, or path of a jinja file."""
    options: dict[str, Any] = field(default_factory=dict)
    """Settings of the chosen scaffold (docs/scaffolds.md)."""


@dataclass
class PolicyConfig:
    """How the policy is asked. Sampling itself (temperature, top_p, lengths) is verl's configuration."""

    max_turn_tokens: int = 0
    """Tokens of one answer; 0: whatever is left of the response length."""
    max_attempts: int = 3
    """Calls of the inference server for one answer before the rollout is given up."""
    call_timeout_s: float = 1200.0
    """Time of one call, queueing in the server included; a server that hangs is a failure, not a slow agent."""
    renderer: str = "chat_template"
    """Registered renderer: how messages become tokens."""
    chat_template: str = ""
    """Jinja chat template that replaces the tokenizer's: path of a file, or the text itself; empty keeps it."""
    on_rewrite: str = "keep"
    """Where the template would write earlier answers otherwise than they were sampled (drops thoughts, say): `keep`
    goes on from what was sampled; `segment` opens a new token segment with the template's words, as a chat server
    would show them, and renders the whole conversation each turn."""
    template_date: str = ""
    """Date (YYYY-MM-DD) for templates that print today's; empty: the day the run started, also after midnight."""
    seed: int = -1
    """From 0 on, answers are drawn by seeds made of this, step, task, session and prompt: equal weights sample the same
    (up to rounding), whatever runs beside them. -1: the server's own randomness. Not in async modes."""
    concurrency: int = 256
    """Calls in flight per worker (vLLM servers queue what is above their limit)."""
    max_cost_usd: float = 0.0
    """Money that one rollout may cost with a hosted model; then it ends as `context_full`. 0: no limit."""
    calls_per_minute: float = 0.0
    """Calls of a hosted model that may begin in a minute, over all rollouts of a process. 0: no limit."""
    cache_dir: str = ""
    """Directory where answers of a hosted model are kept and taken from; needs a temperature of 0 or a seed, or all
    samples of a task would be one. Empty: none."""
    litellm: dict[str, Any] = field(default_factory=dict)
    """More arguments of `litellm.acompletion` for a hosted model (`swe-plugin try`, never training), e.g. `temperature`
    or `api_base`; no API keys, which are read from environment variables."""


@dataclass
class HonestyConfig:
    """What follows from a signal of reward hacking: `ignore`, `flag` (recorded, counted in `swe/flags/*`), `zero`
    (the reward is 0 as well) or `drop` (no row). Signals are hints (docs/rewards.md)."""

    empty_patch: str = "flag"
    """Nothing was changed."""
    test_only_patch: str = "flag"
    """Nothing but tests and their configuration was changed."""
    tests_edited: str = "flag"
    """Existing tests or what configures them was changed, or a hidden test's place was taken; never applied."""
    test_configuration: str = "flag"
    """A conftest, a pytest section or a plugin entry point was added or changed."""
    skips_added: str = "flag"
    """A skip or an expected failure was added outside new tests."""
    tests_patched: str = "flag"
    """Code that replaces parts of the test framework, defines its hooks, forges its output or asks whether it runs."""
    tests_aborted: str = "flag"
    """The patch keeps the tests from ending: not resolved. `drop` gives such rollouts no row instead."""
    history_read: str = "flag"
    """Commands that look for other commits: all branches, reflog, remotes, raw objects."""
    site_packages_read: str = "flag"
    """Commands that read an installed copy of the repository's own package."""
    network_attempt: str = "flag"
    """Commands that want the network, whether there is one or not."""


@dataclass
class GradingConfig:
    """How patches become rewards."""

    grader: str = "tests"
    """Registered grader."""
    cache: bool = True
    """Reuse the grade of an identical (task, patch) pair."""
    max_attempts: int = 2
    """Gradings of one patch before it counts as ungradable."""
    overhead_s: float = 600.0
    """Time of one grading beyond the task's own limit for its tests: patches, hidden tests, reading results."""
    max_patch_bytes: int = 4194304
    """A larger patch is not graded: it counts as not resolved, with the flag `patch_too_large`."""
    rewards: dict[str, Any] = field(default_factory=lambda: {"resolved": 1.0})
    """What the reward is the sum of: component -> weight, or `{weight, use, ...options}` (docs/rewards.md)."""
    honesty: HonestyConfig = field(default_factory=HonestyConfig)
    """What follows from signals of reward hacking."""


@dataclass
class FailureConfig:
    """What happens when infrastructure fails (docs/failures.md)."""

    max_attempts: int = 2
    """Environments tried for one rollout."""
    min_survivors: int = 2
    """Members a group needs; below it the whole group is dropped."""
    breaker_failures: int = 32
    """Rollouts that fail in a row, over all groups, before the run stops with the reason."""
    zero_advantage: str = "keep"
    """Groups whose members all have the same reward, so that none has an advantage: `keep`; `drop`: their rows are left
    out of the update; `refill`: other prompts replace them before the update (verl's `algorithm.filter_groups`)."""
    rollout_timeout_s: float = 10800.0
    """Time of one rollout in all: waiting for slots, retries and grading included. Then it has no row."""
    watchdog_s: float = 60.0
    """Seconds without an answer after which an agent-loop worker is killed and replaced; a dead one is at once."""


@dataclass
class OutputConfig:
    """What a run leaves on disk."""

    dir: str = "outputs"
    """Directory of run directories."""
    run: str = ""
    """Name of this run's directory; empty: made from the time."""
    trajectories: bool = True
    """Write one directory per rollout."""


@dataclass
class DemoConfig:
    """The embedded demo: generated tasks and a tiny model, both made on first use and cached."""

    enabled: bool = False
    """Make tasks and model before training and point verl's data and model keys at them."""
    seed: int = 0
    """Seed of task generation, warm start and training order."""
    warm_start_steps: int = 120
    """Supervised steps on the action format (never on answers) before training."""


@dataclass
class SweConfig:
    """The ``swe:`` section."""

    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    slots: SlotsConfig = field(default_factory=SlotsConfig)
    scaffold: ScaffoldConfig = field(default_factory=ScaffoldConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    grading: GradingConfig = field(default_factory=GradingConfig)
    failure: FailureConfig = field(default_factory=FailureConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    demo: DemoConfig = field(default_factory=DemoConfig)
    overlap: str = "off"
    """`off`; `prewarm`: environments of the next batch start while this one is worked on; `async`: that, and verl
    generates the next batch while it trains (docs/overlap.md)."""
    plugins: list[str] = field(default_factory=list)
    """Plugins this run needs: a missing or broken one stops it."""
