"""`MiniEnvironment`: one of our environments as mini-swe-agent's threads see it."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from minisweagent.exceptions import Submitted

from swe_plugin.types import ExecResult

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.scaffolds.base import Episode

__all__ = ["MiniEnvironment"]

_SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_RUN = 'exec 2>&1\neval "$1"'


class _Config(dict[str, Any]):
    """Looks enough like a pydantic model."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return dict(self)


class MiniEnvironment:
    """Satisfies mini-swe-agent's ``Environment`` protocol; called from its agent's thread.

    Args:
        environment: where commands run, each in a new bash.
        episode: gets each command and its result, with the turn of the answer that asked for it.
        env: variables of each command.
        timeout_s: of each command.
    """

    def __init__(self, environment: Environment, episode: Episode, *, env: Mapping[str, str], timeout_s: float) -> None:
        self.config = _Config(cwd=environment.spec.image.workdir, env=dict(env), timeout=int(timeout_s))
        self._environment, self._episode = environment, episode
        self._env, self._timeout_s = env, timeout_s
        self._loop = asyncio.get_running_loop()
        self._running: Future[ExecResult] | None = None
        self._over = False

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        """Run one command.

        Raises:
            Submitted: it is the command that hands in.
            EnvironmentUnavailable: the environment is dead.
            RuntimeError: the rollout is over.
        """
        if self._over:
            raise RuntimeError("the rollout is over")
        self._running = asyncio.run_coroutine_threadsafe(self._execute(str(action.get("command", "")), cwd), self._loop)
        result = self._running.result()
        limit = f"An error occurred while executing the command: it took more than {self._timeout_s:g} seconds"
        first, _, rest = result.stdout.lstrip().partition("\n")
        if first.strip() == _SUBMIT and result.exit_code == 0:
            extra = {"exit_status": "Submitted", "submission": rest}
            raise Submitted({"role": "exit", "content": rest, "extra": extra})
        return {
            "output": result.stdout + result.stderr,
            "returncode": result.exit_code,
            "exception_info": limit if result.timed_out else "",
        }

    def stop(self) -> None:
        """End the command that runs, and refuse others."""
        self._over = True
        if self._running is not None:
            self._running.cancel()

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """What templates may say of where commands run; nothing of this process's variables."""
        uname = platform.uname()._asdict()
        return {**self.config, **{k: uname[k] for k in ("system", "release", "version", "machine")}, **kwargs}

    def serialize(self) -> dict[str, Any]:
        """For mini-swe-agent's own record."""
        return {"info": {"config": {"environment": self.config.model_dump()}}}

    async def _execute(self, command: str, cwd: str) -> ExecResult:
        turn = self._episode.turns[-1] if self._episode.turns else None
        if turn is not None:
            turn.actions.append(command)
        with self._episode.timed("exec"):
            argv = ["bash", "-c", _RUN, "bash", command.replace("\0", "")]
            result = await self._environment.exec(argv, cwd=cwd or None, env=self._env, timeout_s=self._timeout_s)
        if turn is not None:
            turn.results.append(result)
        return result
