"""Entry point of group ``vllm.general_plugins``: lets vLLM's CPU backend take new weights.

vLLM packs every linear layer for the CPU at load time and throws the weight away
(``vllm/model_executor/layers/utils.py``, ``dispatch_cpu_unquantized_gemm``), so verl's weight updates would
find nothing to write into. Our layers keep their weight and compute with ``torch.nn.functional.linear``.

Like the bootstrap, this module is imported by every process that uses vLLM: standard library only, and
nothing happens unless the run is ours and on the CPU.
"""

from __future__ import annotations

import os
from typing import Any

from swe_plugin.verl_adapter.bootstrap import DEVICE_VARIABLE

__all__ = ["register"]


def register() -> None:
    """Called by vLLM in each of its processes, possibly more than once."""
    if os.environ.get(DEVICE_VARIABLE) != "cpu":
        return
    from swe_plugin.verl_adapter.cpu.imports import when_imported

    when_imported("vllm.model_executor.layers.utils", _keep_weights)


def _keep_weights(module: Any) -> None:
    import torch

    packed = module.dispatch_cpu_unquantized_gemm

    def keep_weight(layer: torch.nn.Module, remove_weight: bool) -> None:
        if layer.weight.is_meta or layer.weight.ndim != 2:
            packed(layer, remove_weight)
        else:
            layer.cpu_linear = torch.nn.functional.linear

    module.dispatch_cpu_unquantized_gemm = keep_weight
