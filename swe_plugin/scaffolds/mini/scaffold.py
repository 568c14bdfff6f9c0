"""`MiniSweAgentScaffold`: mini-swe-agent in the worker's process, asking through litellm and the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from swe_plugin.config import ScaffoldConfig, read_options
from swe_plugin.environments.home import home
from swe_plugin.errors import ConfigError, EnvironmentUnavailable, PluginError, ScaffoldError
from swe_plugin.gateway import MODEL, Gateway, Session
from swe_plugin.scaffolds.base import Episode, Scaffold
from swe_plugin.scaffolds.templates import TaskView
from swe_plugin.types import StopReason, Task

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.policies.base import Policy

__all__ = ["MiniOptions", "MiniSweAgentScaffold"]

_T = TypeVar("_T")
_OPTIONS = "swe.scaffold.options"
_STOPS = {
    "Submitted": StopReason.SUBMITTED,
    "LimitsExceeded": StopReason.MAX_TURNS,
    "TimeExceeded": StopReason.WALL_CLOCK,
    "RepeatedFormatError": StopReason.FORMAT_ERRORS,
}


@dataclass
class MiniOptions:
    """``swe.scaffold.options`` of the scaffold ``mini_swe_agent``."""

    config: str = "mini"
    """Name of a configuration that comes with mini-swe-agent, or a path. Its sections `agent`, `environment.env` and
    `model` are used; limits are those of `swe.scaffold`."""
    model_class: str = ""
    """As mini-swe-agent's ``--model-class``: `litellm` (tool calls) or, for configurations with fenced blocks,
    `litellm_textbased`; empty: what the configuration says, else `litellm`."""


class MiniSweAgentScaffold(Scaffold):
    """One thread per rollout, in which mini-swe-agent's own ``DefaultAgent`` runs.

    Args:
        settings: the ``swe.scaffold`` section: `max_turns`, `max_format_errors`, `command_timeout_s` and `options`.

    Raises:
        ConfigError: an option or the configuration is wrong.
        PluginError: mini-swe-agent is not installed.
    """

    def __init__(self, settings: ScaffoldConfig) -> None:
        self._settings, self._gateway = settings, Gateway()
        options = read_options(MiniOptions, settings.options, _OPTIONS)
        _prepare()
        try:
            from minisweagent.config import get_config_path
            from minisweagent.models import get_model_class
        except ImportError as error:
            raise PluginError(f"mini_swe_agent needs pip install 'swe-plugin[mini-swe-agent]' ({error})") from error
        try:
            config: dict[str, Any] = yaml.safe_load(get_config_path(options.config).read_text(encoding="utf-8"))
            self._agent_config, self._model_config = dict(config["agent"]), dict(config.get("model") or {})
            self._env = {name: str(value) for name, value in (config.get("environment") or {}).get("env", {}).items()}
            model_class = options.model_class or self._model_config.pop("model_class", "litellm")
            self._model: Any = get_model_class("", model_class)
        except (OSError, KeyError, TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
            fix = f"no configuration of mini-swe-agent ({type(error).__name__}: {error}): give a bundled name or a path"
            raise ConfigError(f"{_OPTIONS}.config", options.config, fix) from error

    async def run(self, task: Task, environment: Environment, policy: Policy, episode: Episode) -> StopReason:
        """Run the agent; see `Scaffold.run`. Stops: submitted, max_turns, format_errors, context_full.

        Raises:
            ScaffoldError: the agent raised something of its own.
        """
        async with self._gateway.open(policy, episode, max_calls=self._settings.max_turns) as session:
            from swe_plugin.scaffolds.mini.environment import MiniEnvironment

            limit = self._settings.command_timeout_s
            inside = MiniEnvironment(environment, episode, env=self._env, timeout_s=limit)
            try:
                end = await session.run(_in_thread(lambda: self._drive(task, inside, session)))
            except EnvironmentUnavailable:
                raise
            except Exception as error:
                if session.stop_reason(StopReason.STOPPED) is StopReason.CONTEXT_FULL:
                    return StopReason.CONTEXT_FULL
                if session.failed:
                    raise
                raise ScaffoldError(f"mini-swe-agent: {type(error).__name__}: {error}") from error
            finally:
                inside.stop()
            status = str((end or {}).get("exit_status", ""))
            return session.stop_reason(_STOPS.get(status, StopReason.STOPPED))

    async def close(self) -> None:
        """Stop the gateway."""
        await self._gateway.close()

    def _drive(self, task: Task, environment: Any, session: Session) -> dict[str, Any]:
        """The agent's whole life, in its thread."""
        from minisweagent.agents.default import DefaultAgent

        access = {"api_base": self._gateway.url, "api_key": session.key, "num_retries": 0, "max_retries": 0}
        config = {**self._model_config, "model_name": f"openai/{MODEL}", "cost_tracking": "ignore_errors"}
        model = self._model(**{**config, "model_kwargs": {**config.get("model_kwargs", {}), **access}})
        limits = {"step_limit": 0, "cost_limit": 0.0, "wall_time_limit_seconds": 0}  # the gateway counts
        limits["max_consecutive_format_errors"] = self._settings.max_format_errors
        agent = DefaultAgent(model, environment, **{**self._agent_config, **limits})
        view = TaskView.of(task)
        end: dict[str, Any] = agent.run(
            task.problem_statement, instance_id=view.instance_id, repo=view.repo, prompt_vars=dict(view.prompt_vars)
        )
        return end


def _prepare() -> None:
    """What mini-swe-agent and litellm read when they are imported: no banner, no settings or keys of this user, no
    download, no second round of retries."""
    os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
    os.environ.setdefault("MSWEA_GLOBAL_CONFIG_DIR", str(home() / "mini-swe-agent"))
    os.environ.setdefault("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


async def _in_thread(work: Callable[[], _T]) -> _T:
    """As `asyncio.to_thread`, in a thread of its own: rollouts are more than a pool has, and each waits most of the
    time. Cancelled, it does not wait for the thread."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)

    def body() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=body, daemon=True, name="swe-mini").start()
    return await done
