"""`SweAgentLoopManager`: spreads prompts over our workers and replaces workers that die."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import transfer_queue as tq
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tensordict import TensorDict
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ

from swe_plugin.config import load_config
from swe_plugin.errors import TooManyFailures
from swe_plugin.types import StopReason
from swe_plugin.verl_adapter import events
from swe_plugin.verl_adapter.dataset import SweDataset
from swe_plugin.verl_adapter.members import crashed_member
from swe_plugin.verl_adapter.overlap.look_ahead import LookAhead
from swe_plugin.verl_adapter.overlap.plan import WarmPlan
from swe_plugin.verl_adapter.queue_guard import guard_queue
from swe_plugin.verl_adapter.watchdog import Watchdog
from swe_plugin.verl_adapter.worker import SweAgentLoopWorker

__all__ = ["NODE_RESOURCE", "SweAgentLoopManager"]

logger = logging.getLogger(__name__)

NODE_RESOURCE = "swe_environments"
"""Ray resource that marks nodes for workers and their environments. With ``--num-cpus=0`` such a node gets nothing
else: verl's own processes, without which there is no run, all ask for a CPU."""

_RESCUE_TIMEOUT_S = 60.0
_RESPAWN_TIMEOUT_S = 600.0
"""Ray starts a worker only where there is room for it; without any, the run would wait forever."""
_DEATHS_IN_A_ROW = 3
"""Deaths of one worker without a finished prompt in between that end the run."""


@dataclass(slots=True, eq=False)
class _Dispatched:
    """A prompt that was given to a worker, kept as a batch of one so that it can be given to another. Compared by
    identity: a batch has no truth value."""

    position: int
    partition: str
    row: TensorDict
    attempts: int = 1


class SweAgentLoopManager(AgentLoopManagerTQ):  # type: ignore[misc]
    """verl's manager with workers of our class, under a watchdog.

    A worker that dies takes its rollouts with it. It is replaced and its prompts run once more, in the same
    step and therefore with the same weights; a prompt that has used up ``swe.failure.max_attempts`` is marked
    ``failure`` in training, so that verl replaces or drops its group, and gets rows that count as 0 in
    validation.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(SweAgentLoopWorker)
        swe = load_config(self.config.swe)
        events.write_to(Path(swe.output.dir) / (swe.output.run or "run"))
        self._failure = swe.failure
        dataset = SweDataset.training
        self._look_ahead = None if dataset is None else LookAhead(self.config, dataset)
        self._overlap = swe.overlap != "off"
        assert self._look_ahead or not self._overlap, "the trainer makes its dataset before this"
        self._warm = WarmPlan(self.rollout_config.agent.num_workers)
        self._dispatched: dict[str, _Dispatched] = {}
        self._deaths: Counter[int] = Counter()
        self._pinned_to: dict[int, str] = {}
        self._watchdog = Watchdog(self._failure.watchdog_s, self._on_deaths)
        guard_queue()

    async def _init_agent_loop_workers(self) -> None:
        """Start the workers and wait until each has answered, so that a broken one ends the run here with its
        own error instead of looking like a failed rollout later."""
        self.agent_loop_workers = [self._spawn(i) for i in range(self.rollout_config.agent.num_workers)]
        await asyncio.gather(*[worker.ping.remote() for worker in self.agent_loop_workers])
        for position, worker in enumerate(self.agent_loop_workers):
            self._watchdog.watch(position, worker)
        if self._look_ahead is not None:
            await self._warm_images(self._look_ahead)

    async def _warm_images(self, look_ahead: LookAhead) -> None:
        """Have each node build the images of its part of the first batch, so that no start runs out of time over it."""
        nodes = await asyncio.gather(*[worker.node.remote() for worker in self.agent_loop_workers])
        tasks: dict[str, list[str]] = {}
        for position, rows in WarmPlan(len(nodes)).extend(look_ahead.first()).items():
            tasks.setdefault(nodes[position], []).extend(look_ahead.wanted(row)[0] for row in rows)
        calls = [self.agent_loop_workers[nodes.index(node)].warm_images.remote(some) for node, some in tasks.items()]
        await asyncio.gather(*calls)

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Give a batch to the workers, contiguous chunks in order, without waiting for its rollouts.

        Fewer prompts than workers (the replacement of a group) go to the workers that have the fewest.
        """
        self._watchdog.check()
        self._forget_ended()
        partition = "val" if "validate" in prompts and bool(prompts["validate"]) else "train"
        positions = list(range(len(self.agent_loop_workers)))
        if len(prompts) < len(positions):
            load = [sum(d.position == p for d in self._dispatched.values()) for p in positions]
            positions.sort(key=lambda p: load[p])
        pieces = [*zip(positions, prompts.chunk(len(positions)), strict=False)]
        rows = [int(row) for row in prompts["index"]] if partition == "train" and self._overlap else []
        if rows and (planned := self._warm.take(rows)) is not None:
            pieces = [(position, prompts[piece]) for position, piece in planned]
        elif rows and self._warm:
            self._cool()  # the order was another one: what was started ahead is nobody's
        calls = []
        for position, chunk in pieces:
            for i, uid in enumerate(chunk["uid"]):
                self._dispatched[str(uid)] = _Dispatched(position, partition, chunk[i : i + 1])
            calls.append(self.agent_loop_workers[position].generate_sequences.remote(chunk))
        _wait_unless_dead(calls)
        events.note("dispatched", partition, int(prompts["global_steps"]))
        if rows:
            self._prewarm(rows, int(prompts["global_steps"]))

    def _prewarm(self, rows: list[int], step: int) -> None:
        """Have the workers start what they will be given next; waits for nothing."""
        assert self._look_ahead is not None
        following = self._look_ahead.after(rows, step)
        if following is None:
            self._cool()
            return
        for position, some in self._warm.extend(following).items():
            self.agent_loop_workers[position].prewarm.remote([self._look_ahead.wanted(row) for row in some])

    def _cool(self) -> None:
        """Have the workers stop what they started ahead."""
        self._warm.clear()
        for worker in self.agent_loop_workers:
            worker.cool.remote()

    def _spawn(self, position: int) -> Any:
        """Start a worker on the node that its position belongs to, or on any other if that one is gone. Once nodes were
        started for workers, no others are used."""
        marked = _living_nodes(NODE_RESOURCE)
        nodes = marked or _living_nodes("CPU")
        room: dict[str, Any] = {"num_cpus": 0, "resources": {NODE_RESOURCE: 1e-3}} if marked else {}
        self._pinned_to[position] = nodes[position % len(nodes)]
        return self.agent_loop_workers_class.options(
            name=f"agent_loop_worker_{position}_{uuid.uuid4().hex[:8]}",
            **room,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=self._pinned_to[position], soft=True),
        ).remote(self.config, self.llm_client, self.teacher_client, self.reward_loop_worker_handles)

    def _on_deaths(self, causes: Mapping[int, str]) -> None:
        self._forget_ended()
        for position, cause in causes.items():
            self._deaths[position] += 1
            if self._deaths[position] >= _DEATHS_IN_A_ROW:
                raise TooManyFailures(f"agent-loop worker {position} died {_DEATHS_IN_A_ROW} times in a row: {cause}")
        workers = {position: self._spawn(position) for position in causes}  # all of a dead node at once
        for position, cause in causes.items():
            self._replace(position, workers[position], cause)

    def _replace(self, position: int, worker: Any, cause: str) -> None:
        while (error := _start_error(worker)) is not None:
            if self._pinned_to[position] in _living_nodes():  # it cannot even start, so the next one could not either
                raise TooManyFailures(
                    f"agent-loop worker {position} died ({cause}) and cannot be replaced: "
                    f"{type(error).__name__}: {error}"
                ) from error
            worker = self._spawn(position)  # Ray had not noticed yet that the whole node was gone
        self.agent_loop_workers[position] = worker
        self._watchdog.watch(position, worker)
        lost = {uid: prompt for uid, prompt in self._dispatched.items() if prompt.position == position}
        _clear_rows(lost.keys())
        again = [prompt for prompt in lost.values() if prompt.attempts < self._failure.max_attempts]
        for prompt in again:
            prompt.attempts += 1
        _wait_unless_dead([worker.generate_sequences.remote(prompt.row) for prompt in again])
        for uid, prompt in lost.items():
            if prompt not in again:
                del self._dispatched[uid]
                self._give_up(uid, prompt, worker, f"agent-loop worker died: {cause}")

    def _give_up(self, uid: str, prompt: _Dispatched, worker: Any, cause: str) -> None:
        if prompt.partition == "val":
            try:
                ray.get(worker.fail_prompt.remote(prompt.row, cause), timeout=_RESCUE_TIMEOUT_S)
            except (ray.exceptions.RayError, TimeoutError):
                logger.exception("no row for a lost validation prompt; verl counts its acc as 0")
            else:
                return
        members = [
            crashed_member(session, cause, stop=StopReason.CANCELLED).to_tag()
            for session in range(self.rollout_config.n)
        ]
        tq.kv_put(key=uid, partition_id=prompt.partition, tag={"status": "failure", "members": members})

    def _forget_ended(self) -> None:
        """Drop prompts from the account that have a terminal status or have left the queue."""
        running = {
            key
            for tags in (tq.kv_list() or {}).values()
            for key, tag in tags.items()
            if tag.get("is_prompt") and tag.get("status") in ("pending", "running")
        }
        for uid in self._dispatched.keys() - running:
            del self._deaths[self._dispatched.pop(uid).position]


def _living_nodes(resource: str = "memory") -> list[str]:
    """Those that have some of it; all have memory."""
    return [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get(resource, 0) > 0]


def _start_error(worker: Any) -> Exception | None:
    try:
        ray.get(worker.ping.remote(), timeout=_RESPAWN_TIMEOUT_S)
    except ray.exceptions.RayError as error:
        return error  # type: ignore[no-any-return]
    return None


def _wait_unless_dead(calls: list[Any]) -> None:
    for call in calls:
        try:
            ray.get(call)
        except ray.exceptions.RayActorError:
            logger.warning("an agent-loop worker died while it was given prompts; the watchdog takes over")


def _clear_rows(uids: Collection[str]) -> None:
    """Remove rows of groups that a dead worker was about to publish."""
    for partition, tags in (tq.kv_list() or {}).items():
        rows = [key for key, tag in tags.items() if not tag.get("is_prompt") and key.partition("_")[0] in uids]
        if rows:
            tq.kv_clear(keys=rows, partition_id=partition)
