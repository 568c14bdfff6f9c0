"""The CPU as a platform of verl, through verl's own registry (``verl/plugin/platform/platform_manager.py``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry, platform_manager

from swe_plugin.verl_adapter.cpu.device import CpuIndex, cpu_module

__all__ = ["CpuPlatform", "install", "needed"]

_MODULE = cpu_module()


class CpuPlatform(PlatformBase):  # type: ignore[misc]  # verl is not typed
    """One CPU "device" per node."""

    @property
    def device_name(self) -> str:
        """Type of tensors."""
        return "cpu"

    @property
    def vendor_name(self) -> str:
        """Vendor, for verl's engine registry."""
        return "cpu"

    @property
    def device_module(self) -> ModuleType:
        """Stand-in for ``torch.cuda``."""
        return _MODULE

    def is_available(self) -> bool:
        """Always."""
        return True

    def current_device(self) -> int:
        """Index 0 in a form that tensors accept."""
        return CpuIndex()  # type: ignore[return-value]

    def device_count(self) -> int:
        """One."""
        return 1

    def set_device(self, device_index: int) -> None:
        """Nothing to choose."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs in the background."""

    def manual_seed(self, seed: int) -> None:
        """Seed PyTorch."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed PyTorch."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The CPU allocator has none."""

    def empty_cache(self) -> None:
        """The CPU allocator has none."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        """No compute capability."""
        return None, None

    def communication_backend_name(self) -> str:
        """Collectives over TCP."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Ray hides the devices that we claim to have behind this variable; nobody reads it here."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """No profiler ranges."""
        yield

    def profiler_start(self) -> None:
        """No device profiler."""

    def profiler_stop(self) -> None:
        """No device profiler."""

    def ray_resource_name(self) -> str:
        """Resource that stands for one training process.

        verl counts only ``GPU`` and ``NPU`` (``single_controller/ray/base.py``,
        ``ResourcePoolManager._check_resource_available``), so the recipe tells Ray of one GPU that is not there.
        """
        return "GPU"

    def rollout_env_vars(self) -> dict[str, str]:
        """For inference servers: one thread, as a second one costs a tiny model more than it brings."""
        return {**super().rollout_env_vars(), "OMP_NUM_THREADS": "1"}

    def ray_noset_envvars(self) -> list[str]:
        """Nothing to keep Ray from setting."""
        return []

    def is_ipc_supported(self) -> bool:
        """Weights go to vLLM through shared memory."""
        return False

    def cudart(self) -> Any:
        """No CUDA."""
        return None


def needed() -> bool:
    """Whether verl itself has no CPU platform."""
    return PlatformRegistry.get("cpu") in (None, CpuPlatform)


def install() -> None:
    """Register the platform and choose it, also for verl's FSDP engine.

    verl registers its FSDP engine for CUDA and NPU (``workers/engine/fsdp/transformer_impl.py``); its own
    variable VERL_ENGINE_DEVICE (``workers/engine/base.py``) selects it on other devices.
    """
    PlatformRegistry.register("cpu")(CpuPlatform)
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    if platform_manager._current_platform is not None:
        # verl was imported before the run was known to be ours; its setter would only add a warning.
        platform_manager._current_platform = CpuPlatform()
