"""`GlooCheckpointEngine`: weights of the trainer to inference servers of their own, on CPUs (``separate_async``).

verl's engines for that (``verl/checkpoint_engine``) want NCCL, HCCL or RDMA.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Any

import ray
import torch
from torch.distributed import PrefixStore, ProcessGroupGloo, TCPStore
from verl.checkpoint_engine.base import CheckpointEngine

__all__ = ["GlooCheckpointEngine"]

_TIMEOUT = timedelta(minutes=10)
_LISTING = "tensors"


class GlooCheckpointEngine(CheckpointEngine):  # type: ignore[misc]
    """Registered as ``gloo``. Rank 0 of the trainer broadcasts one tensor after the other.

    Args:
        bucket_size: of verl's interface; tensors are not put together here.
        is_master: this is rank 0 of the trainer.
    """

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self._is_master = is_master
        self._store: TCPStore | None = None
        self._group: ProcessGroupGloo | None = None

    def prepare(self) -> dict[str, Any]:
        """Open the meeting point; its address on rank 0 of the trainer, nothing elsewhere."""
        if not self._is_master:
            return {}
        host = ray.util.get_node_ip_address()
        self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=_TIMEOUT)
        return {"host": host, "port": self._store.port}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Rank 0 of the trainer is 0, servers follow; other ranks of the trainer (-1) take no part."""
        ranks = [0] + [-1] * (actor_wg_world_size - 1)

        def everywhere(ranks: list[int]) -> dict[str, list[Any]]:
            same = {**metadata[0], "size": 1 + rollout_world_size}
            return {"rank": ranks, **{key: [value] * len(ranks) for key, value in same.items()}}

        return everywhere(ranks), everywhere(list(range(1, 1 + rollout_world_size)))

    def init_process_group(self, rank: int, size: int, host: str, port: int) -> None:
        """Meet the others. Blocking."""
        if rank < 0:
            return
        if self._store is None:
            self._store = TCPStore(host, port, is_master=False, timeout=_TIMEOUT)
        self._group = ProcessGroupGloo(PrefixStore("group", self._store), rank, size, _TIMEOUT)

    def finalize(self) -> None:
        """Part."""
        self._group = self._store = None

    async def send_weights(self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None) -> None:
        """Send all of them; every rank of the trainer has to take part in gathering each."""
        tensors = [(name, tensor.detach().cpu().contiguous()) for name, tensor in weights]
        if self._group is None or self._store is None:
            return
        listing = [(name, list(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for name, tensor in tensors]
        self._store.set(_LISTING, json.dumps(listing))
        for _, tensor in tensors:
            await self._broadcast(tensor)

    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """Names and tensors, as they come."""
        assert self._store is not None, "init_process_group comes first"
        for name, shape, dtype in json.loads(await asyncio.to_thread(self._store.get, _LISTING)):
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            await self._broadcast(tensor)
            yield name, tensor

    async def _broadcast(self, tensor: torch.Tensor) -> None:
        assert self._group is not None, "init_process_group comes first"
        as_bytes = tensor.view(-1).view(torch.uint8)  # gloo does not know every dtype
        await asyncio.to_thread(self._group.broadcast(as_bytes, root=0).wait)
