"""`LitellmPolicy`: a hosted model, or any server that speaks OpenAI's protocol. Extra ``litellm``."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from swe_plugin.errors import BudgetSpent, ConfigError, ContextOverflow, PluginError, PolicyError
from swe_plugin.policies.answer_cache import AnswerCache
from swe_plugin.policies.pace import Pace
from swe_plugin.types import Message, Reply, Segment, ToolCall

if TYPE_CHECKING:
    from swe_plugin.config import PolicyConfig

__all__ = ["LitellmPolicy"]

_EXTRA = "litellm is not installed: pip install 'swe-plugin[litellm]'"
_OPTIONS = "swe.policy.litellm"
_SECRET = re.compile(r"(api_key|token|secret\w*|password|credentials|headers)$")
_BASES = ("api_base", "base_url")
_NOT_ASKED = ("api_key", "timeout", "num_retries", "max_retries")
"""Arguments that no answer depends on."""
_MAX_BACKOFF_S = 30.0
_PASSING = (408, 409, 429)
"""Refusals of today: time-out, conflict, rate limit (RFC 9110, RFC 6585). Other 4xx will be refused again."""
_NO_KEY = "none"
"""Sent to a server of one's own that wants no key; clients of OpenAI's protocol refuse to send nothing."""


class LitellmPolicy:
    """Satisfies `policies.base.Policy`. No token is recorded: what it answers can be judged, not trained on.

    A call is tried ``max_attempts`` times where trying again can help, each time for ``call_timeout_s``. API keys come
    from the provider's environment variables and from nowhere else, so none can reach a record.

    Args:
        model: litellm's name, provider first: ``openai/gpt-5-mini``, ``anthropic/...``, ``hosted_vllm/...``.
        settings: the ``swe.policy`` section; `litellm` of it goes into every call.
        usage: where use is summed up; give the same one to a retry's policy.
        backoff_s: pause before the second call of one answer; doubles, up to 30.

    Attributes:
        usage: ``calls``, ``prompt_tokens``, ``completion_tokens``, ``cached_calls``, and ``cost_usd`` where litellm
            knows the price.

    Raises:
        PluginError: litellm is not installed.
        ConfigError: unknown provider, no API key, or an option that must not be one.
    """

    def __init__(
        self,
        model: str,
        settings: PolicyConfig,
        usage: MutableMapping[str, float] | None = None,
        *,
        backoff_s: float = 1.0,
    ) -> None:
        self._litellm = _import()
        self.usage: MutableMapping[str, float] = {} if usage is None else usage
        self._arguments: dict[str, Any] = {
            "model": model,
            "timeout": settings.call_timeout_s,
            "num_retries": 0,  # litellm would retry at two levels, which multiply, and refused keys as well
            "max_retries": 0,
            **({"max_tokens": settings.max_turn_tokens} if settings.max_turn_tokens else {}),
            **_checked(settings.litellm),
        }
        self._arguments |= self._credentials(model)
        self._attempts = AsyncRetrying(
            stop=stop_after_attempt(settings.max_attempts),
            wait=wait_exponential(multiplier=backoff_s, max=_MAX_BACKOFF_S) + wait_random(0, backoff_s),
            retry=retry_if_exception(_may_pass),
            reraise=True,
        )
        self._max_cost_usd, self._pace = settings.max_cost_usd, Pace(settings.calls_per_minute)
        self._cache = self._open_cache(settings.cache_dir)

    @property
    def takes_seed(self) -> bool:
        """Whether the provider's protocol has a seed; what a model makes of it is another matter."""
        return "seed" in (self._litellm.get_supported_openai_params(self._arguments["model"]) or [])

    @property
    def segments(self) -> Sequence[Segment]:
        """Always empty: token ids stay with the provider."""
        return ()

    async def respond(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        """Answer the conversation; see `Policy.respond`.

        Raises:
            ContextOverflow: the conversation is longer than the model's window, or the rollout has cost what it may.
            PolicyError: no answer after bounded retries; the message has the provider's reason.
        """
        if 0 < self._max_cost_usd <= self.usage.get("cost_usd", 0.0):
            raise BudgetSpent(f"swe.policy.max_cost_usd={self._max_cost_usd:g} is spent")
        asked = {"messages": [_to_openai(message) for message in messages], **({"tools": list(tools)} if tools else {})}
        key = ""
        if self._cache is not None:
            plain = {name: value for name, value in self._arguments.items() if name not in _NOT_ASKED}
            key = self._cache.key({**plain, **asked})
            if (kept := await asyncio.to_thread(self._cache.get, key)) is not None:
                self._add("cached_calls", 1.0)
                return kept
        reply = await self._ask(asked)
        if self._cache is not None:
            await asyncio.to_thread(self._cache.put, key, reply)
        return reply

    async def _ask(self, asked: Mapping[str, Any]) -> Reply:
        try:
            response: Any = await self._attempts(self._call, asked)
        except self._litellm.ContextWindowExceededError as error:
            raise ContextOverflow(_line(error)) from error
        except Exception as error:  # litellm maps every provider's errors, each of them a failure to answer
            raise PolicyError(_line(error)) from error
        self._count(response)
        choice = response.choices[0]
        message = Message("assistant", choice.message.content or "", tuple(map(_call, choice.message.tool_calls or ())))
        n_tokens, n_prompt = (int(_tokens(response, f"{name}_tokens")) for name in ("completion", "prompt"))
        return Reply(message, choice.finish_reason == "length", n_tokens, n_prompt=n_prompt)

    async def _call(self, asked: Mapping[str, Any]) -> Any:
        await self._pace.turn()
        return await self._litellm.acompletion(**self._arguments, **asked)

    def _open_cache(self, directory: str) -> AnswerCache | None:
        if not directory:
            return None
        if self._arguments.get("temperature") != 0 and "seed" not in self._arguments:
            fix = f"needs {_OPTIONS}.temperature=0, or a seed: otherwise all samples of a task would be one answer"
            raise ConfigError("swe.policy.cache_dir", directory, fix)
        return AnswerCache(Path(directory))

    def _credentials(self, model: str) -> dict[str, str]:
        """What is missing is said before an environment starts.

        Raises:
            ConfigError: unknown provider, or no key where one is needed.
        """
        try:
            _, provider, _, _ = self._litellm.get_llm_provider(model)
        except self._litellm.BadRequestError as error:
            raise ConfigError(
                "--policy", f"litellm:{model}", "no known provider; write litellm:<provider>/<model>"
            ) from error
        missing = self._litellm.validate_environment(model)["missing_keys"]
        if not missing:
            return {}
        bases = [f"{provider.upper()}_API_BASE", f"{provider.upper()}_BASE_URL"]
        if any(name in self._arguments for name in _BASES) or any(os.environ.get(name) for name in bases):
            return {"api_key": _NO_KEY}
        fix = f"set {' and '.join(missing)}, or {_OPTIONS}.api_base for a server of your own"
        raise ConfigError("--policy", f"litellm:{model}", fix)

    def _count(self, response: Any) -> None:
        cost = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
        spent = {"calls": 1.0, **{name: _tokens(response, name) for name in ("prompt_tokens", "completion_tokens")}}
        for name, amount in (spent | ({"cost_usd": cost} if cost is not None else {})).items():
            self._add(name, amount)

    def _add(self, name: str, amount: float) -> None:
        self.usage[name] = self.usage.get(name, 0.0) + amount


def _import() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # prices from the package, no download at import
    try:
        import litellm
    except ImportError as error:
        raise PluginError(f"{_EXTRA} ({error})" if error.name != "litellm" else _EXTRA) from error
    litellm.suppress_debug_info = True
    return litellm


def _may_pass(error: BaseException) -> bool:
    status = getattr(error, "status_code", None) or 500
    return isinstance(error, Exception) and (status >= 500 or status in _PASSING)


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    for name in options:
        if _SECRET.search(name):
            fix = "secrets go into the provider's environment variable, e.g. OPENAI_API_KEY"
            raise ConfigError(f"{_OPTIONS}.{name}", "***", fix)
        if name in ("model", "messages", "tools", "stream", "n"):
            raise ConfigError(f"{_OPTIONS}.{name}", options[name], "is not yours to set: it follows from the episode")
    return dict(options)


def _to_openai(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": c.call_id,
                "type": "function",
                "function": {"name": c.name, "arguments": json.dumps(dict(c.arguments))},
            }
            for c in message.tool_calls
        ]
    return plain | ({"tool_call_id": message.tool_call_id} if message.tool_call_id else {})


def _call(call: Any) -> ToolCall:
    """A call whose arguments are no JSON object has none, which the agent is told like any other mistake."""
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except ValueError:
        arguments = {}
    return ToolCall(call.function.name or "", arguments if isinstance(arguments, dict) else {}, call.id or "")


def _tokens(response: Any, name: str) -> float:
    return float(getattr(getattr(response, "usage", None), name, 0) or 0)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
