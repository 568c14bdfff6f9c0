"""GPUs, memory, disk and descriptors against the numbers that were chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swe_plugin.preflight.finding import Finding
from swe_plugin.preflight.machine import LEAST_MEMORY_GIB, memory_gib, open_files
from swe_plugin.preflight.space import room
from swe_plugin.verl_adapter.checks.settings import Settings
from swe_plugin.verl_adapter.demo_model import default_cache

__all__ = ["check_capacity"]

_KV_CACHE = "ray_kwargs.ray_init.runtime_env.env_vars.VLLM_CPU_KVCACHE_SPACE"
_STATE_GIB = 1.0
"""The image of this machine's tools, the demo's model and data, leases; and about as much of records per run."""
_BYTES_PER_WEIGHT_BYTE = 6
"""A checkpoint holds weights and two moments in fp32, 12 bytes for what the model's file has 2 bytes for."""


def check_capacity(s: Settings) -> Iterator[Finding]:
    """What this machine has; a cluster that the run joins is not looked at."""
    if s.joins_cluster:
        yield Finding("capacity", True, "the run joins a Ray cluster, whose machines are not seen from here")
        return
    yield from _gpus(s)
    yield from _memory(s)
    yield open_files(s.rollouts_at_once + s.swe.slots.grading)
    yield room(default_cache(), _STATE_GIB, "SWE_PLUGIN_HOME", str(default_cache()), "images and leases")
    needed, purpose = _output_gib(s)
    yield room(s.output_dir, needed, "swe.output.dir", s.swe.output.dir, purpose)


def _gpus(s: Settings) -> Iterator[Finding]:
    if s.get("trainer.device") == "cpu":
        yield Finding("GPUs", True, "computes on the CPU")
        return
    import torch

    key = "trainer.nnodes"
    cluster = "this process sees one machine: start Ray on all of them and set ray_kwargs.ray_init.address=auto"
    yield s.rule(key, s.get(key) == 1, f"{cluster} (or RAY_ADDRESS)")
    key = "trainer.n_gpus_per_node"
    count = torch.cuda.device_count()
    fix = f"this machine has {count} GPUs that PyTorch sees; lower it, or take a recipe for the CPU (swe_device=cpu)"
    yield s.rule(key, s.get(key) <= count, fix, f"{count} GPUs")


def _memory(s: Settings) -> Iterator[Finding]:
    total = memory_gib()
    key = "swe.environment.memory_mib"
    limit_gib = s.get(key) / 1024
    fix = f"one environment may not have more than this machine's {total * 1024:.0f} MiB"
    yield s.rule(key, limit_gib <= total, fix)
    running = s.rollouts_at_once
    worst = limit_gib * (running + s.swe.slots.grading)
    yield Finding("memory", True, f"{running} environments at once may use {worst:.0f} GiB of {total:.0f}")
    if s.get("trainer.device") == "cpu":
        cache = float(s.get(_KV_CACHE) or 0)
        needed = LEAST_MEMORY_GIB + cache
        fix = f"with it a run needs {needed:g} GiB and this machine has {total:.1f}; lower it, or give it more memory"
        yield s.rule(_KV_CACHE, needed <= total, fix)


def _output_gib(s: Settings) -> tuple[float, str]:
    """Room for records, and for one checkpoint where checkpoints are written and the weights lie on this disk."""
    every = s.get("trainer.save_freq") or -1
    model = Path(str(s.get("actor_rollout_ref.model.path") or "")).expanduser()
    if every > 0 and model.is_dir():
        weights = sum(path.stat().st_size for path in model.glob("*.safetensors")) / 2**30
        return _STATE_GIB + weights * _BYTES_PER_WEIGHT_BYTE, f"one checkpoint (trainer.save_freq={every}) and records"
    return _STATE_GIB, "the records of rollouts"
