"""`SweAgentLoop`: the agent loop that verl knows as ``swe``."""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, DictConfigWrap, register

from swe_plugin.errors import ConfigError
from swe_plugin.types import Task
from swe_plugin.verl_adapter.rows import MemberOutputs, RowLimits, rollout_outputs
from swe_plugin.verl_adapter.runtime import RolloutRequest, Runtime
from swe_plugin.verl_adapter.token_server import VerlTokenServer

__all__ = ["NAME", "PHASE", "RUNTIME", "SweAgentLoop"]

NAME = "swe"
"""Value of ``actor_rollout_ref.rollout.agent.default_agent_loop``, or of a dataset's ``agent_name`` column."""

PHASE = "swe_phase"
"""Argument by which `SweAgentLoopWorker` tells ``train`` from ``val``."""

RUNTIME = "swe_runtime"
"""Argument by which `SweAgentLoopWorker` hands over the process's `Runtime`."""


@register(NAME)
class SweAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """One per rollout. Everything heavy (environments, grader, scaffold) belongs to the process's runtime.

    verl's constructor is not called: it builds a token builder of verl's for each rollout, which nothing here
    uses and which warns about every model that it does not know.

    Args:
        trainer_config: verl's configuration, wrapped.
        server_manager: verl's client to its inference servers.
        **_: what else verl hands to every agent loop.
    """

    def __init__(self, trainer_config: DictConfigWrap, server_manager: Any, **_: Any) -> None:
        self.rollout_config = trainer_config.config.actor_rollout_ref.rollout
        self.server_manager = server_manager

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> MemberOutputs:
        """Run one rollout.

        Args:
            sampling_params: temperature and the like, as verl gives them.
            **kwargs: columns of the dataset row, of which ``task`` (`Task.to_json`) and ``global_steps`` are
                needed, and `PHASE`, `RUNTIME`, ``session_id`` and ``uid``.

        Returns:
            One output per segment; none if the rollout has no row.

        Raises:
            ConfigError: the worker is not ours.
            ValueError: the row has no valid task.
            TokenStreamError: a recorded stream breaks a rule.
        """
        runtime: Runtime | None = kwargs.get(RUNTIME)
        if runtime is None:
            raise ConfigError(
                "actor_rollout_ref.rollout.agent.agent_loop_manager_class", None, "start from +plugin=swe"
            )
        step, session = int(kwargs["global_steps"]), int(kwargs["session_id"])
        request = RolloutRequest(
            task=Task.from_json(kwargs["task"]),
            session=session,
            phase=str(kwargs[PHASE]),
            step=step,
            request_id=f"{kwargs['uid']}_{session}",
        )
        server = VerlTokenServer(self.server_manager, sampling_params, seed=_seed(request, runtime.config.policy.seed))
        result = await runtime.rollout(request, server)
        limits = RowLimits(self.rollout_config.prompt_length, self.rollout_config.response_length)
        return rollout_outputs(result, limits, version=max(step - 1, 0), in_use=runtime.worker.pool.in_use)


def _seed(request: RolloutRequest, seed: int) -> str | None:
    if seed < 0:
        return None
    return f"{seed} {request.phase} {request.step} {request.task.instance_id} {request.session}"
