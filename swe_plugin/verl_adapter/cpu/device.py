"""The CPU in the shape that verl expects of a device: an index, and a module like ``torch.cuda``."""

from __future__ import annotations

import contextlib
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import torch

__all__ = ["CpuIndex", "cpu_module"]


class CpuIndex(str):
    """Device index 0 of the CPU.

    verl uses an index in two ways: ``tensor.to(index)``, for which an integer would mean an accelerator, and
    ``f"{name}:{index}"``. This is the string ``cpu`` that prints as ``0``.
    """

    __slots__ = ()

    def __new__(cls) -> CpuIndex:
        """The one index."""
        return super().__new__(cls, "cpu")

    def __format__(self, _: str) -> str:
        return "0"

    def __str__(self) -> str:
        return "0"

    def __index__(self) -> int:
        return 0

    __int__ = __index__


def _resident_bytes(*_: Any) -> int:
    return int(psutil.Process().memory_info().rss)


def _nothing(*_: Any, **__: Any) -> None:
    return None


def cpu_module() -> ModuleType:
    """A module with the functions of ``torch.cuda`` that verl calls, meaning what they mean on a CPU."""
    module = ModuleType("swe_plugin.verl_adapter.cpu.torch_cpu")
    memory = psutil.virtual_memory
    module.__dict__.update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        current_device=CpuIndex,
        set_device=_nothing,
        synchronize=_nothing,
        empty_cache=_nothing,
        ipc_collect=_nothing,
        set_per_process_memory_fraction=_nothing,
        reset_peak_memory_stats=_nothing,
        memory_allocated=_resident_bytes,
        memory_reserved=_resident_bytes,
        max_memory_allocated=_resident_bytes,
        max_memory_reserved=_resident_bytes,
        mem_get_info=lambda *_: (memory().available, memory().total),
        get_device_name=lambda *_: "cpu",
        get_device_properties=lambda *_: SimpleNamespace(name="cpu", total_memory=memory().total),
        get_rng_state=lambda *_: torch.get_rng_state(),
        set_rng_state=lambda state, *_: torch.set_rng_state(state),
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        current_stream=torch.cpu.current_stream,
        Stream=torch.cpu.Stream,
        stream=lambda _: contextlib.nullcontext(),
    )
    return module
