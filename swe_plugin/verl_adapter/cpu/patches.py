"""The lines of verl 0.9 for which no registry or setting exists."""

from __future__ import annotations

import functools
import os
from datetime import timedelta
from typing import Any

from swe_plugin.verl_adapter.cpu.patch import Patch

__all__ = ["PATCHES"]


def _one_backend_per_device(module: Any) -> None:
    module.initialize_global_process_group_ray = functools.partial(
        module.initialize_global_process_group_ray, backend="cpu:gloo"
    )


def _one_backend_without_ray(module: Any) -> None:
    import torch

    def initialize_global_process_group(timeout_second: int = 36000) -> tuple[int, int, int]:
        """Join the process group that the environment describes; returns local rank, rank and size."""
        torch.distributed.init_process_group(
            backend="cpu:gloo",
            timeout=timedelta(seconds=timeout_second),
            init_method=os.environ.get("DIST_INIT_METHOD"),
        )
        local_rank, rank, size = (int(os.environ[name]) for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE"))
        return local_rank, rank, size

    module.initialize_global_process_group = initialize_global_process_group


def _no_pinned_memory(module: Any) -> None:
    module.CPUOffloadPolicy = functools.partial(_unpinned, module.CPUOffloadPolicy)


def _unpinned(policy: type, *, pin_memory: bool = False) -> object:
    return policy(pin_memory=False)


def _configured_attention(module: Any) -> None:
    from transformers import AutoModelForTokenClassification

    def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        """Load a critic: the model's body with a head of one output per token, attention as configured."""
        return AutoModelForTokenClassification.from_pretrained(
            local_path, torch_dtype=torch_dtype, config=model_config, trust_remote_code=trust_remote_code
        )

    module.load_valuehead_model = load_valuehead_model


def _one_logsumexp(module: Any) -> None:
    import torch

    def logprobs_from_logits_v2(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of `labels` (..., T) under `logits` (..., T, vocabulary), in one operation."""
        return -torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), reduction="none"
        ).view(labels.shape)

    module.logprobs_from_logits_v2 = logprobs_from_logits_v2


PATCHES = (
    Patch(
        module="verl.utils.distributed",
        line='backend = backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"',
        why="the process group string becomes cpu:gloo,cpu:gloo, which PyTorch refuses",
        apply=_one_backend_per_device,
    ),
    Patch(
        module="verl.utils.distributed",
        line='    backend = f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"',
        why="the same in the SFT trainer, which runs without Ray",
        apply=_one_backend_without_ray,
    ),
    Patch(
        module="verl.workers.engine.fsdp.transformer_impl",
        line="offload_policy = CPUOffloadPolicy(pin_memory=True)",
        why="the reference model pins memory, which needs an accelerator",
        apply=_no_pinned_memory,
    ),
    Patch(
        module="verl.utils.model",
        line="""        model = AutoModelForTokenClassification.from_pretrained(
            pretrained_model_name_or_path=local_path,
            torch_dtype=torch_dtype,
            config=model_config,
            attn_implementation="flash_attention_2",""",
        why="the critic insists on FlashAttention, whatever override_config.attn_implementation says",
        apply=_configured_attention,
    ),
    Patch(
        module="verl.utils.torch_functional",
        line="logsumexp_values = torch.stack([torch.logsumexp(logit, dim=-1) for logit in logits])",
        why="one logsumexp per token: the update of a tiny model takes twice as long",
        apply=_one_logsumexp,
    ),
)
"""All replacements; `swe_plugin.verl_adapter.cpu.activate` arranges them."""
