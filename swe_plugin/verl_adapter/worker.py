"""`SweAgentLoopWorker`: verl's worker with the group rule instead of "one failure fails the group"."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import ray
import transfer_queue as tq
from tensordict import NonTensorData, NonTensorStack, TensorDict
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ, apply_greedy_sampling_params
from verl.utils.rollout_trace import rollout_trace_attr

from swe_plugin.config import load_config
from swe_plugin.tokens.renderers.build import stop_ids_of
from swe_plugin.types import StopReason, Task
from swe_plugin.verl_adapter import agent_loop
from swe_plugin.verl_adapter.groups import RunningGroup, required_survivors
from swe_plugin.verl_adapter.members import Member, crashed_member
from swe_plugin.verl_adapter.rows import MemberOutputs, failed_row
from swe_plugin.verl_adapter.runtime import build_runtime
from swe_plugin.verl_adapter.token_server import attempt_recording

__all__ = ["SweAgentLoopWorker"]

logger = logging.getLogger(__name__)

_WorkerBase: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class
"""`AgentLoopWorkerTQ` is a Ray actor class; this is the class below it."""

_NOT_STORED = ("task", "agent_name", agent_loop.PHASE, agent_loop.RUNTIME)
"""Columns that no row keeps: the task holds the hidden tests and would be stored once per rollout, and verl gives
the name of the agent loop to none but crashed rollouts, whose rows would differ from the others."""
_TOGETHER_S = 0.1


class SweAgentLoopWorker(_WorkerBase):  # type: ignore[misc]
    """Runs the rollouts of its prompts and publishes what the group rule leaves of each group.

    Rows are held back until all members of a group have ended. In training, members that failed have no row,
    and a group with too few survivors has none at all and ends as ``failure``. In validation every member
    has a row; that of a failed one counts as 0. Each member's end is told at once, or nearly so, on
    the tag of the group.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.llm_client: Any = attempt_recording(self.llm_client)
        self._required = required_survivors(
            self.config.algorithm.adv_estimator,
            min_survivors=load_config(self.config.swe).failure.min_survivors,
        )
        self._groups: dict[str, RunningGroup] = {}
        self.runtime = build_runtime(
            self.config, self.tokenizer, stop_ids=stop_ids_of(self.model_config.generation_config)
        )
        gc.collect()
        gc.freeze()  # torch and verl are 350,000 objects: each full collection would hold the event loop for 0.3 s

    async def ping(self) -> None:
        """Answer, to show that the event loop runs."""

    async def lifetime(self) -> None:
        """Never return: Ray ends the call with an error when this process is gone."""
        await asyncio.Event().wait()

    async def node(self) -> str:
        """Ray's id of the machine it runs on."""
        return str(ray.get_runtime_context().get_node_id())

    async def warm_images(self, tasks: Sequence[str]) -> None:
        """Build what is missing on this node; returns when it is there.

        Args:
            tasks: as JSON.
        """
        await self.runtime.worker.warm_images(map(Task.from_json, tasks))

    async def prewarm(self, wanted: Sequence[tuple[str, int]]) -> None:
        """Begin to start the environments of rollouts that will come here; returns at once.

        Args:
            wanted: tasks as JSON, and how many rollouts of each.
        """
        self.runtime.worker.prewarm((Task.from_json(task), rollouts) for task, rollouts in wanted)

    async def cool(self) -> None:
        """Stop what was started ahead of time."""
        await self.runtime.worker.pool.cool()

    async def fail_prompt(self, row: TensorDict, cause: str) -> None:
        """Publish a group of which nobody could run (`row`: a batch of one prompt)."""
        prompt = _row_values(row)
        group = self._open(prompt, bool(prompt.pop("validate", False)))
        try:
            for session in range(group.size):
                await self._add_failed(group, crashed_member(session, cause, stop=StopReason.CANCELLED), prompt)
            await group.settle()
            await self._close(group)
        finally:
            del self._groups[group.uid]

    async def _run_prompt(
        self, prompt: dict[str, Any], sampling_params: dict[str, Any], trajectory: dict[str, Any], trace: bool = False
    ) -> None:
        """Run all members of one group and publish the group."""
        group = self._open(prompt, bool(trajectory["validate"]))
        params = dict(sampling_params)
        if not prompt.pop("__do_sample__", True) and not group.validate:
            apply_greedy_sampling_params(params)
        try:
            tag = {"status": "running", "index": _index(prompt), "members": []}
            await tq.async_kv_put(key=group.uid, partition_id=group.partition, tag=tag)
            members = [
                self._run_member(group, session, params, trajectory, trace, prompt) for session in range(group.size)
            ]
            errors = await asyncio.gather(*members, return_exceptions=True)
            await group.settle()
            for error in errors:
                if error is not None:  # not the rollout but its account: the queue does not answer
                    raise error
            await self._close(group)
        except Exception:
            logger.exception("group %s could not be published", group.uid)
            await self._end(group, "failure")
        finally:
            del self._groups[group.uid]

    async def _run_member(
        self,
        group: RunningGroup,
        session: int,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        trace: bool,
        prompt: dict[str, Any],
    ) -> None:
        """One rollout; whatever it raises stays its own failure."""
        ours = {agent_loop.PHASE: group.partition, agent_loop.RUNTIME: self.runtime}
        arguments = {**prompt, **ours, "session_id": session}
        try:
            await self._run_agent_loop(sampling_params, trajectory=trajectory, trace=trace, **arguments)
        except (Exception, asyncio.CancelledError) as error:  # cancelled: the group has to end all the same
            logger.exception("rollout %d of group %s raised", session, group.uid)
            stop = StopReason.CANCELLED if isinstance(error, asyncio.CancelledError) else StopReason.SCAFFOLD_ERROR
            member = crashed_member(session, f"{type(error).__name__}: {error}", stop=stop)
            await self._add_failed(group, member, arguments)

    async def _run_agent_loop(
        self, sampling_params: dict[str, Any], trajectory: dict[str, Any], *, agent_name: str, trace: bool, **row: Any
    ) -> None:
        """Our own agent loop is made without Hydra, whose merge of the whole configuration costs more than a turn."""
        if agent_name != agent_loop.NAME:
            await super()._run_agent_loop(sampling_params, trajectory, agent_name=agent_name, trace=trace, **row)
            return
        with rollout_trace_attr(**trajectory, name="agent_loop", trace=trace):
            loop = agent_loop.SweAgentLoop(DictConfigWrap(self.config), self.llm_client)
            output = await loop.run(sampling_params, **row)
            await self._agent_loop_postprocess(output, trajectory["validate"], **row)

    async def _agent_loop_postprocess(
        self, output: AgentLoopOutput | list[AgentLoopOutput], validate: bool, **kwargs: Any
    ) -> None:
        """Hold the rows of one member back (verl calls this when the agent loop has returned)."""
        group, session = self._groups[kwargs["uid"]], kwargs["session_id"]
        outputs: Sequence[AgentLoopOutput] = output if isinstance(output, list) else [output]
        member = outputs.member if isinstance(outputs, MemberOutputs) else _foreign_member(session, outputs)
        if member.failed:
            await self._add_failed(group, member, kwargs)
        else:
            await self._add(group, member, outputs, kwargs)

    async def _add_failed(self, group: RunningGroup, member: Member, arguments: Mapping[str, Any]) -> None:
        rows: list[AgentLoopOutput] = []
        if group.validate:
            version = max(int(arguments["global_steps"]) - 1, 0)
            rows = [failed_row(self._end_id, version=version)]
        await self._add(group, member, rows, {**arguments, "session_id": member.session})

    async def _add(
        self, group: RunningGroup, member: Member, rows: Sequence[AgentLoopOutput], arguments: Mapping[str, Any]
    ) -> None:
        stored = {key: value for key, value in arguments.items() if key not in _NOT_STORED}
        group.outputs[member.session] = (rows, stored)
        group.members[member.session] = member
        if len(group.members) == group.size:
            group.complete.set()  # the end of the group will say it
        elif group.telling is None or group.telling.done():
            group.telling = asyncio.create_task(self._tell(group))

    async def _tell(self, group: RunningGroup) -> None:
        """Put the members that have ended on the tag of their group; who ends at the same time is told together."""
        told = 0
        while told < len(group.members) and not await group.is_complete_within(_TOGETHER_S):
            tags = group.member_tags()
            try:
                await tq.async_kv_put(key=group.uid, partition_id=group.partition, tag={"members": tags})
            except Exception:  # the end of the group says it all once more
                logger.exception("the queue was not told how far group %s is", group.uid)
            told = len(tags)

    async def _close(self, group: RunningGroup) -> None:
        """Publish the rows that the rule leaves, then the status that makes verl look at them."""
        required = 1 if group.validate else self._required
        published: list[str] = []
        if len(group.survivors) >= required:
            published = await self._publish(group)
        if len(group.survivors) >= required:
            await self._end(group, "finished")
            return
        if published:
            await tq.async_kv_clear(keys=published, partition_id=group.partition)
        logger.warning("group %s is dropped: %d of %d rollouts survived", group.uid, len(group.survivors), group.size)
        await self._end(group, "failure")

    async def _publish(self, group: RunningGroup) -> list[str]:
        """Put all rows into the queue; a member whose rows are refused has failed. Returns the keys put."""
        keys: list[str] = []
        for session in group.survivors:
            rows, arguments = group.outputs[session]
            own = [f"{group.uid}_{session}_{i}" for i in range(len(rows))]
            try:
                await super()._agent_loop_postprocess(list(rows), group.validate, **arguments)
            except Exception as error:
                logger.exception("rows of rollout %d of group %s were refused", session, group.uid)
                group.fail(crashed_member(session, f"{type(error).__name__}: {error}"))
                await tq.async_kv_clear(keys=own, partition_id=group.partition)  # keys exist before their data
            else:
                keys += own
        return keys

    async def _end(self, group: RunningGroup, status: str) -> None:
        tag = {"status": status, "members": group.member_tags()}
        await tq.async_kv_put(key=group.uid, partition_id=group.partition, tag=tag)

    def _open(self, prompt: dict[str, Any], validate: bool) -> RunningGroup:
        rollout = self.config.actor_rollout_ref.rollout
        size = prompt.pop("__rollout_n__", rollout.val_kwargs.n if validate else rollout.n)
        group = RunningGroup(prompt["uid"], "val" if validate else "train", int(size))
        self._groups[group.uid] = group
        return group

    @property
    def _end_id(self) -> int:
        end = self.tokenizer.eos_token_id
        return int(end if end is not None else self.tokenizer.pad_token_id or 0)


def _foreign_member(session: int, outputs: Sequence[AgentLoopOutput]) -> Member:
    """The record of a rollout of somebody else's agent loop, of which only the rows are known."""
    if not outputs:
        return crashed_member(session, "the agent loop returned no row", stop=StopReason.STOPPED)
    sampled = sum(sum(output.response_mask) for output in outputs)
    total = sum(len(output.prompt_ids) + len(output.response_ids) for output in outputs)
    return Member(
        session=session,
        stop=str(StopReason.STOPPED),
        segments=len(outputs),
        sampled_tokens=sampled,
        context_tokens=total - sampled,
    )


def _index(prompt: Mapping[str, Any]) -> int:
    try:
        return int(prompt.get("index", 0))
    except (TypeError, ValueError):
        return 0


def _row_values(row: TensorDict) -> dict[str, Any]:
    """The columns of a batch of one, taken apart as verl's worker does it."""
    values: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, NonTensorStack):
            values[key] = value[0].data
        elif isinstance(value, NonTensorData):
            values[key] = value.data
        else:
            values[key] = value[0]
    return values
