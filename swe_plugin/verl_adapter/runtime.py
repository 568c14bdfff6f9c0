"""`Runtime`: what all rollouts of one agent-loop process share, and how one of them is run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_plugin.config import SweConfig, load_config
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.limits import TokenLimits
from swe_plugin.policies.token_policy import TokenPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.tokens.journal import Journal
from swe_plugin.tokens.renderer import Renderer
from swe_plugin.tokens.renderers.build import build_renderer
from swe_plugin.tokens.server import Completion, TokenServer
from swe_plugin.trajectories.journals import attempt_id, journal_path
from swe_plugin.types import RolloutResult, Task

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from swe_plugin.rollout.worker import RolloutWorker

__all__ = ["RolloutRequest", "Runtime", "build_runtime"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """One rollout that verl asked for.

    Attributes:
        task: what to attempt.
        session: index in the group.
        phase: ``train`` or ``val``.
        step: trainer step it is sampled for.
        request_id: of the group and session, unique in the run; tells verl's router which server holds the prefix.
    """

    task: Task
    session: int
    phase: str
    step: int
    request_id: str


class Runtime:
    """One per process: environments, grader, scaffold, renderer and their limits.

    Args:
        config: the ``swe:`` section.
        renderer: of the model's chat template.
        limits: of prompts, answers and rows.
        run_dir: where rollouts are recorded.
    """

    def __init__(self, config: SweConfig, renderer: Renderer, limits: TokenLimits, run_dir: Path) -> None:
        self.config, self.run_dir = config, run_dir
        self._renderer, self._limits = renderer, limits
        self._calls = asyncio.Semaphore(config.policy.concurrency)
        self._newest_version = -1
        self.worker: RolloutWorker = build_rollout_worker(config, load_plugins(), run_dir)

    async def rollout(self, request: RolloutRequest, server: TokenServer) -> RolloutResult:
        """Run one rollout, its retries included.

        Args:
            request: what to run.
            server: what samples, with the sampling settings of this request.

        Returns:
            The result, whose reward is None if there is no row.
        """
        journal = Journal(self._journal_path(request))
        server = _VersionWatch(server, self._saw_version)
        attempts = 0

        def policy() -> TokenPolicy:
            nonlocal attempts
            attempts += 1
            return TokenPolicy(
                self._renderer,
                server,
                self._limits,
                journal=journal,
                semaphore=self._calls,
                max_attempts=self.config.policy.max_attempts,
                call_timeout_s=self.config.policy.call_timeout_s,
                follow_template=self.config.policy.on_rewrite == "segment",
                request_id=attempt_id(request.request_id, attempts),
            )

        try:
            return await self.worker.run(
                request.task,
                request.session,
                policy,
                step=request.step,
                phase=request.phase,
                may_retry=partial(self._same_weights, request),
            )
        finally:
            await _flush(journal)

    async def close(self) -> None:
        """Cancel running rollouts and wait until their environments are gone."""
        await self.worker.close()

    def _saw_version(self, version: int) -> None:
        self._newest_version = max(self._newest_version, version)

    def _same_weights(self, request: RolloutRequest) -> bool:
        """No answer in this process came from weights newer than those that `request` was made for: version
        s - 1 in training step s, version s in the validation after it (verl 0.9.1, all trainer modes)."""
        version = request.step if request.phase == "val" else max(request.step - 1, 0)
        return self._newest_version <= version

    def _journal_path(self, request: RolloutRequest) -> Path | None:
        if not self.config.output.trajectories:
            return None
        return journal_path(
            self.run_dir, request.step, request.phase, request.task.instance_id, request.session, request.request_id
        )


@dataclass(frozen=True, slots=True)
class _VersionWatch:
    """A server that tells the weight version of each of its answers."""

    server: TokenServer
    saw: Callable[[int], None]

    async def generate(self, request_id: str, prompt_ids: Sequence[int], *, max_tokens: int) -> Completion:
        completion = await self.server.generate(request_id, prompt_ids, max_tokens=max_tokens)
        self.saw(completion.max_version)
        return completion


async def _flush(journal: Journal) -> None:
    if journal.is_written:
        return
    try:
        await asyncio.to_thread(journal.flush)
    except OSError:  # a full disk must not cost the rollout; what is missing, the audit reports
        logger.exception("a journal could not be written")


def build_runtime(config: DictConfig, tokenizer: Any, *, stop_ids: Iterable[int]) -> Runtime:
    """The runtime of one agent-loop process.

    Args:
        config: verl's whole configuration.
        tokenizer: the model's.
        stop_ids: ids at which the server stops by itself, beside the template's (the generation configuration's).

    Raises:
        ConfigError: a setting or the chat template is wrong.
        PluginError: a named backend, scaffold, grader or renderer cannot be imported.
    """
    swe = load_config(config.swe)
    rollout = config.actor_rollout_ref.rollout
    limits = TokenLimits(
        max_model_len=rollout.max_model_len or rollout.prompt_length + rollout.response_length,
        max_prompt_tokens=rollout.prompt_length,
        max_response_tokens=rollout.response_length,
        max_turn_tokens=swe.policy.max_turn_tokens,
    )
    renderer = build_renderer(
        swe,
        load_plugins(),
        tokenizer,
        stop_ids=stop_ids,
        template_kwargs=dict(config.data.get("apply_chat_template_kwargs") or {}),
    )
    return Runtime(swe, renderer, limits, Path(swe.output.dir) / (swe.output.run or "run"))
