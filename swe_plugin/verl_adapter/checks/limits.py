"""Limits that contradict each other: an inner one that no outer one leaves room for."""

from __future__ import annotations

from collections.abc import Iterator

from swe_plugin.preflight.finding import Finding
from swe_plugin.verl_adapter.checks.settings import ACTOR, ROLLOUT, Settings

__all__ = ["check_limits"]

_POSITIVE = (
    *(f"swe.environment.{name}" for name in ("memory_mib", "pids", "cpus", "disk_mib", "output_bytes")),
    *("swe.environment.start_timeout_s", "swe.scaffold.command_timeout_s", "swe.scaffold.observation_chars"),
    *("swe.scaffold.max_format_errors", "swe.policy.call_timeout_s", "swe.policy.max_attempts"),
    *("swe.policy.concurrency", "swe.failure.watchdog_s", "swe.failure.breaker_failures"),
    *("swe.environment.image_timeout_s", "swe.environment.setup_timeout_s", "swe.grading.overhead_s"),
    *("data.train_batch_size", "data.max_prompt_length", "data.max_response_length", f"{ROLLOUT}.n"),
)


def check_limits(s: Settings) -> Iterator[Finding]:
    """Numbers, times and lengths."""
    for key in _POSITIVE:
        yield s.rule(key, (s.get(key) or 0) > 0, "must be greater than 0")
    yield from _times(s)
    yield from _lengths(s)


def _times(s: Settings) -> Iterator[Finding]:
    outer = s.swe.scaffold.wall_clock_s
    for key in ("swe.policy.call_timeout_s", "swe.scaffold.command_timeout_s"):
        fix = f"must not exceed swe.scaffold.wall_clock_s={outer:g}, which holds over the whole rollout"
        yield s.rule(key, s.get(key) <= outer, fix)


def _lengths(s: Settings) -> Iterator[Finding]:
    prompt, response = s.get(f"{ROLLOUT}.prompt_length"), s.get(f"{ROLLOUT}.response_length")
    window = prompt + response
    parts = f"data.max_prompt_length + data.max_response_length = {prompt} + {response} = {window}"
    key = f"{ROLLOUT}.max_model_len"
    given = s.get(key)
    yield s.rule(key, given is None or given >= window, f"must be at least {parts}", f"window {given or window}")
    key = "swe.policy.max_turn_tokens"
    yield s.rule(key, s.get(key) <= response, f"must not exceed data.max_response_length={response}; 0: no limit")
    if s.get(f"{ACTOR}.use_dynamic_bsz"):
        key = f"{ACTOR}.ppo_max_token_len_per_gpu"
        shared = _sequence_shards(s)
        fix = f"times {shared} GPUs per sequence must be at least {parts}, or a full row fits no micro batch"
        yield s.rule(key, s.get(key) * shared >= window, fix)


def _sequence_shards(s: Settings) -> int:
    """GPUs that share one sequence in the trainer."""
    megatron = s.get(f"{ACTOR}.strategy") == "megatron"
    name = "megatron.context_parallel_size" if megatron else "ulysses_sequence_parallel_size"
    return int(s.get(f"{ACTOR}.{name}") or 1)
